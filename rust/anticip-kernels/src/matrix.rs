//! Products of a few rows with a matrix that many tasks share.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use crate::lanes::Lanes;

/// Vectors of a product that are handled together.
const TOGETHER: usize = 2;
/// Rows that share what is loaded of the matrix.
pub(crate) const GROUP: usize = 4;

/// Columns that are handled together.
struct Width<T>(PhantomData<T>);

impl<T: Lanes> WithSimd for Width<T> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        TOGETHER * T::lanes::<S>()
    }
}

/// A matrix in stripes of some columns: of each stripe all rows, one after the other.
pub(crate) struct Matrix<T> {
    rows: usize,
    /// With those that fill the last stripe.
    pub(crate) columns: usize,
    stripes: Vec<T>,
}

impl<T: Lanes> Matrix<T> {
    /// With zeros up to a whole number of stripes.
    pub(crate) fn new(rows: usize, columns: usize, arch: Arch, at: impl Fn(usize, usize) -> T) -> Self {
        let width = arch.dispatch(Width(PhantomData::<T>));
        let padded = columns.next_multiple_of(width);
        let mut stripes = vec![T::ZERO; rows * padded];
        for (stripe, into) in stripes.chunks_exact_mut(rows * width).enumerate() {
            for (row, into) in into.chunks_exact_mut(width).enumerate() {
                for (column, into) in (stripe * width..columns).zip(into) {
                    *into = at(row, column);
                }
            }
        }
        Self {
            rows,
            columns: padded,
            stripes,
        }
    }

    /// Adds the products with the rows of a group, one after the other in `x`, to those in `out`. In `x` is what
    /// belongs to the matrix' rows from `first` on; the others count as zero.
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
