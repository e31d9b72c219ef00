//! The scan over whole sequences, parallel over cursors.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check, range};
use crate::lanes::Lanes;
use crate::step::{MOVES, divide, padded, power, shift};

/// Maximum output size that one thread writes faster than several.
const MAX_SERIAL: usize = 1 << 15;

/// Sizes of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims {
    /// Independent rows B.
    pub batch: usize,
    /// Cursors of a row C.
    pub cursors: usize,
    /// Steps L.
    pub steps: usize,
    /// Places P, at least 2.
    pub places: usize,
    /// Number of cursors, the first ones, that can jump anywhere.
    pub jumping: usize,
}

/// Inputs of a scan; all arrays in C order.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a, T> {
    /// Sizes.
    pub dims: Dims,
    /// (B, C, L, 5) weights of the [`MOVES`].
    pub moves: &'a [T],
    /// (B, C, P) histograms before the first step.
    pub start: &'a [T],
    /// (C,) exponents; `None` for no sharpening.
    pub gamma: Option<&'a [T]>,
    /// (B, jumping, L, P) weights of jumps.
    pub jumps: Option<&'a [T]>,
}

/// Buffers for the gradients of a scan.
#[derive(Debug)]
pub struct Gradients<'a, T> {
    /// (B, C, L, 5).
    pub moves: &'a mut [T],
    /// (B, C, P).
    pub start: &'a mut [T],
    /// (C,), present if and only if the scan has exponents.
    pub gamma: Option<&'a mut [T]>,
    /// (B, jumping, L, P), present if and only if the scan has jumps.
    pub jumps: Option<&'a mut [T]>,
}

impl<T: Lanes> Gradients<'_, T> {
    /// Writes the gradients of a scan without steps, from that of its last histograms.
    pub(crate) fn without_steps(self, last: Option<&[T]>) {
        match last {
            Some(last) => self.start.copy_from_slice(last),
            None => self.start.fill(T::ZERO),
        }
        if let Some(gamma) = self.gamma {
            gamma.fill(T::ZERO);
        }
    }
}

/// Checks an optional buffer, which must be present if and only if `is_expected`.
fn check_option<T>(
    name: &'static str,
    given: Option<&[T]>,
    is_expected: bool,
    expected: usize,
) -> Result<(), KernelError> {
    match given {
        Some(given) if is_expected => check(name, given, expected),
        None if !is_expected => Ok(()),
        given => Err(KernelError::Length {
            name,
            expected: if is_expected { expected } else { 0 },
            given: given.map_or(0, <[T]>::len),
        }),
    }
}

impl<T: Lanes> Scan<'_, T> {
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        let d = self.dims;
        if d.places < 2 {
            return Err(range("places", "at least 2", d.places));
        }
        if d.jumping > d.cursors {
            return Err(range(
                "jumping",
                format!("at most {} cursors", d.cursors),
                d.jumping,
            ));
        }
        check("moves", self.moves, d.batch * d.cursors * d.steps * MOVES)?;
        check("start", self.start, d.batch * d.cursors * d.places)?;
        check_option("gamma", self.gamma, self.gamma.is_some(), d.cursors)?;
        let jumps = d.batch * d.jumping * d.steps * d.places;
        check_option("jumps", self.jumps, d.jumping > 0, jumps)
    }

    /// One cursor's part of the inputs.
    pub(crate) fn cursor(&self, index: usize) -> Cursor<'_, T> {
        let d = self.dims;
        let (row, cursor) = (index / d.cursors, index % d.cursors);
        let jumps_len = d.steps * d.places;
        Cursor {
            places: d.places,
            moves: self.moves[index * d.steps * MOVES..][..d.steps * MOVES]
                .as_chunks()
                .0,
            start: &self.start[index * d.places..][..d.places],
            gamma: self.gamma.map(|g| g[cursor]),
            jumps: self
                .jumps
                .filter(|_| cursor < d.jumping)
                .map(|j| &j[(row * d.jumping + cursor) * jumps_len..][..jumps_len]),
        }
    }

    /// Checks the sizes of gradient buffers.
    pub(crate) fn check_gradients(&self, into: &Gradients<'_, T>) -> Result<(), KernelError> {
        let d = self.dims;
        check("moves' gradient", into.moves, self.moves.len())?;
        check("start's gradient", into.start, self.start.len())?;
        let given = into.gamma.as_deref();
        check_option("gamma's gradient", given, self.gamma.is_some(), d.cursors)?;
        let jumps = d.batch * d.jumping * d.steps * d.places;
        let given = into.jumps.as_deref();
        check_option("jumps' gradient", given, self.jumps.is_some(), jumps)
    }

    /// Computes every cursor's gradients in parallel; `run` returns that of its exponent. Needs at least one step.
    pub(crate) fn for_each_cursor(
        &self,
        into: Gradients<'_, T>,
        run: impl Fn(usize, CursorGradients<'_, T>) -> T + Sync,
    ) {
        let d = self.dims;
        let mut jumps = into
            .jumps
            .unwrap_or_default()
            .chunks_mut(d.steps * d.places)
            .collect::<Vec<_>>()
            .into_iter();
        let mut jobs = Vec::with_capacity(d.batch * d.cursors);
        let parts = into
            .moves
            .chunks_mut(d.steps * MOVES)
            .zip(into.start.chunks_mut(d.places));
        for (i, (moves, start)) in parts.enumerate() {
            let jumps = (i % d.cursors < d.jumping).then(|| jumps.next()).flatten();
            let moves = moves.as_chunks_mut().0;
            jobs.push((i, CursorGradients { moves, start, jumps }));
        }
        let gammas: Vec<T> = jobs.into_par_iter().map(|(i, into)| run(i, into)).collect();
        if let Some(gamma) = into.gamma {
            gamma.fill(T::ZERO);
            // Summed in order, so that the result does not depend on the number of threads.
            for (i, part) in gammas.into_iter().enumerate() {
                gamma[i % d.cursors] = gamma[i % d.cursors] + part;
            }
        }
    }
}

for_both_precisions! {
    impl Scan<'_, T> {
        /// Writes the histograms after every step into `out` (B, C, L, P).
        pub fn forward(&self, out: &mut [T]) -> Result<(), KernelError> {
            self.check()?;
            let d = self.dims;
            check("out", out, d.batch * d.cursors * d.steps * d.places)?;
            if out.is_empty() {
                return Ok(());
            }
            let arch = Arch::new();
            let run = |(i, out)| {
                let cursor = self.cursor(i);
                arch.dispatch(Forward { cursor, out });
            };
            // A single step of a stream: waking other threads would take longer.
            if out.len() <= MAX_SERIAL {
                out.chunks_mut(d.steps * d.places).enumerate().for_each(run);
            } else {
                out.par_chunks_mut(d.steps * d.places).enumerate().for_each(run);
            }
            Ok(())
        }
    }
}

/// Buffers for one cursor's gradients.
pub(crate) struct CursorGradients<'a, T> {
    pub(crate) moves: &'a mut [[T; MOVES]],
    pub(crate) start: &'a mut [T],
    pub(crate) jumps: Option<&'a mut [T]>,
}

impl<T> CursorGradients<'_, T> {
    /// The gradient of the jump of a step.
    #[inline(always)]
    pub(crate) fn jump(&mut self, step: usize, places: usize) -> Option<&mut [T]> {
        let jumps = self.jumps.as_deref_mut()?;
        Some(&mut jumps[step * places..][..places])
    }
}

/// Inputs of one cursor of one row.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a, T> {
    pub(crate) places: usize,
    pub(crate) moves: &'a [[T; MOVES]],
    pub(crate) start: &'a [T],
    pub(crate) gamma: Option<T>,
    jumps: Option<&'a [T]>,
}

impl<T: Lanes> Cursor<'_, T> {
    pub(crate) fn jump(&self, step: usize) -> Option<&[T]> {
        self.jumps.map(|j| &j[step * self.places..][..self.places])
    }

    /// Computes the histogram `n` after step `t` from that before it, `h`, both padded; copies it into `out`, without
    /// padding, unless that is empty.
    #[inline(always)]
    pub(crate) fn step<S: Simd>(&self, s: S, t: usize, h: &[T], n: &mut [T], out: &mut [T]) {
        shift(s, h, &self.moves[t], self.jump(t), self.places, n);
        if let Some(gamma) = self.gamma {
            let total = power(s, n, gamma, self.places);
            divide(s, n, total, out);
        } else {
            out.copy_from_slice(&n[1..=out.len()]);
        }
    }
}

/// Forward pass of one cursor's sequence, compiled for several instruction sets; the best available one runs.
struct Forward<'a, T> {
    cursor: Cursor<'a, T>,
    out: &'a mut [T],
}

impl<T: Lanes> WithSimd for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let cursor = self.cursor;
        let places = cursor.places;
        let width = padded::<S, T>(places);
        let mut buffers = vec![T::ZERO; 2 * width];
        let (mut h, mut n) = buffers.split_at_mut(width);
        h[1..=places].copy_from_slice(cursor.start);
        for (t, out) in self.out.chunks_exact_mut(places).enumerate() {
            cursor.step(s, t, h, n, out);
            std::mem::swap(&mut h, &mut n);
        }
    }
}
