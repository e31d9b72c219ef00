//! Conversion of a grid frame to a feature row.

use anticip_geometry::Quat;

use super::output::{Counters, FrontOutput};
use crate::canonical::JOINT_COUNT;
use crate::completion::Completion;
use crate::features::{CanonicalPose, FEATURE_COUNT, FeatureExtractor};
use crate::noise::NoiseGate;
use crate::pose::Pose;
use crate::resample::GridFrame;

/// Passes the grid frame through the noise gate, if there is one.
pub(super) fn apply_gate<'a>(
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
    out.activity = gate.activity() as f32;
    gate.pose()
}

/// Appends the feature row and the pose of one grid frame to `out`.
pub(super) fn push_row(
    grid: GridFrame,
    frame: &Pose,
    unmeasured: &mut [u32; 2],
    completion: Option<&mut Completion>,
    extractor: &mut FeatureExtractor,
    out: &mut FrontOutput,
    counters: &mut Counters,
) {
    if grid.start {
        // Earlier rows of the same datagram belong to a stream that is over.
        out.rows.clear();
        out.poses.clear();
        out.filled = 0;
        out.reset = true;
        counters.resets += 1;
        extractor.reset();
        unmeasured[1] = unmeasured[0];
    }
    let mut whole: [Quat; JOINT_COUNT] = std::array::from_fn(|j| frame.rotations[j]);
    if let Some(completion) = completion {
        if grid.start {
            completion.reset();
        }
        completion.push(&mut whole);
    }
    // Rounded only here, so that the features are computed from the very pose that is output.
    let mut pose = CanonicalPose::default();
    for (slot, q) in pose.iter_mut().zip(&whole) {
        *slot = q.to_array().map(|v| v as f32);
    }
    out.root = frame.root.map(|v| v as f32);
    let missing = if grid.fraction >= 1.0 {
        unmeasured[0]
    } else {
        unmeasured[0] | unmeasured[1]
    };
    let mut features = [0.0; FEATURE_COUNT];
    extractor.push(&pose, out.root, missing, &mut features);
    out.poses.push(pose);
    out.rows.push(features);
}
