//! Sums in loops that a compiler turns into vector code.

use crate::real::Real;

/// Partial sums, so that additions need not wait for each other. The order of additions is fixed: the same on
/// every machine.
const LANES: usize = 32;

/// `sum f(a[i], b[i])`.
#[inline(always)]
fn fold<T: Real>(a: &[T], b: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut parts = [T::ZERO; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for i in 0..LANES {
            parts[i] = parts[i] + f(a[i], b[i]);
        }
    }
    let mut total = T::ZERO;
    for (&a, &b) in a_rest.iter().zip(b_rest) {
        total = total + f(a, b);
    }
    halves(&mut parts, |a, b| a + b) + total
}

/// All lanes as one number, in pairs.
#[inline(always)]
fn halves<T: Real>(parts: &mut [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            parts[i] = f(parts[i], parts[i + width]);
        }
        width /= 2;
    }
    parts[0]
}

#[inline(always)]
pub(crate) fn sum<T: Real>(a: &[T]) -> T {
    fold(a, a, |a, _| a)
}

#[inline(always)]
pub(crate) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    fold(a, b, |a, b| a * b)
}
