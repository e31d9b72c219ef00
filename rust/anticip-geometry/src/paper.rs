//! The papers' whole-sequence normalisers, for analysis plots only: every value depends on the whole sequence,
//! including the future, so they must not be used for streaming or training.

use crate::config::Options;
use crate::engine::{Engine, Parts};
use crate::increments::Increments;
use crate::space::Space;
use crate::stream::{PoseStream, VectorStream};

// Compiled here once instead of for each type of number that a caller uses.
pub(crate) fn whole_pose(stream: &PoseStream, options: &Options, states: &[f64], out: &mut [[f64; 7]]) {
    whole_sequence(stream.space(), options, states, out);
}

pub(crate) fn whole_vector(stream: &VectorStream, options: &Options, states: &[f64], out: &mut [[f64; 7]]) {
    whole_sequence(stream.space(), options, states, out);
}

/// Scalars with the centre, radius and largest jerk of the whole sequence and novelty against every earlier frame.
fn whole_sequence<S: Space + Clone>(space: S, options: &Options, states: &[f64], out: &mut [[f64; 7]]) {
    let len = space.state_len();
    let frames: Vec<&[f64]> = states.chunks_exact(len).collect();
    let Some(newest) = frames.last() else { return };
    let mut sums = space.clone();
    frames.iter().for_each(|state| sums.enter(state));
    let mut centre = vec![0.0; len];
    sums.centre(frames.len(), newest, &mut centre);
    let offsets: Vec<f64> = frames
        .iter()
        .map(|state| space.dist2(state, &centre).sqrt())
        .collect();
    let radius = offsets.iter().copied().fold(0.0, f64::max);
    let stride = options.stride;
    let jerks = jerks(&space, &frames, stride);
    let largest = jerks.iter().copied().fold(0.0, f64::max);
    let ratio = |value: f64, max: f64| {
        if max > 0.0 {
            (value / max).clamp(0.0, 1.0)
        } else {
            0.0
        }
    };

    let has_limits = space.proximity(newest, None).is_some();
    let mut engine = Engine::new(
        space.clone(),
        Options {
            window: None,
            ..options.clone()
        },
    );
    for (t, (state, out)) in frames.iter().zip(out).enumerate() {
        let causal = engine.advance(state);
        let nearest2 = frames[..t]
            .iter()
            .map(|s| space.dist2(s, state))
            .fold(f64::INFINITY, f64::min);
        *out = engine.combine(&Parts {
            proximity: if has_limits {
                causal.proximity
            } else {
                ratio(offsets[t], radius)
            },
            novelty: if t == 0 {
                1.0
            } else {
                ratio(nearest2.sqrt(), 2.0 * radius)
            },
            stability: if t < 3 * stride {
                1.0
            } else {
                1.0 - ratio(jerks[t], largest)
            },
            ..causal
        });
    }
}

/// Norms of the third differences over a stride; zero for the frames of the first three strides.
fn jerks<S: Space>(space: &S, frames: &[&[f64]], stride: usize) -> Vec<f64> {
    let mut increments = Increments::new(stride, 2 * stride + 1, space.tangent_len());
    let one = |(t, to): (usize, &&[f64])| {
        let from = t.checked_sub(stride).map(|before| frames[before]);
        increments.take(t, space, from, to);
        increments.jerk(t)
    };
    frames.iter().enumerate().map(one).collect()
}
