//! From a grid frame to a feature row.

use anticip_geometry::Quat;

use super::FrontConfig;
use super::output::{Counters, FrontOutput};
use crate::canonical::JOINT_COUNT;
use crate::completion::Completion;
use crate::features::{CanonicalPose, FEATURE_COUNT, FeatureExtractor};
use crate::noise::NoiseGate;
use crate::pose::Pose;
use crate::resample::GridFrame;

/// The noise gate of a body with these joints, where one is wanted.
pub(super) fn gate_for(config: FrontConfig, mask: &[bool; JOINT_COUNT]) -> Option<NoiseGate> {
    config.steady.then(|| NoiseGate::new(mask, config.noise.as_ref()))
}

/// The grid frame behind the noise gate.
pub(super) fn still<'a>(
    grid: GridFrame,
    frame: &'a Pose,
    gate: Option<&'a mut NoiseGate>,
    out: &mut FrontOutput,
) -> &'a Pose {
    let Some(gate) = gate else { return frame };
    if grid.start {
        gate.restart();
    }
    gate.push(frame);
    out.activity = gate.openness() as f32;
    gate.pose()
}

/// Turns one grid frame into a feature row.
pub(super) fn row(
    grid: GridFrame,
    frame: &Pose,
    held: &mut [u32; 2],
    completion: Option<&mut Completion>,
    extractor: &mut FeatureExtractor,
    out: &mut FrontOutput,
    counters: &mut Counters,
) {
    if grid.start {
        // Rows of the same datagram before this one belong to a stream that is over.
        out.rows.clear();
        out.poses.clear();
        out.filled = 0;
        out.reset = true;
        counters.resets += 1;
        extractor.reset();
        held[1] = held[0];
    }
    let mut whole: [Quat; JOINT_COUNT] = std::array::from_fn(|j| frame.rotations[j]);
    if let Some(completion) = completion {
        if grid.start {
            completion.reset();
        }
        completion.push(&mut whole);
    }
    // Rounded once, here: what leaves is what the features were made of.
    let mut pose = CanonicalPose::default();
    for (slot, q) in pose.iter_mut().zip(&whole) {
        *slot = q.to_array().map(|v| v as f32);
    }
    out.root = frame.root.map(|v| v as f32);
    let missing = if grid.fraction >= 1.0 {
        held[0]
    } else {
        held[0] | held[1]
    };
    let mut features = [0.0; FEATURE_COUNT];
    extractor.push(&pose, out.root, missing, &mut features);
    out.poses.push(pose);
    out.rows.push(features);
}
