//! The scan fused with its product with a table, without storing all histograms.
//!
//! The histograms of a whole sequence would be the largest array of a model, and writing and reading them takes
//! longer than computing them. So forward saves one in [`SEGMENT`], and backward recomputes those between.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check, check_positive, chunks};
use crate::lanes::Lanes;
use crate::matrix::{GROUP, Matrix};
use crate::scan::{Cursor, CursorGradients, Gradients, Scan};
use crate::step::{Rows, add_to, back, live_range, padded};

/// Steps between saved histograms.
pub const SEGMENT: usize = 16;

/// A scan, and the vectors of its places.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a, T> {
    /// The scan's inputs.
    pub scan: Scan<'a, T>,
    /// (P, D) the vector of each place.
    pub table: &'a [T],
    /// Width D of a vector.
    pub width: usize,
}

/// Gradients of the outputs, and buffers for those of the inputs.
#[derive(Debug)]
pub struct PlaceGradients<'a, T> {
    /// (B, C, L, D) gradient of the output vectors.
    pub places: &'a [T],
    /// (B, C, P) gradient of the last histograms.
    pub last: Option<&'a [T]>,
    /// Buffers for the gradients of the scan's inputs.
    pub into: Gradients<'a, T>,
}

impl<T: Lanes> Places<'_, T> {
    /// Length of a cursor's saved histograms.
    fn saved_len(&self) -> usize {
        let d = self.scan.dims;
        d.steps.div_ceil(SEGMENT) * d.places
    }

    fn check(&self, places: &[T], saved: Option<&[T]>) -> Result<(), KernelError> {
        self.scan.check()?;
        check_positive("width", self.width)?;
        let d = self.scan.dims;
        check("table", self.table, d.places * self.width)?;
        check("places", places, d.batch * d.cursors * d.steps * self.width)?;
        match saved {
            Some(saved) => check("saved", saved, d.batch * d.cursors * self.saved_len()),
            None => Ok(()),
        }
    }
}

for_both_precisions! {
    impl Places<'_, T> {
        /// Writes the mean vectors after every step into `places` (B, C, L, D), the last histograms into `last`
        /// (B, C, P), and if requested what [`Places::backward`] needs into `saved`: the histogram before every
        /// [`SEGMENT`]th step, (B, C, ceil(L / 16), P).
        pub fn forward(
            &self,
            places: &mut [T],
            last: &mut [T],
            saved: Option<&mut [T]>,
        ) -> Result<(), KernelError> {
            self.check(places, saved.as_deref())?;
            let d = self.scan.dims;
            check("last", last, self.scan.start.len())?;
            if places.is_empty() {
                last.copy_from_slice(self.scan.start);
                return Ok(());
            }
            let arch = Arch::new();
            let table = Matrix::new(d.places, self.width, arch, |place, i| {
                self.table[place * self.width + i]
            });
            let saved = chunks(saved, self.saved_len(), d.batch * d.cursors);
            places
                .par_chunks_mut(d.steps * self.width)
                .zip(last.par_chunks_mut(d.places))
                .zip(saved)
                .enumerate()
                .for_each(|(i, ((places, last), saved))| {
                    arch.dispatch(Forward {
                        cursor: self.scan.cursor(i),
                        table: &table,
                        width: self.width,
                        out: places,
                        last,
                        saved,
                    });
                });
            Ok(())
        }

        /// Computes gradients from the histograms saved by [`Places::forward`].
        pub fn backward(&self, saved: &[T], gradients: PlaceGradients<'_, T>) -> Result<(), KernelError> {
            let PlaceGradients { places, last, into } = gradients;
            self.check(places, Some(saved))?;
            self.scan.check_gradients(&into)?;
            let d = self.scan.dims;
            if let Some(last) = last {
                check("last's gradient", last, self.scan.start.len())?;
            }
            if places.is_empty() {
                into.without_steps(last);
                return Ok(());
            }
            let arch = Arch::new();
            let table = Matrix::new(self.width, d.places, arch, |i, place| {
                self.table[place * self.width + i]
            });
            let (output_len, stride) = (d.steps * self.width, self.saved_len());
            self.scan.for_each_cursor(into, |i, into| {
                arch.dispatch(Backward {
                    cursor: self.scan.cursor(i),
                    table: &table,
                    width: self.width,
                    saved: &saved[i * stride..][..stride],
                    grad: &places[i * output_len..][..output_len],
                    last: last.map(|last| &last[i * d.places..][..d.places]),
                    into,
                })
            });
            Ok(())
        }
    }
}

/// Forward pass of one cursor's sequence, compiled for several instruction sets; the best available one runs.
struct Forward<'a, T> {
    cursor: Cursor<'a, T>,
    table: &'a Matrix<T>,
    width: usize,
    out: &'a mut [T],
    last: &'a mut [T],
    saved: Option<&'a mut [T]>,
}

impl<T: Lanes> WithSimd for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) {
        let cursor = self.cursor;
        let places = cursor.places;
        let row = padded::<S, T>(places);
        // Several steps at a time, which share the loads of the table.
        let mut rows = vec![T::ZERO; (GROUP + 1) * row];
        let mut window = vec![T::ZERO; GROUP * places];
        let mut out = vec![T::ZERO; GROUP * self.table.columns];
        rows[1..=places].copy_from_slice(cursor.start);
        for (group, moves) in cursor.moves.chunks(GROUP).enumerate() {
            let (mut first, mut end) = (places, 0);
            for i in 0..moves.len() {
                let t = group * GROUP + i;
                let (h, n) = rows[i * row..(i + 2) * row].split_at_mut(row);
                if let Some(saved) = self.saved.as_deref_mut().filter(|_| t.is_multiple_of(SEGMENT)) {
                    saved[t / SEGMENT * places..][..places].copy_from_slice(&h[1..=places]);
                }
                cursor.step(s, t, h, n, &mut []);
                let (from, to) = live_range::<S, T>(s, n, places);
                (first, end) = (first.min(from), end.max(to));
            }
            let count = end.saturating_sub(first);
            let window = &mut window[..GROUP * count];
            if count > 0 {
                for (i, window) in window.chunks_exact_mut(count).enumerate().take(moves.len()) {
                    window.copy_from_slice(&rows[(i + 1) * row + 1 + first..][..count]);
                }
            }
            out.fill(T::ZERO);
            self.table.multiply(s, window, first, &mut out);
            let into = self.out[group * GROUP * self.width..].chunks_exact_mut(self.width);
            for (into, out) in into.zip(out.chunks_exact(self.table.columns)).take(moves.len()) {
                into.copy_from_slice(&out[..self.width]);
            }
            rows.copy_within(moves.len() * row..(moves.len() + 1) * row, 0);
        }
        self.last.copy_from_slice(&rows[1..=places]);
    }
}

/// Backward pass of one cursor's sequence; returns the gradient of its exponent.
struct Backward<'a, T> {
    cursor: Cursor<'a, T>,
    table: &'a Matrix<T>,
    width: usize,
    saved: &'a [T],
    grad: &'a [T],
    last: Option<&'a [T]>,
    into: CursorGradients<'a, T>,
}

impl<T: Lanes> WithSimd for Backward<'_, T> {
    type Output = T;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) -> T {
        let cursor = self.cursor;
        let (places, steps) = (cursor.places, cursor.moves.len());
        let row = padded::<S, T>(places);
        let columns = self.table.columns;
        let mut histograms = vec![T::ZERO; (SEGMENT + 1) * row];
        let mut grads = vec![T::ZERO; SEGMENT * columns];
        let mut segment_grad = vec![T::ZERO; SEGMENT * self.width];
        let mut rows = Rows::new::<S>(places);
        if let Some(last) = self.last {
            rows.flow[1..=places].copy_from_slice(last);
        }
        let mut gamma = T::ZERO;
        for (segment, saved) in self.saved.chunks_exact(places).enumerate().rev() {
            let begin = segment * SEGMENT;
            let count = SEGMENT.min(steps - begin);
            histograms[1..=places].copy_from_slice(saved);
            for i in 0..count {
                let (h, n) = histograms[i * row..(i + 2) * row].split_at_mut(row);
                cursor.step(s, begin + i, h, n, &mut []);
            }
            // In a short segment the rest keeps old values, which are not used.
            segment_grad[..count * self.width]
                .copy_from_slice(&self.grad[begin * self.width..][..count * self.width]);
            grads.fill(T::ZERO);
            let groups = segment_grad.chunks_exact(GROUP * self.width);
            for (segment_grad, grads) in groups.zip(grads.chunks_exact_mut(GROUP * columns)) {
                self.table.multiply(s, segment_grad, 0, grads);
            }
            for i in (0..count).rev() {
                let t = begin + i;
                add_to(
                    s,
                    &mut rows.flow[1..=places],
                    &grads[i * columns..][..places],
                    |g| g,
                );
                let (before, after) = histograms[i * row..(i + 2) * row].split_at(row);
                let jump = cursor.jump(t).zip(self.into.jump(t, places));
                let gradients = back(
                    s,
                    before,
                    after,
                    &mut rows,
                    &cursor.moves[t],
                    jump,
                    cursor.gamma,
                    places,
                );
                self.into.moves[t] = gradients.moves;
                gamma = gamma + gradients.gamma;
            }
        }
        self.into.start.copy_from_slice(&rows.flow[1..=places]);
        gamma
    }
}
