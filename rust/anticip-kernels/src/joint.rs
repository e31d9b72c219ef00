//! Two linear layers, of which the second sees the first, as one matrix.

use crate::error::{KernelError, check};
use crate::fold::dot;
use crate::real::Real;

/// Fibre (W, D) and hidden layer `inner` (N, D + W), which sees step and fibre, as one matrix (W + N, D).
pub fn joint<T: Real>(fibre: &[T], inner: &[T], width: usize, out: &mut [T]) -> Result<(), KernelError> {
    let (fibres, hidden) = sizes(fibre, inner, width)?;
    check("joint", out, (fibres + hidden) * width)?;
    let (first, rest) = out.split_at_mut(fibre.len());
    first.copy_from_slice(fibre);
    for (out, inner) in rest.chunks_mut(width).zip(inner.chunks(width + fibres)) {
        let (direct, through) = inner.split_at(width);
        out.copy_from_slice(direct);
        for (&weight, fibre) in through.iter().zip(fibre.chunks(width)) {
            for (out, &fibre) in out.iter_mut().zip(fibre) {
                *out = *out + weight * fibre;
            }
        }
    }
    Ok(())
}

/// Gradients by the two of [`joint`], of that by their joint matrix.
pub fn disjoin<T: Real>(
    fibre: &[T],
    inner: &[T],
    width: usize,
    of_joint: &[T],
    of_fibre: &mut [T],
    of_inner: &mut [T],
) -> Result<(), KernelError> {
    let (fibres, hidden) = sizes(fibre, inner, width)?;
    check("gradient of joint", of_joint, (fibres + hidden) * width)?;
    check("gradient of fibre", of_fibre, fibre.len())?;
    check("gradient of inner", of_inner, inner.len())?;
    let (first, rest) = of_joint.split_at(fibre.len());
    of_fibre.copy_from_slice(first);
    let rows = rest.chunks(width).zip(inner.chunks(width + fibres));
    for ((grad, inner), of_inner) in rows.zip(of_inner.chunks_mut(width + fibres)) {
        let (direct, through) = of_inner.split_at_mut(width);
        direct.copy_from_slice(grad);
        let weights = inner[width..].iter().zip(through);
        for ((&weight, of_weight), (fibre, of_fibre)) in
            weights.zip(fibre.chunks(width).zip(of_fibre.chunks_mut(width)))
        {
            *of_weight = dot(grad, fibre);
            for (of_fibre, &grad) in of_fibre.iter_mut().zip(grad) {
                *of_fibre = *of_fibre + weight * grad;
            }
        }
    }
    Ok(())
}

/// How many fibres and hidden units such matrices have.
fn sizes<T>(fibre: &[T], inner: &[T], width: usize) -> Result<(usize, usize), KernelError> {
    if width == 0 {
        return Err(KernelError::Width);
    }
    let fibres = fibre.len() / width;
    check("fibre", fibre, fibres * width)?;
    let wide = width.saturating_add(fibres);
    let hidden = inner.len() / wide;
    check("inner", inner, hidden * wide)?;
    Ok((fibres, hidden))
}
