//! Scalars of whole sequences, computed by the streams, with sequences in parallel.

use rayon::prelude::*;

use crate::config::{Options, PoseConfig};
use crate::error::{GeometryError, check};
use crate::paper::{whole_pose, whole_vector};
use crate::stream::{PoseStream, VectorStream};

/// Most frames whose rotations can be summed for a mean.
const MAX_FRAMES: usize = (1 << 15) - 1;

/// Scalars of many pose sequences, `quats` of shape `(sequences, frames, joints)`: the same values as [`PoseStream`]
/// gives frame by frame, in shape `(sequences, frames)`.
///
/// With `paper` they have the papers' normalisers over the whole sequence instead, for analysis only. The window is
/// then the whole prefix, whatever the options say, of 32,767 frames at most; joint limits are used if given.
pub fn pose_scalars<T: Copy + Into<f64> + Sync>(
    quats: &[[T; 4]],
    frames: usize,
    joints: usize,
    config: &PoseConfig,
    paper: bool,
) -> Result<Vec<[f64; 7]>, GeometryError> {
    let stream = PoseStream::new(joints, config.clone())?;
    let most = format!("at most {MAX_FRAMES} frames for \"paper\"");
    check(!paper || frames <= MAX_FRAMES, "profile", most, frames)?;
    let what = "sequences x frames x joints";
    each_sequence(stream, what, quats, frames, joints, |stream, seq, out| {
        stream.reset();
        let mut states = Vec::new();
        for (o, pose) in out.iter_mut().zip(seq.chunks_exact(joints)) {
            let repaired = stream.repair(pose)?;
            if paper {
                states.extend_from_slice(repaired);
            } else {
                *o = stream.step();
            }
        }
        if paper {
            whole_pose(stream, &config.options, &states, out);
        }
        Ok(())
    })
}

/// Scalars of many vector sequences, `x` of shape `(sequences, frames, dim)`: the same values as [`VectorStream`]
/// gives frame by frame, in shape `(sequences, frames)`; `paper` as in [`pose_scalars`].
pub fn vector_scalars<T: Copy + Into<f64> + Sync>(
    x: &[T],
    frames: usize,
    dim: usize,
    options: &Options,
    paper: bool,
) -> Result<Vec<[f64; 7]>, GeometryError> {
    let stream = VectorStream::new(dim, options.clone())?;
    let what = "sequences x frames x dim";
    each_sequence(stream, what, x, frames, dim, |stream, seq, out| {
        stream.reset();
        let mut states = Vec::new();
        for (o, state) in out.iter_mut().zip(seq.chunks_exact(dim)) {
            let repaired = stream.repair(state)?;
            if paper {
                states.extend_from_slice(repaired);
            } else {
                *o = stream.step();
            }
        }
        if paper {
            whole_vector(stream, options, &states, out);
        }
        Ok(())
    })
}

/// Calls `one` for each sequence of `values`, `frames` times `parts` of them; each thread has a stream of its own.
///
/// # Errors
/// A number of values that is not a whole number of sequences, named `what`, and the errors of `one`.
fn each_sequence<S: Clone + Send, V: Sync>(
    stream: S,
    what: &'static str,
    values: &[V],
    frames: usize,
    parts: usize,
    one: impl Fn(&mut S, &[V], &mut [[f64; 7]]) -> Result<(), GeometryError> + Send + Sync,
) -> Result<Vec<[f64; 7]>, GeometryError> {
    let given = values.len();
    let length = frames.saturating_mul(parts);
    let expected = given.checked_div(length).map_or(0, |n| n * length);
    if given != expected {
        return Err(GeometryError::Length {
            what,
            expected: expected.max(length),
            given,
        });
    }
    let mut out = vec![[0.0; 7]; given / parts];
    if length > 0 {
        out.par_chunks_mut(frames)
            .zip(values.par_chunks(length))
            .try_for_each_with(stream, |stream, (out, seq)| one(stream, seq, out))?;
    }
    Ok(out)
}
