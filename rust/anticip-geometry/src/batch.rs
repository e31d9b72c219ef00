//! Whole sequences at once: the streams, run over each sequence, sequences in parallel.

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use crate::config::{PoseConfig, VectorConfig};
use crate::error::GeometryError;
use crate::stream::{PoseStream, VectorStream};

/// The scalars of many pose sequences, `quats` of shape `(sequences, frames, joints)`: the very values
/// [`PoseStream`] gives frame by frame, in shape `(sequences, frames)`.
pub fn pose_scalars<T: Copy + Into<f64> + Sync>(
    quats: &[[T; 4]],
    frames: usize,
    joints: usize,
    config: &PoseConfig,
) -> Result<Vec<[f64; 7]>, GeometryError> {
    let stream = PoseStream::new(joints, config.clone())?;
    let one = sequence_len("sequences x frames x joints", quats.len(), frames, joints)?;
    let mut out = vec![[0.0; 7]; quats.len() / joints];
    if one == 0 {
        return Ok(out);
    }
    out.par_chunks_mut(frames)
        .zip(quats.par_chunks(one))
        .try_for_each_with(stream, |stream, (out, seq)| {
            stream.reset();
            for (o, pose) in out.iter_mut().zip(seq.chunks_exact(joints)) {
                *o = stream.push_any(pose)?;
            }
            Ok(())
        })?;
    Ok(out)
}

/// The scalars of many vector sequences, `x` of shape `(sequences, frames, dim)`: the very values
/// [`VectorStream`] gives frame by frame, in shape `(sequences, frames)`.
pub fn vector_scalars<T: Copy + Into<f64> + Sync>(
    x: &[T],
    frames: usize,
    dim: usize,
    config: &VectorConfig,
) -> Result<Vec<[f64; 7]>, GeometryError> {
    let stream = VectorStream::new(dim, config.clone())?;
    let one = sequence_len("sequences x frames x dim", x.len(), frames, dim)?;
    let mut out = vec![[0.0; 7]; x.len() / dim];
    if one == 0 {
        return Ok(out);
    }
    out.par_chunks_mut(frames)
        .zip(x.par_chunks(one))
        .try_for_each_with(stream, |stream, (out, seq)| {
            Arch::new().dispatch(Sequence {
                stream,
                x: seq,
                dim,
                out,
            })
        })?;
    Ok(out)
}

/// One vector sequence, compiled for each instruction set there may be and run with the best that there is. No
/// compiler reorders or fuses floating-point operations on its own: all of them give the same bits.
struct Sequence<'a, T> {
    stream: &'a mut VectorStream,
    x: &'a [T],
    dim: usize,
    out: &'a mut [[f64; 7]],
}

impl<T: Copy + Into<f64>> NullaryFnOnce for Sequence<'_, T> {
    type Output = Result<(), GeometryError>;

    #[inline(always)]
    fn call(self) -> Self::Output {
        self.stream.reset();
        for (o, state) in self.out.iter_mut().zip(self.x.chunks_exact(self.dim)) {
            *o = self.stream.push_any(state)?;
        }
        Ok(())
    }
}

/// Values in one sequence, once it is known that they divide what is given.
pub(crate) fn sequence_len(
    what: &'static str,
    given: usize,
    frames: usize,
    parts: usize,
) -> Result<usize, GeometryError> {
    let one = frames.saturating_mul(parts);
    let expected = given.checked_div(one).map_or(0, |n| n * one);
    if given != expected {
        return Err(GeometryError::Length {
            what,
            expected: expected.max(one),
            given,
        });
    }
    Ok(one)
}
