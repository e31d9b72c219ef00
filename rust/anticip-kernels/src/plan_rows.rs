//! Attention to plans: products with the table rows selected by each step, and the backward pass.

use pulp::{Arch, NullaryFnOnce};

use crate::error::{KernelError, check, check_positive, range};
use crate::real::{Real, dot};

/// The rows of a table (codes, width) selected by the steps of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanRows<'a, T> {
    /// (steps, K) row numbers.
    pub codes: &'a [i64],
    /// Rows per step, K.
    pub rows_per_step: usize,
    /// Width of a row.
    pub width: usize,
    /// (steps, J, width): queries, or gradients of their sums of rows.
    pub vectors: &'a [T],
}

impl<T: Real> PlanRows<'_, T> {
    /// Checks all lengths, and returns J.
    fn queries_per_step(&self, table: &[T], name: &'static str, narrow: &[T]) -> Result<usize, KernelError> {
        check_positive("width", self.width)?;
        let steps = self.codes.len().checked_div(self.rows_per_step).unwrap_or(0);
        check("codes", self.codes, steps * self.rows_per_step)?;
        let queries_per_step = self.vectors.len().checked_div(steps * self.width).unwrap_or(0);
        check("vectors", self.vectors, steps * queries_per_step * self.width)?;
        check(name, narrow, self.codes.len() * queries_per_step)?;
        let codes = table.len() / self.width;
        check("table", table, codes * self.width)?;
        let exists = |&code: &i64| usize::try_from(code).is_ok_and(|code| code < codes);
        if self.codes.iter().all(exists) {
            Ok(queries_per_step)
        } else {
            Err(range("codes", format!("below {codes}"), "one outside"))
        }
    }

    fn row(&self, code: i64) -> std::ops::Range<usize> {
        let first = code as usize * self.width;
        first..first + self.width
    }
}

for_both_precisions! {
    impl PlanRows<'_, T> {
        /// Writes into `out` (steps, J, K) the products of the vectors with each step's rows.
        pub fn products(&self, table: &[T], out: &mut [T]) -> Result<(), KernelError> {
            let queries_per_step = self.queries_per_step(table, "out", out)?;
            if queries_per_step > 0 {
                Arch::new().dispatch(Products {
                    rows: *self,
                    queries_per_step,
                    table,
                    out,
                });
            }
            Ok(())
        }

        /// Adds the vectors times `shares` (steps, J, K) to each step's rows of the table.
        pub fn spread(&self, shares: &[T], table: &mut [T]) -> Result<(), KernelError> {
            let queries_per_step = self.queries_per_step(table, "shares", shares)?;
            if queries_per_step > 0 {
                Arch::new().dispatch(Spread {
                    rows: *self,
                    queries_per_step,
                    shares,
                    table,
                });
            }
            Ok(())
        }
    }
}

struct Products<'a, T> {
    rows: PlanRows<'a, T>,
    queries_per_step: usize,
    table: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> NullaryFnOnce for Products<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let PlanRows {
            codes,
            rows_per_step,
            width,
            vectors,
        } = self.rows;
        let steps = codes
            .chunks_exact(rows_per_step)
            .zip(vectors.chunks_exact(self.queries_per_step * width));
        for ((codes, queries), out) in
            steps.zip(self.out.chunks_exact_mut(self.queries_per_step * rows_per_step))
        {
            for (place, &code) in codes.iter().enumerate() {
                let row = &self.table[self.rows.row(code)];
                for (queries, out) in queries
                    .chunks_exact(width)
                    .zip(out.chunks_exact_mut(rows_per_step))
                {
                    out[place] = dot(queries, row);
                }
            }
        }
    }
}

struct Spread<'a, T> {
    rows: PlanRows<'a, T>,
    queries_per_step: usize,
    shares: &'a [T],
    table: &'a mut [T],
}

impl<T: Real> NullaryFnOnce for Spread<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let PlanRows {
            codes,
            rows_per_step,
            width,
            vectors,
        } = self.rows;
        let steps = codes
            .chunks_exact(rows_per_step)
            .zip(vectors.chunks_exact(self.queries_per_step * width));
        for ((codes, grad), shares) in
            steps.zip(self.shares.chunks_exact(self.queries_per_step * rows_per_step))
        {
            for (place, &code) in codes.iter().enumerate() {
                let row = &mut self.table[self.rows.row(code)];
                for (grad, shares) in grad.chunks_exact(width).zip(shares.chunks_exact(rows_per_step)) {
                    let share = shares[place];
                    for (row, &grad) in row.iter_mut().zip(grad) {
                        *row = *row + share * grad;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PlanRows;
    use crate::KernelError;

    const TABLE: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    const CODES: [i64; 4] = [2, 0, 1, 1];

    fn rows<'a>(codes: &'a [i64], vectors: &'a [f64]) -> PlanRows<'a, f64> {
        PlanRows {
            codes,
            rows_per_step: 2,
            width: 2,
            vectors,
        }
    }

    #[test]
    fn products_and_spread_are_those_of_the_rows_that_are_named() -> Result<(), KernelError> {
        let queries = [1.0, 0.0, 0.0, 1.0, 2.0, 1.0, 0.0, -1.0];
        let mut out = [0.0; 8];
        rows(&CODES, &queries).products(&TABLE, &mut out)?;
        assert_eq!(out, [5.0, 1.0, 6.0, 2.0, 10.0, 10.0, -4.0, -4.0]);
        let mut grad = [0.0; 6];
        rows(&CODES, &queries).spread(&out, &mut grad)?;
        // Row 0 by step 0 alone, row 1 by both slots of step 1, row 2 by step 0.
        assert_eq!(grad, [1.0, 2.0, 40.0, 28.0, 5.0, 6.0]);
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = [0.0; 8];
        let mut error = |codes: &[i64], queries: &[f64], table: &[f64]| {
            rows(codes, queries)
                .products(table, &mut out)
                .map_err(|e| e.to_string())
        };
        assert_eq!(
            error(&[0, 3, 1, 1], &[0.0; 8], &TABLE),
            Err("codes: expected below 3, got one outside".into())
        );
        assert!(error(&[0, -1, 1, 1], &[0.0; 8], &TABLE).is_err());
        assert!(error(&CODES, &[0.0; 7], &TABLE).is_err());
        assert!(error(&CODES, &[0.0; 8], &TABLE[1..]).is_err());
        assert!(error(&CODES[1..], &[0.0; 8], &TABLE).is_err());
    }
}
