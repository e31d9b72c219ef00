//! One step of one cursor, forward and backward.
//!
//! A histogram is stored in a padded row: one zero, its P places, and zeros up to a whole number of blocks plus one
//! more. So every place has both neighbours, and every loop is over whole blocks.

use pulp::Simd;

use crate::lanes::Lanes;

/// Number of weights of a cursor's moves in one step: up by one, down by one, not at all, to place 0, to place 1.
pub const MOVES: usize = 5;

/// Vectors processed together, with separate partial sums, so that additions do not wait for each other.
const TOGETHER: usize = 2;

type Block<S, T> = [<T as Lanes>::Vector<S>; TOGETHER];

/// Places of a block.
#[inline(always)]
fn lanes<S: Simd, T: Lanes>() -> usize {
    TOGETHER * T::lanes::<S>()
}

/// Length of a padded row.
#[inline(always)]
pub(crate) fn padded<S: Simd, T: Lanes>(places: usize) -> usize {
    places.next_multiple_of(lanes::<S, T>()) + 2
}

/// A padded row in blocks, from index `from` on: 1 for the places themselves, 0 for those below, 2 for those above.
#[inline(always)]
fn blocks<S: Simd, T: Lanes>(row: &[T], from: usize) -> &[Block<S, T>] {
    T::vectors::<S>(&row[from..][..row.len() - 2]).as_chunks().0
}

#[inline(always)]
fn blocks_mut<S: Simd, T: Lanes>(row: &mut [T]) -> &mut [Block<S, T>] {
    T::vectors_mut::<S>(&mut row[1..]).as_chunks_mut().0
}

/// The total of partial sums.
#[inline(always)]
fn sum<S: Simd, T: Lanes>(s: S, [a, b]: Block<S, T>) -> T {
    T::sum(s, T::plus(s, a, b))
}

/// Whether all of a block is at most `limit`.
#[inline(always)]
fn all_at_most<S: Simd, T: Lanes>(s: S, [a, b]: Block<S, T>, limit: T::Vector<S>) -> bool {
    // Compared separately: the maximum of a number and NaN may be either.
    !(T::any_above(s, a, limit) || T::any_above(s, b, limit))
}

/// Limit up to which values are so small relative to `Real::EPS` that their power is linear, for an exponent.
#[inline(always)]
fn limit<S: Simd, T: Lanes>(s: S, gamma: T) -> T::Vector<S> {
    T::splat(s, T::LINEAR * T::EPS / gamma)
}

/// Adds `f(a[i])` to `into[i]`.
#[inline(always)]
pub(crate) fn add_to<S: Simd, T: Lanes>(
    s: S,
    into: &mut [T],
    from: &[T],
    f: impl Fn(T::Vector<S>) -> T::Vector<S>,
) {
    let whole = T::vectors::<S>(from);
    for (into, &from) in T::vectors_mut::<S>(into).iter_mut().zip(whole) {
        *into = T::plus(s, *into, f(from));
    }
    let done = size_of_val(whole) / size_of::<T>();
    let (into, from) = (&mut into[done..], &from[done..]);
    if !into.is_empty() {
        let values = T::plus(s, T::load(s, into), f(T::load(s, from)));
        T::store(s, into, values);
    }
}

/// Weights of a place's neighbours and of itself.
#[derive(Clone, Copy)]
struct Stencil<S: Simd, T: Lanes> {
    below: T::Vector<S>,
    here: T::Vector<S>,
    above: T::Vector<S>,
}

impl<S: Simd, T: Lanes> Stencil<S, T> {
    #[inline(always)]
    fn new(s: S, below: T, here: T, above: T) -> Self {
        Self {
            below: T::splat(s, below),
            here: T::splat(s, here),
            above: T::splat(s, above),
        }
    }

    #[inline(always)]
    fn apply(self, s: S, below: T::Vector<S>, here: T::Vector<S>, above: T::Vector<S>) -> T::Vector<S> {
        let ends = T::fma(s, self.below, below, T::times(s, self.above, above));
        T::fma(s, self.here, here, ends)
    }
}

/// Adds the contributions of ends, resets and jumps to a histogram `n` after a move from `h`.
#[inline(always)]
fn finish<S: Simd, T: Lanes>(
    s: S,
    h: &[T],
    moves: &[T; MOVES],
    jump: Option<&[T]>,
    total: T,
    places: usize,
    n: &mut [T],
) {
    let [inc, dec, _, to0, to1] = *moves;
    n[1] = n[1] + dec * h[1];
    n[places] = n[places] + inc * h[places];
    n[1] = n[1] + to0 * total;
    n[2] = n[2] + to1 * total;
    if let Some(jump) = jump {
        let total = T::splat(s, total);
        add_to(s, &mut n[1..=places], jump, |p| T::times(s, p, total));
    }
    n[places + 1..].fill(T::ZERO);
}

/// Computes the histogram `n` after a move from `h`, not sharpened; both are padded, with at least two places.
#[inline(always)]
pub(crate) fn shift<S: Simd, T: Lanes>(
    s: S,
    h: &[T],
    moves: &[T; MOVES],
    jump: Option<&[T]>,
    places: usize,
    n: &mut [T],
) {
    let [inc, dec, keep, ..] = *moves;
    let stencil = Stencil::<S, T>::new(s, inc, keep, dec);
    let mut total = [T::splat(s, T::ZERO); TOGETHER];
    let neighbours = blocks::<S, T>(h, 0).iter().zip(blocks::<S, T>(h, 2));
    for ((n, here), (below, above)) in blocks_mut::<S, T>(n)
        .iter_mut()
        .zip(blocks::<S, T>(h, 1))
        .zip(neighbours)
    {
        for i in 0..TOGETHER {
            total[i] = T::plus(s, total[i], here[i]);
            n[i] = stencil.apply(s, below[i], here[i], above[i]);
        }
    }
    finish(s, h, moves, jump, sum(s, total), places, n);
}

/// Computes `(n + eps)^gamma` in place, up to a factor that makes the maximum 1, which prevents underflow. Returns
/// the sum.
#[inline(always)]
pub(crate) fn power<S: Simd, T: Lanes>(s: S, n: &mut [T], gamma: T, places: usize) -> T {
    let zero = T::splat(s, T::ZERO);
    let mut top = [zero; TOGETHER];
    for n in blocks::<S, T>(n, 1) {
        for i in 0..TOGETHER {
            top[i] = T::max(s, top[i], n[i]);
        }
    }
    let top = T::log_one(s, T::largest(s, T::max(s, top[0], top[1])) + T::EPS);
    let least = T::raise_one(s, gamma * (T::log_one(s, T::EPS) - top));
    let slope = T::splat(s, least * gamma / T::EPS);
    let (limit, least) = (limit(s, gamma), T::splat(s, least));
    let (eps, gamma, top) = (T::splat(s, T::EPS), T::splat(s, gamma), T::splat(s, top));
    let mut total = [zero; TOGETHER];
    for n in blocks_mut::<S, T>(n) {
        // The case nearly everywhere, as sharpening leaves few places with mass.
        if all_at_most::<S, T>(s, *n, limit) {
            for n in n.iter_mut() {
                *n = T::fma(s, slope, *n, least);
            }
        } else {
            for n in n.iter_mut() {
                let log = T::log(s, T::plus(s, *n, eps));
                *n = T::raise(s, T::times(s, gamma, T::minus(s, log, top)));
            }
        }
        for i in 0..TOGETHER {
            total[i] = T::plus(s, total[i], n[i]);
        }
    }
    let mut total = sum(s, total);
    // The padding has been raised to a power too.
    let inside = n.len() - 1;
    for n in &mut n[places + 1..inside] {
        total = total - *n;
        *n = T::ZERO;
    }
    total
}

/// Divides `n` by `by`, in place, and copies it without padding into `out`.
#[inline(always)]
pub(crate) fn divide<S: Simd, T: Lanes>(s: S, n: &mut [T], by: T, out: &mut [T]) {
    let scale = T::splat(s, T::ONE / by);
    let places = out.len();
    let whole = T::vectors_mut::<S>(out);
    let done = size_of_val(whole) / size_of::<T>();
    let mut outs = whole.iter_mut();
    for n in T::vectors_mut::<S>(&mut n[1..]) {
        *n = T::times(s, *n, scale);
        if let Some(out) = outs.next() {
            *out = *n;
        }
    }
    if done < places {
        out[done..].copy_from_slice(&n[1 + done..=places]);
    }
}

/// The range of places of a padded row with non-negligible mass, in whole blocks: the first, and the one after the
/// last.
#[inline(always)]
pub(crate) fn live_range<S: Simd, T: Lanes>(s: S, n: &[T], places: usize) -> (usize, usize) {
    let nothing = T::splat(s, T::NOTHING);
    let (mut first, mut end) = (places, 0);
    for (i, n) in blocks::<S, T>(n, 1).iter().enumerate() {
        if !all_at_most::<S, T>(s, *n, nothing) {
            let from = i * lanes::<S, T>();
            first = first.min(from);
            end = (from + lanes::<S, T>()).min(places);
        }
    }
    (first, end)
}

/// Gradients of one step's weights and exponent.
pub(crate) struct StepGradients<T> {
    pub(crate) moves: [T; MOVES],
    pub(crate) gamma: T,
}

/// Padded rows used in the backward pass.
pub(crate) struct Rows<T> {
    /// In: the gradient of the histogram after the step. Out: that of the one before it.
    pub(crate) flow: Vec<T>,
    /// The histogram before sharpening.
    n: Vec<T>,
    /// Gradient of `n`.
    d: Vec<T>,
}

impl<T: Lanes> Rows<T> {
    #[inline(always)]
    pub(crate) fn new<S: Simd>(places: usize) -> Self {
        let row = || vec![T::ZERO; padded::<S, T>(places)];
        Self {
            flow: row(),
            n: row(),
            d: row(),
        }
    }
}

/// Backward pass of one step, from the histograms `before` and `after` it.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "rows of one cursor, all of them needed")]
pub(crate) fn back<S: Simd, T: Lanes>(
    s: S,
    before: &[T],
    after: &[T],
    rows: &mut Rows<T>,
    moves: &[T; MOVES],
    jump: Option<(&[T], &mut [T])>,
    gamma: Option<T>,
    places: usize,
) -> StepGradients<T> {
    let [inc, dec, keep, to0, to1] = *moves;
    let (flow, n, d) = (&mut *rows.flow, &mut *rows.n, &mut *rows.d);
    let zero = T::splat(s, T::ZERO);
    let mut gradients = StepGradients {
        moves: [T::ZERO; MOVES],
        gamma: T::ZERO,
    };
    let stencil = Stencil::<S, T>::new(s, inc, keep, dec);
    let (mut total, mut mean) = ([zero; TOGETHER], [zero; TOGETHER]);
    let neighbours = blocks::<S, T>(before, 0).iter().zip(blocks::<S, T>(before, 2));
    let outputs = blocks::<S, T>(flow, 1).iter().zip(blocks::<S, T>(after, 1));
    for (((n, here), (below, above)), (g, a)) in blocks_mut::<S, T>(n)
        .iter_mut()
        .zip(blocks::<S, T>(before, 1))
        .zip(neighbours)
        .zip(outputs)
    {
        for i in 0..TOGETHER {
            total[i] = T::plus(s, total[i], here[i]);
            mean[i] = T::fma(s, g[i], a[i], mean[i]);
            n[i] = stencil.apply(s, below[i], here[i], above[i]);
        }
    }
    let total = sum(s, total);
    if let Some(gamma) = gamma {
        let jump = jump.as_ref().map(|j| j.0);
        finish(s, before, moves, jump, total, places, n);
        let mean = T::splat(s, sum(s, mean));
        let limit = limit(s, gamma);
        let (gamma, eps) = (T::splat(s, gamma), T::splat(s, T::EPS));
        let (log_eps, over_eps) = (T::log(s, eps), T::splat(s, T::ONE / T::EPS));
        let mut exponent = [zero; TOGETHER];
        let outputs = blocks::<S, T>(flow, 1).iter().zip(blocks::<S, T>(after, 1));
        for ((d, n), (g, a)) in blocks_mut::<S, T>(d)
            .iter_mut()
            .zip(blocks::<S, T>(n, 1))
            .zip(outputs)
        {
            let mut logs = *n;
            if all_at_most::<S, T>(s, *n, limit) {
                for log in &mut logs {
                    *log = T::fma(s, over_eps, *log, log_eps);
                }
            } else {
                for log in &mut logs {
                    *log = T::log(s, T::plus(s, *log, eps));
                }
            }
            for i in 0..TOGETHER {
                let flow = T::times(s, a[i], T::minus(s, g[i], mean));
                exponent[i] = T::fma(s, flow, logs[i], exponent[i]);
                d[i] = T::over(s, T::times(s, gamma, flow), T::plus(s, n[i], eps));
            }
        }
        gradients.gamma = sum(s, exponent);
    } else {
        d.copy_from_slice(flow);
    }
    // Mass that would leave an end stays there.
    d[0] = d[1];
    d[places + 1] = d[places];
    let d = &*d;
    let mut all = to0 * d[1] + to1 * d[2];
    if let Some((jump, jump_grad)) = jump {
        for ((out, &p), &d) in jump_grad.iter_mut().zip(jump).zip(&d[1..]) {
            all = all + p * d;
            *out = total * d;
        }
    }
    let stencil = Stencil::<S, T>::new(s, dec, keep, inc);
    let to_all = T::splat(s, all);
    let (mut up, mut down, mut stay) = ([zero; TOGETHER], [zero; TOGETHER], [zero; TOGETHER]);
    let neighbours = blocks::<S, T>(d, 0).iter().zip(blocks::<S, T>(d, 2));
    for (((flow, h), here), (below, above)) in blocks_mut::<S, T>(flow)
        .iter_mut()
        .zip(blocks::<S, T>(before, 1))
        .zip(blocks::<S, T>(d, 1))
        .zip(neighbours)
    {
        for i in 0..TOGETHER {
            up[i] = T::fma(s, h[i], above[i], up[i]);
            down[i] = T::fma(s, h[i], below[i], down[i]);
            stay[i] = T::fma(s, h[i], here[i], stay[i]);
            flow[i] = T::plus(s, stencil.apply(s, below[i], here[i], above[i]), to_all);
        }
    }
    flow[places + 1..].fill(T::ZERO);
    // Not an array's map, whose closure would not be compiled for this instruction set.
    let (up, down, stay) = (sum(s, up), sum(s, down), sum(s, stay));
    gradients.moves = [up, down, stay, total * d[1], total * d[2]];
    gradients
}
