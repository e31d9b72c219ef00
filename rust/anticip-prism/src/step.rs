//! One step of one cursor, forward and backward, in loops that a compiler turns into vector code.

use crate::real::Real;
use crate::scan::MOVES;

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

#[inline(always)]
fn max<T: Real>(a: &[T]) -> T {
    let larger = |a: T, b: T| if b > a { b } else { a };
    let mut parts = [a[0]; LANES];
    let (lanes, rest) = a.as_chunks::<LANES>();
    for lane in lanes {
        for i in 0..LANES {
            parts[i] = larger(parts[i], lane[i]);
        }
    }
    rest.iter().fold(halves(&mut parts, larger), |m, &x| larger(m, x))
}

/// The histogram after a move, not sharpened: `n` from `h`; both have at least two places.
#[inline(always)]
pub(crate) fn shift<T: Real>(h: &[T], moves: &[T; MOVES], jump: Option<&[T]>, total: T, n: &mut [T]) {
    let [inc, dec, keep, to0, to1] = *moves;
    let last = h.len() - 1;
    n[0] = (keep + dec) * h[0] + dec * h[1];
    n[last] = (keep + inc) * h[last] + inc * h[last - 1];
    let inner = n[1..last].iter_mut();
    for (((n, &here), &below), &above) in inner.zip(&h[1..last]).zip(&h[..last - 1]).zip(&h[2..]) {
        *n = keep * here + inc * below + dec * above;
    }
    n[0] = n[0] + to0 * total;
    n[1] = n[1] + to1 * total;
    if let Some(jump) = jump {
        for (n, &p) in n.iter_mut().zip(jump) {
            *n = *n + p * total;
        }
    }
}

/// `(n + eps)^gamma` over its sum, in place; the largest is 1 before the division, so that nothing vanishes.
#[inline(always)]
pub(crate) fn sharpen<T: Real>(n: &mut [T], gamma: T) {
    let top = (max(n) + T::EPS).ln();
    for n in n.iter_mut() {
        *n = gamma * ((*n + T::EPS).ln() - top);
    }
    for n in n.iter_mut() {
        *n = n.exp();
    }
    let scale = T::ONE / sum(n);
    for n in n.iter_mut() {
        *n = *n * scale;
    }
}

/// What one step passes back beside the gradient of the histogram before it.
pub(crate) struct Passed<T> {
    pub(crate) moves: [T; MOVES],
    pub(crate) gamma: T,
}

/// Gradients through one step.
///
/// `before` and `after` are its histograms, `after_grad` the gradient of the second; `n` is scratch. `d` takes the
/// gradient of the unsharpened histogram, `before_grad` that of the first.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "slices of one cursor, all of them needed"
)]
pub(crate) fn back<T: Real>(
    before: &[T],
    after: &[T],
    after_grad: &[T],
    moves: &[T; MOVES],
    jump: Option<(&[T], &mut [T])>,
    gamma: Option<T>,
    n: &mut [T],
    d: &mut [T],
    before_grad: &mut [T],
) -> Passed<T> {
    let [inc, dec, keep, to0, to1] = *moves;
    let last = before.len() - 1;
    let total = sum(before);
    let mut passed = Passed {
        moves: [T::ZERO; MOVES],
        gamma: T::ZERO,
    };
    if let Some(gamma) = gamma {
        shift(before, moves, jump.as_ref().map(|j| j.0), total, n);
        let mean = dot(after_grad, after);
        // Three short loops: as one, compilers give up on it.
        for (d, &n) in d.iter_mut().zip(&*n) {
            *d = (n + T::EPS).ln();
        }
        for ((n, &g), &h) in before_grad.iter_mut().zip(after_grad).zip(after) {
            *n = h * (g - mean);
        }
        passed.gamma = dot(d, before_grad);
        for ((d, &n), &flow) in d.iter_mut().zip(&*n).zip(&*before_grad) {
            *d = gamma * flow / (n + T::EPS);
        }
    } else {
        d.copy_from_slice(after_grad);
    }
    let d = &*d;
    passed.moves = [
        dot(&before[..last], &d[1..]) + before[last] * d[last],
        dot(&before[1..], &d[..last]) + before[0] * d[0],
        dot(before, d),
        total * d[0],
        total * d[1],
    ];
    let mut all = to0 * d[0] + to1 * d[1];
    if let Some((jump, jump_grad)) = jump {
        all = all + dot(jump, d);
        for (out, &d) in jump_grad.iter_mut().zip(d) {
            *out = total * d;
        }
    }
    before_grad[0] = (keep + dec) * d[0] + inc * d[1] + all;
    before_grad[last] = (keep + inc) * d[last] + dec * d[last - 1] + all;
    let inner = before_grad[1..last].iter_mut();
    for (((out, &here), &below), &above) in inner.zip(&d[1..last]).zip(&d[..last - 1]).zip(&d[2..]) {
        *out = keep * here + dec * below + inc * above + all;
    }
    passed
}
