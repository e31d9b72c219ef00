//! Products of a few rows with a matrix shared by many tasks.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use crate::lanes::Lanes;

/// Vectors of output columns processed together.
const TOGETHER: usize = 2;
/// Rows that share what is loaded of the matrix.
pub(crate) const GROUP: usize = 4;

/// Number of columns processed together.
struct Width<T>(PhantomData<T>);

impl<T: Lanes> WithSimd for Width<T> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        TOGETHER * T::lanes::<S>()
    }
}

/// A matrix in stripes of columns; each stripe has all rows, one after the other.
pub(crate) struct Matrix<T> {
    rows: usize,
    /// Number of columns, including the padding of the last stripe.
    pub(crate) columns: usize,
    stripes: Vec<T>,
}

impl<T: Lanes> Matrix<T> {
    /// Builds the matrix from its elements `at(row, column)`, zero-padded to a whole number of stripes.
    pub(crate) fn new(rows: usize, columns: usize, arch: Arch, at: impl Fn(usize, usize) -> T) -> Self {
        let width = arch.dispatch(Width(PhantomData::<T>));
        let padded = columns.next_multiple_of(width);
        let mut stripes = vec![T::ZERO; rows * padded];
        for (stripe, target) in stripes.chunks_exact_mut(rows * width).enumerate() {
            for (row, target) in target.chunks_exact_mut(width).enumerate() {
                for (column, target) in (stripe * width..columns).zip(target) {
                    *target = at(row, column);
                }
            }
        }
        Self {
            rows,
            columns: padded,
            stripes,
        }
    }

    /// Adds the products of [`GROUP`] vectors, one after the other in `x`, with the matrix to `out`. The vectors
    /// start at the matrix's row `first`; their other elements count as zero.
    #[inline(always)]
    pub(crate) fn multiply<S: Simd>(&self, s: S, x: &[T], first: usize, out: &mut [T]) {
        let count = x.len() / GROUP;
        let (a, b) = x.split_at(2 * count);
        let ((a, b), (c, d)) = (a.split_at(count), b.split_at(count));
        let stripes = T::vectors::<S>(&self.stripes).as_chunks::<TOGETHER>().0;
        for (i, stripe) in stripes.chunks_exact(self.rows).enumerate() {
            let stripe = &stripe[first..first + count];
            let mut sums = [[T::splat(s, T::ZERO); TOGETHER]; GROUP];
            for ((((weights, &a), &b), &c), &d) in stripe.iter().zip(a).zip(b).zip(c).zip(d) {
                for (sum, x) in sums.iter_mut().zip([a, b, c, d]) {
                    let x = T::splat(s, x);
                    for (sum, &weights) in sum.iter_mut().zip(weights) {
                        *sum = T::fma(s, weights, x, *sum);
                    }
                }
            }
            for (sum, out) in sums.into_iter().zip(out.chunks_exact_mut(self.columns)) {
                let out = T::vectors_mut::<S>(out).as_chunks_mut::<TOGETHER>().0;
                for (out, sum) in out[i].iter_mut().zip(sum) {
                    *out = T::plus(s, *out, sum);
                }
            }
        }
    }
}
