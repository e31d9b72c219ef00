//! Whole sequences: cursors in parallel, steps one after the other.

use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use crate::error::PrismError;
use crate::real::Real;
use crate::step::{back, sharpen, shift, sum};

/// Numbers that say how a cursor moves in one step: up by one, down by one, not at all, to place 0, to place 1.
pub const MOVES: usize = 5;

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
    /// How many of the cursors, the first ones, can jump anywhere.
    pub jumping: usize,
}

/// What goes into a scan; all arrays in C order.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a, T> {
    /// Sizes.
    pub dims: Dims,
    /// (B, C, L, 5) weights of the [`MOVES`].
    pub moves: &'a [T],
    /// (B, C, P) histograms before the first step.
    pub start: &'a [T],
    /// (C,) exponents; `None` leaves the histograms as they are.
    pub gamma: Option<&'a [T]>,
    /// (B, jumping, L, P) weights of jumps.
    pub jumps: Option<&'a [T]>,
}

/// Where the gradients of a scan go.
#[derive(Debug)]
pub struct Gradients<'a, T> {
    /// (B, C, L, 5).
    pub moves: &'a mut [T],
    /// (B, C, P).
    pub start: &'a mut [T],
    /// (C,), given exactly where the scan has exponents.
    pub gamma: Option<&'a mut [T]>,
    /// (B, jumping, L, P), given exactly where the scan has jumps.
    pub jumps: Option<&'a mut [T]>,
}

pub(crate) fn check<T>(name: &'static str, given: &[T], expected: usize) -> Result<(), PrismError> {
    if given.len() == expected {
        return Ok(());
    }
    Err(PrismError::Length {
        name,
        expected,
        given: given.len(),
    })
}

/// Both given, or none: an optional gradient follows its input.
fn check_option<T>(
    name: &'static str,
    given: Option<&[T]>,
    wanted: bool,
    expected: usize,
) -> Result<(), PrismError> {
    match given {
        Some(given) if wanted => check(name, given, expected),
        None if !wanted => Ok(()),
        given => Err(PrismError::Length {
            name,
            expected: if wanted { expected } else { 0 },
            given: given.map_or(0, <[T]>::len),
        }),
    }
}

impl<T: Real> Scan<'_, T> {
    fn check(&self) -> Result<(), PrismError> {
        let d = self.dims;
        if d.places < 2 {
            return Err(PrismError::Places { given: d.places });
        }
        if d.jumping > d.cursors {
            return Err(PrismError::Jumping {
                cursors: d.cursors,
                given: d.jumping,
            });
        }
        check("moves", self.moves, d.batch * d.cursors * d.steps * MOVES)?;
        check("start", self.start, d.batch * d.cursors * d.places)?;
        check_option("gamma", self.gamma, self.gamma.is_some(), d.cursors)?;
        let jumps = d.batch * d.jumping * d.steps * d.places;
        check_option("jumps", self.jumps, d.jumping > 0, jumps)
    }

    /// One cursor's part of the input.
    fn cursor(&self, index: usize) -> Cursor<'_, T> {
        let d = self.dims;
        let (row, cursor) = (index / d.cursors, index % d.cursors);
        let long = d.steps * d.places;
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
                .map(|j| &j[(row * d.jumping + cursor) * long..][..long]),
        }
    }

    /// The histograms after every step into `out` (B, C, L, P).
    pub fn forward(&self, out: &mut [T]) -> Result<(), PrismError> {
        self.check()?;
        let d = self.dims;
        check("out", out, d.batch * d.cursors * d.steps * d.places)?;
        if out.is_empty() {
            return Ok(());
        }
        let arch = Arch::new();
        out.par_chunks_mut(d.steps * d.places)
            .enumerate()
            .for_each(|(i, out)| {
                let cursor = self.cursor(i);
                arch.dispatch(Forward { cursor, out });
            });
        Ok(())
    }

    /// Gradients of everything that went in, from the histograms (B, C, L, P) that came out and their gradients.
    pub fn backward(&self, out: &[T], grad: &[T], into: Gradients<'_, T>) -> Result<(), PrismError> {
        self.check()?;
        let d = self.dims;
        let (cursors, long) = (d.batch * d.cursors, d.steps * d.places);
        check("out", out, cursors * long)?;
        check("grad", grad, cursors * long)?;
        check("moves' gradient", into.moves, self.moves.len())?;
        check("start's gradient", into.start, self.start.len())?;
        let given = into.gamma.as_deref();
        check_option("gamma's gradient", given, self.gamma.is_some(), d.cursors)?;
        let jumps = d.batch * d.jumping * long;
        check_option(
            "jumps' gradient",
            into.jumps.as_deref(),
            self.jumps.is_some(),
            jumps,
        )?;
        if long == 0 {
            into.start.fill(T::ZERO);
            if let Some(gamma) = into.gamma {
                gamma.fill(T::ZERO);
            }
            return Ok(());
        }
        let mut jumps = into
            .jumps
            .unwrap_or_default()
            .chunks_mut(long)
            .collect::<Vec<_>>()
            .into_iter();
        let mut jobs = Vec::with_capacity(cursors);
        let parts = into
            .moves
            .chunks_mut(d.steps * MOVES)
            .zip(into.start.chunks_mut(d.places));
        for (i, (moves, start)) in parts.enumerate() {
            let jump = (i % d.cursors < d.jumping).then(|| jumps.next()).flatten();
            jobs.push((i, moves, start, jump));
        }
        let arch = Arch::new();
        let gammas: Vec<T> = jobs
            .into_par_iter()
            .map(|(i, moves, start, jumps)| {
                arch.dispatch(Backward {
                    cursor: self.cursor(i),
                    out: &out[i * long..][..long],
                    grad: &grad[i * long..][..long],
                    moves: moves.as_chunks_mut().0,
                    start,
                    jumps,
                })
            })
            .collect();
        if let Some(gamma) = into.gamma {
            gamma.fill(T::ZERO);
            // One after the other: the sum does not depend on the number of threads.
            for (i, part) in gammas.into_iter().enumerate() {
                gamma[i % d.cursors] = gamma[i % d.cursors] + part;
            }
        }
        Ok(())
    }
}

/// One cursor of one row.
#[derive(Clone, Copy)]
struct Cursor<'a, T> {
    places: usize,
    moves: &'a [[T; MOVES]],
    start: &'a [T],
    gamma: Option<T>,
    jumps: Option<&'a [T]>,
}

impl<T> Cursor<'_, T> {
    fn jump(&self, step: usize) -> Option<&[T]> {
        self.jumps.map(|j| &j[step * self.places..][..self.places])
    }
}

/// One cursor's sequence, compiled for each instruction set there may be and run with the best that there is.
struct Forward<'a, T> {
    cursor: Cursor<'a, T>,
    out: &'a mut [T],
}

impl<T: Real> NullaryFnOnce for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let cursor = self.cursor;
        let places = cursor.places;
        for (t, moves) in cursor.moves.iter().enumerate() {
            let (done, rest) = self.out.split_at_mut(t * places);
            let before = if t == 0 {
                cursor.start
            } else {
                &done[(t - 1) * places..]
            };
            let after = &mut rest[..places];
            shift(before, moves, cursor.jump(t), sum(before), after);
            if let Some(gamma) = cursor.gamma {
                sharpen(after, gamma);
            }
        }
    }
}

/// One cursor's sequence from its end; returns the gradient of its exponent.
struct Backward<'a, T> {
    cursor: Cursor<'a, T>,
    out: &'a [T],
    grad: &'a [T],
    moves: &'a mut [[T; MOVES]],
    start: &'a mut [T],
    jumps: Option<&'a mut [T]>,
}

impl<T: Real> NullaryFnOnce for Backward<'_, T> {
    type Output = T;

    #[inline(always)]
    fn call(mut self) -> T {
        let cursor = self.cursor;
        let places = cursor.places;
        let mut buffers = vec![T::ZERO; 3 * places];
        let (n, rest) = buffers.split_at_mut(places);
        let (d, flowing) = rest.split_at_mut(places);
        let mut gamma = T::ZERO;
        self.start.fill(T::ZERO);
        for t in (0..cursor.moves.len()).rev() {
            let before = if t == 0 {
                cursor.start
            } else {
                &self.out[(t - 1) * places..][..places]
            };
            for ((out, &later), &here) in flowing
                .iter_mut()
                .zip(&*self.start)
                .zip(&self.grad[t * places..][..places])
            {
                *out = later + here;
            }
            let jump_grad = self.jumps.as_deref_mut().map(|j| &mut j[t * places..][..places]);
            let passed = back(
                before,
                &self.out[t * places..][..places],
                flowing,
                &cursor.moves[t],
                cursor.jump(t).zip(jump_grad),
                cursor.gamma,
                n,
                d,
                self.start,
            );
            self.moves[t] = passed.moves;
            gamma = gamma + passed.gamma;
        }
        gamma
    }
}
