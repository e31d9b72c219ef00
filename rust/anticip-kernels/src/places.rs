//! The scan with what is read out of it, the mean of a table's rows: without histograms in memory.
//!
//! Histograms of a whole sequence are the largest array there is, and writing and reading them takes longer than
//! computing them. So forward keeps one in [`SEGMENT`], and backward computes those between again.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check};
use crate::lanes::Lanes;
use crate::matrix::{GROUP, Matrix};
use crate::scan::{Cursor, CursorGradients, Gradients, Scan};
use crate::step::{Rows, add_to, back, divide, live, padded, power, shift};

/// Steps from one histogram that is kept to the next.
pub const SEGMENT: usize = 16;

/// A scan, and what stands at its places.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a, T> {
    /// How cursors move.
    pub scan: Scan<'a, T>,
    /// (P, D).
    pub table: &'a [T],
    /// D.
    pub width: usize,
}

/// Where gradients come from and go to.
#[derive(Debug)]
pub struct PlaceGradients<'a, T> {
    /// (B, C, L, D): of the places.
    pub places: &'a [T],
    /// (B, C, P): of the last histograms.
    pub last: Option<&'a [T]>,
    /// Of the scan's input.
    pub into: Gradients<'a, T>,
}

impl<T: Lanes> Places<'_, T> {
    fn kept(&self) -> usize {
        let d = self.scan.dims;
        d.steps.div_ceil(SEGMENT) * d.places
    }

    fn check(&self, places: &[T], kept: Option<&[T]>) -> Result<(), KernelError> {
        self.scan.check()?;
        if self.width == 0 {
            return Err(KernelError::Width);
        }
        let d = self.scan.dims;
        check("table", self.table, d.places * self.width)?;
        check("places", places, d.batch * d.cursors * d.steps * self.width)?;
        match kept {
            Some(kept) => check("kept", kept, d.batch * d.cursors * self.kept()),
            None => Ok(()),
        }
    }

    /// What stands at the places after every step into `places` (B, C, L, D), the last histograms into `last`
    /// (B, C, P), and where that is wanted what [`Places::backward`] needs into `kept`: one histogram for each
    /// [`SEGMENT`] steps that have begun, (B, C, ceil(L / 16), P). At least one step.
    pub fn forward(
        &self,
        places: &mut [T],
        last: &mut [T],
        kept: Option<&mut [T]>,
    ) -> Result<(), KernelError> {
        self.check(places, kept.as_deref())?;
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
        let kept: Vec<Option<&mut [T]>> = match kept {
            Some(kept) => kept.chunks_mut(self.kept()).map(Some).collect(),
            None => (0..d.batch * d.cursors).map(|_| None).collect(),
        };
        places
            .par_chunks_mut(d.steps * self.width)
            .zip(last.par_chunks_mut(d.places))
            .zip(kept)
            .enumerate()
            .for_each(|(i, ((places, last), kept))| {
                arch.dispatch(Forward {
                    cursor: self.scan.cursor(i),
                    table: &table,
                    width: self.width,
                    out: places,
                    last,
                    kept,
                });
            });
        Ok(())
    }

    /// Gradients, from what [`Places::forward`] kept.
    pub fn backward(&self, kept: &[T], gradients: PlaceGradients<'_, T>) -> Result<(), KernelError> {
        let PlaceGradients { places, last, into } = gradients;
        self.check(places, Some(kept))?;
        self.scan.check_gradients(&into)?;
        let d = self.scan.dims;
        if let Some(last) = last {
            check("last's gradient", last, self.scan.start.len())?;
        }
        if places.is_empty() {
            into.nothing(last);
            return Ok(());
        }
        let arch = Arch::new();
        let table = Matrix::new(self.width, d.places, arch, |i, place| {
            self.table[place * self.width + i]
        });
        let (long, apart) = (d.steps * self.width, self.kept());
        self.scan.each(into, |i, into| {
            arch.dispatch(Backward {
                cursor: self.scan.cursor(i),
                table: &table,
                width: self.width,
                kept: &kept[i * apart..][..apart],
                grad: &places[i * long..][..long],
                last: last.map(|last| &last[i * d.places..][..d.places]),
                into,
            })
        });
        Ok(())
    }
}

/// One cursor's sequence, compiled for each instruction set there may be and run with the best that there is.
struct Forward<'a, T> {
    cursor: Cursor<'a, T>,
    table: &'a Matrix<T>,
    width: usize,
    out: &'a mut [T],
    last: &'a mut [T],
    kept: Option<&'a mut [T]>,
}

impl<T: Lanes> WithSimd for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) {
        let cursor = self.cursor;
        let places = cursor.places;
        let row = padded::<S, T>(places);
        // Some steps together, so that they share what is loaded of the table.
        let mut rows = vec![T::ZERO; (GROUP + 1) * row];
        let mut window = vec![T::ZERO; GROUP * places];
        let mut out = vec![T::ZERO; GROUP * self.table.columns];
        rows[1..=places].copy_from_slice(cursor.start);
        for (group, moves) in cursor.moves.chunks(GROUP).enumerate() {
            let (mut first, mut end) = (places, 0);
            for (i, moves) in moves.iter().enumerate() {
                let t = group * GROUP + i;
                let (h, n) = rows[i * row..(i + 2) * row].split_at_mut(row);
                if let Some(kept) = self.kept.as_deref_mut().filter(|_| t.is_multiple_of(SEGMENT)) {
                    kept[t / SEGMENT * places..][..places].copy_from_slice(&h[1..=places]);
                }
                step(s, &cursor, t, moves, h, n);
                let (from, to) = live::<S, T>(s, n, places);
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

/// One step: `n` from `h`, both padded.
#[inline(always)]
fn step<S: Simd, T: Lanes>(
    s: S,
    cursor: &Cursor<'_, T>,
    t: usize,
    moves: &[T; crate::step::MOVES],
    h: &[T],
    n: &mut [T],
) {
    shift(s, h, moves, cursor.jump(t), cursor.places, n);
    if let Some(gamma) = cursor.gamma {
        let total = power(s, n, gamma, cursor.places);
        divide(s, n, total, &mut []);
    }
}

/// One cursor's sequence from its end; returns the gradient of its exponent.
struct Backward<'a, T> {
    cursor: Cursor<'a, T>,
    table: &'a Matrix<T>,
    width: usize,
    kept: &'a [T],
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
        let wide = self.table.columns;
        let mut histograms = vec![T::ZERO; (SEGMENT + 1) * row];
        let mut grads = vec![T::ZERO; SEGMENT * wide];
        let mut part = vec![T::ZERO; SEGMENT * self.width];
        let mut rows = Rows::new::<S>(places);
        if let Some(last) = self.last {
            rows.flow[1..=places].copy_from_slice(last);
        }
        let mut gamma = T::ZERO;
        for (segment, kept) in self.kept.chunks_exact(places).enumerate().rev() {
            let begin = segment * SEGMENT;
            let count = SEGMENT.min(steps - begin);
            histograms[1..=places].copy_from_slice(kept);
            for i in 0..count {
                let (h, n) = histograms[i * row..(i + 2) * row].split_at_mut(row);
                step(s, &cursor, begin + i, &cursor.moves[begin + i], h, n);
            }
            // The padding of a short segment keeps what it had, and is not read.
            part[..count * self.width]
                .copy_from_slice(&self.grad[begin * self.width..][..count * self.width]);
            grads.fill(T::ZERO);
            let together = part.chunks_exact(GROUP * self.width);
            for (part, grads) in together.zip(grads.chunks_exact_mut(GROUP * wide)) {
                self.table.multiply(s, part, 0, grads);
            }
            for i in (0..count).rev() {
                let t = begin + i;
                add_to(s, &mut rows.flow[1..=places], &grads[i * wide..][..places], |g| g);
                let (before, after) = histograms[i * row..(i + 2) * row].split_at(row);
                let jump = cursor.jump(t).zip(self.into.jump(t, places));
                let passed = back(
                    s,
                    before,
                    after,
                    &mut rows,
                    &cursor.moves[t],
                    jump,
                    cursor.gamma,
                    places,
                );
                self.into.moves[t] = passed.moves;
                gamma = gamma + passed.gamma;
            }
        }
        self.into.start.copy_from_slice(&rows.flow[1..=places]);
        gamma
    }
}
