//! The gradient of gates that are added to the scores of their keys in causal attention (Napolitano 2026).
//!
//! With `S_ij = scale q_i k_j + b_j`, `P = softmax(S)`, `O = P V` and the gradient `dO` of the output,
//! `dS_ij = P_ij (dO_i v_j - D_i)` where `D_i = dO_i O_i`; so the gradient of `b_j` is, for each head,
//!
//! ```text
//! sum_i dS_ij = v_j dV_j - sum_i P_ij D_i,   dV_j = sum_i P_ij dO_i
//! ```
//!
//! and `dV` has been computed anyway. The last sum is computed here, with P from the scores and the log-sum-exps
//! that attention saves: half the products of an attention, without copying its inputs.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check, check_positive, range};
use crate::lanes::Lanes;
use crate::real::Real;

/// Maximum number of heads: with strides of zero, buffers do not limit it.
const MAX_HEADS: usize = 4096;
/// Queries processed together, which at usual widths fit the L1 cache.
const BLOCK: usize = 128;
/// Keys that share the loads of the queries.
const KEYS: usize = 6;
/// Vectors of queries that share the loads of the keys.
const TOGETHER: usize = 2;

/// A strided view of (B, L, H, d).
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a, T> {
    /// The data, starting with the first value of the first row, step and head.
    pub data: &'a [T],
    /// Strides of rows, steps and heads.
    pub strides: [usize; 3],
}

impl<'a, T> Heads<'a, T> {
    /// The values of one head of a step.
    #[inline(always)]
    fn at(&self, row: usize, step: usize, head: usize, width: usize) -> &'a [T] {
        let [by_row, by_step, by_head] = self.strides;
        let begin = row * by_row + step * by_step + head * by_head;
        &self.data[begin..begin + width]
    }
}

/// Inputs, output and known gradients of an attention with gated keys.
#[derive(Clone, Copy, Debug)]
pub struct Gated<'a, T> {
    /// Rows B.
    pub rows: usize,
    /// Steps L.
    pub steps: usize,
    /// Heads H.
    pub heads: usize,
    /// Width d of a head.
    pub width: usize,
    /// Factor of the products of queries and keys.
    pub scale: T,
    /// (B, L, H, d) each.
    pub queries: Heads<'a, T>,
    /// Keys.
    pub keys: Heads<'a, T>,
    /// Values.
    pub values: Heads<'a, T>,
    /// The output.
    pub mixed: Heads<'a, T>,
    /// The gradient of the output.
    pub grad: Heads<'a, T>,
    /// The gradient of the values.
    pub value_gradient: Heads<'a, T>,
    /// (B, L, H, 1) log-sum-exp of each query's scores.
    pub log_sum_exp: Heads<'a, T>,
    /// (B, L) log gates, which are added to the scores of a key.
    pub gates: &'a [T],
}

impl<T: Lanes> Gated<'_, T> {
    fn check(&self) -> Result<(), KernelError> {
        let shape = [self.rows, self.steps, self.heads];
        let span = |heads: &Heads<'_, T>, width: usize| {
            let extents = shape
                .iter()
                .zip(heads.strides)
                .map(|(n, by)| (n - 1).saturating_mul(by));
            extents.fold(width, usize::saturating_add)
        };
        for (name, heads, width) in [
            ("queries", &self.queries, self.width),
            ("keys", &self.keys, self.width),
            ("values", &self.values, self.width),
            ("mixed", &self.mixed, self.width),
            ("gradient", &self.grad, self.width),
            ("gradient of values", &self.value_gradient, self.width),
            ("mass", &self.log_sum_exp, 1),
        ] {
            check(name, heads.data, span(heads, width))?;
        }
        check("gates", self.gates, self.rows * self.steps)
    }
}

for_both_precisions! {
    impl Gated<'_, T> {
        /// Writes the gradient of the gates into `into` (B, L); the result is the same, bit for bit, in parallel or
        /// not.
        pub fn gate_gradient(&self, parallel: bool, into: &mut [T]) -> Result<(), KernelError> {
            check("gradient of gates", into, self.rows * self.steps)?;
            check_positive("width", self.width)?;
            if self.heads > MAX_HEADS {
                return Err(range("heads", format!("at most {MAX_HEADS}"), self.heads));
            }
            if into.is_empty() || self.heads == 0 {
                into.fill(T::ZERO);
                return Ok(());
            }
            self.check()?;
            let arch = Arch::new();
            let mut parts = vec![T::ZERO; self.heads * into.len()];
            let run = |(i, into): (usize, &mut [T])| {
                arch.dispatch(OneHead {
                    gated: self,
                    row: i / self.heads,
                    head: i % self.heads,
                    into,
                });
            };
            if parallel {
                parts.par_chunks_mut(self.steps).enumerate().for_each(run);
            } else {
                // In reverse: attention has just left the last ones in the caches.
                parts.chunks_mut(self.steps).enumerate().rev().for_each(run);
            }
            for (into, heads) in into
                .chunks_mut(self.steps)
                .zip(parts.chunks(self.heads * self.steps))
            {
                let (first, rest) = heads.split_at(self.steps);
                into.copy_from_slice(first);
                for head in rest.chunks(self.steps) {
                    for (into, &x) in into.iter_mut().zip(head) {
                        *into += x;
                    }
                }
            }
            Ok(())
        }
    }
}

/// The gradient of one head of one row.
struct OneHead<'a, 'b, T> {
    gated: &'a Gated<'b, T>,
    row: usize,
    head: usize,
    into: &'a mut [T],
}

impl<'b, T: Lanes> WithSimd for OneHead<'_, 'b, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self {
            gated,
            row,
            head,
            into,
        } = self;
        let (steps, width) = (gated.steps, gated.width);
        let part = |heads: &Heads<'b, T>, step| heads.at(row, step, head, width);
        for (j, into) in into.iter_mut().enumerate() {
            *into = dot(s, part(&gated.values, j), part(&gated.value_gradient, j));
        }
        let gates = &gated.gates[row * steps..(row + 1) * steps];
        let mut numbers = [T::ZERO; BLOCK + KEYS];
        for i in 1..numbers.len() {
            numbers[i] = numbers[i - 1] + T::ONE;
        }
        let mut transposed = vec![T::ZERO; width * BLOCK];
        for first in (0..steps).step_by(BLOCK) {
            let count = BLOCK.min(steps - first);
            let query = |i| part(&gated.queries, first + i);
            transpose_block::<T, S>(&mut transposed, gated.scale, count, query);
            // Queries beyond the end get probability 0 and share 0.
            let mut shares = [T::ZERO; BLOCK];
            let mut neg_log_sums = [T::ZERO - T::ONE / T::EPS; BLOCK];
            for (i, (share, neg_log_sum)) in shares.iter_mut().zip(&mut neg_log_sums).take(count).enumerate()
            {
                let i = first + i;
                *share = dot(s, part(&gated.grad, i), part(&gated.mixed, i));
                *neg_log_sum = T::ZERO - gated.log_sum_exp.at(row, i, head, 1)[0];
            }
            let block = Block {
                first,
                width,
                transposed: &transposed,
                shares: &shares,
                neg_log_sums: &neg_log_sums,
                numbers: &numbers,
            };
            let seen = into[..first + count].chunks_mut(KEYS);
            for (j, (into, gates)) in seen.zip(gates.chunks(KEYS)).enumerate() {
                let at = j * KEYS;
                let mut keys = [part(&gated.keys, at); KEYS];
                for (n, key) in keys.iter_mut().enumerate().take(gates.len()) {
                    *key = part(&gated.keys, at + n);
                }
                for (into, sum) in into.iter_mut().zip(block.sums(s, at, keys, gates)) {
                    *into = *into - sum;
                }
            }
        }
    }
}

/// A block of queries of one head.
struct Block<'a, T> {
    first: usize,
    width: usize,
    /// The queries, transposed in stripes.
    transposed: &'a [T],
    shares: &'a [T; BLOCK],
    neg_log_sums: &'a [T; BLOCK],
    /// 0, 1, 2, ...
    numbers: &'a [T; BLOCK + KEYS],
}

impl<T: Lanes> Block<'_, T> {
    /// `sum_i P_ij D_i` for the keys from `j` on, over the block's queries that see them.
    #[inline(always)]
    fn sums<S: Simd>(&self, s: S, j: usize, keys: [&[T]; KEYS], gates: &[T]) -> [T; KEYS] {
        let zero = T::splat(s, T::ZERO);
        let lanes = T::lanes::<S>();
        let together = TOGETHER * lanes;
        let shares = T::vectors::<S>(self.shares).as_chunks::<TOGETHER>().0;
        let neg_log_sums = T::vectors::<S>(self.neg_log_sums).as_chunks::<TOGETHER>().0;
        let numbers = T::vectors::<S>(self.numbers).as_chunks::<TOGETHER>().0;
        let stripes = T::vectors::<S>(self.transposed).chunks_exact(TOGETHER * self.width);
        let [a, b, c, d, e, f] = keys;
        let mut offsets = [zero; KEYS];
        for (offset, &gate) in offsets.iter_mut().zip(gates) {
            *offset = T::splat(s, gate);
        }
        let mut totals = [zero; KEYS];
        // Vectors of queries before the first of these keys see none of them.
        let begin = j.saturating_sub(self.first) / together;
        let parts = stripes
            .zip(shares)
            .zip(neg_log_sums)
            .zip(numbers)
            .enumerate()
            .skip(begin);
        for (i, (((stripe, share), neg_log_sum), number)) in parts {
            let mut scores = [[zero; TOGETHER]; KEYS];
            let queries = stripe.as_chunks::<TOGETHER>().0.iter();
            let keys = a.iter().zip(b).zip(c).zip(d).zip(e).zip(f);
            for (queries, (((((&a, &b), &c), &d), &e), &f)) in queries.zip(keys) {
                for (score, key) in scores.iter_mut().zip([a, b, c, d, e, f]) {
                    let key = T::splat(s, key);
                    for (score, &query) in score.iter_mut().zip(queries) {
                        *score = T::fma(s, query, key, *score);
                    }
                }
            }
            let masks = self.first + i * together < j + KEYS;
            for (n, (total, scores)) in totals.iter_mut().zip(scores).enumerate() {
                for (t, score) in scores.into_iter().enumerate() {
                    let exponent = T::plus(s, score, T::plus(s, neg_log_sum[t], offsets[n]));
                    let mut probability = T::raise(s, exponent);
                    if masks {
                        let key = T::splat(s, self.numbers[(j + n).saturating_sub(self.first)]);
                        probability = T::if_less(s, number[t], key, zero, probability);
                    }
                    *total = T::fma(s, probability, share[t], *total);
                }
            }
        }
        // Not a closure, which would not be compiled for this instruction set.
        let mut sums = [T::ZERO; KEYS];
        for (sum, total) in sums.iter_mut().zip(totals) {
            *sum = T::sum(s, total);
        }
        sums
    }
}

/// Transposes a block's queries in stripes of as many as are processed together.
#[inline(always)]
fn transpose_block<'a, T: Lanes + 'a, S: Simd>(
    into: &mut [T],
    scale: T,
    count: usize,
    row: impl Fn(usize) -> &'a [T],
) {
    match TOGETHER * T::lanes::<S>() {
        16 => transpose_stripes::<T, 16>(into, scale, count, row),
        8 => transpose_stripes::<T, 8>(into, scale, count, row),
        4 => transpose_stripes::<T, 4>(into, scale, count, row),
        2 => transpose_stripes::<T, 2>(into, scale, count, row),
        _ => transpose_stripes::<T, 32>(into, scale, count, row),
    }
}

#[inline(always)]
fn transpose_stripes<'a, T: Lanes + 'a, const N: usize>(
    into: &mut [T],
    scale: T,
    count: usize,
    row: impl Fn(usize) -> &'a [T],
) {
    let width = into.len() / BLOCK;
    for (i, into) in into.chunks_exact_mut(width * N).enumerate() {
        transpose_rows::<T, N>(into, scale, count.saturating_sub(i * N), |n| row(i * N + n));
    }
}

/// Transposes `N` rows and multiplies them by `scale`; rows from `count` on are zeros.
#[inline(always)]
fn transpose_rows<'a, T: Lanes + 'a, const N: usize>(
    into: &mut [T],
    scale: T,
    count: usize,
    row: impl Fn(usize) -> &'a [T],
) {
    let rows: [&[T]; N] = std::array::from_fn(|n| if n < count { row(n) } else { &[] });
    let into = into.as_chunks_mut::<N>().0;
    if count >= N {
        for (c, into) in into.iter_mut().enumerate() {
            for (into, row) in into.iter_mut().zip(&rows) {
                *into = scale * row[c];
            }
        }
    } else {
        for (c, into) in into.iter_mut().enumerate() {
            for (into, row) in into.iter_mut().zip(&rows) {
                *into = row.get(c).map_or(T::ZERO, |&x| scale * x);
            }
        }
    }
}

#[inline(always)]
fn dot<T: Lanes, S: Simd>(s: S, a: &[T], b: &[T]) -> T {
    let (x, y) = (T::vectors::<S>(a), T::vectors::<S>(b));
    let mut total = T::splat(s, T::ZERO);
    for (&x, &y) in x.iter().zip(y) {
        total = T::fma(s, x, y, total);
    }
    let done = x.len() * T::lanes::<S>();
    let rest = a[done..].iter().zip(&b[done..]);
    rest.fold(T::sum(s, total), |total, (&a, &b)| total + a * b)
}
