//! Positions that move with the path of embeddings, and sinusoidal encodings at real positions.
//!
//! A sequence's step i lies at `i + d_i`, where `d_0 = 0` and `d_i = d_(i-1) + a tanh(b |e_i - e_(i-1)|)`. An
//! encoding is the table's row of the nearest whole position, turned by what is left over: at most half a
//! radian, where short polynomials are exact to the last bit of single precision.

use pulp::{Arch, NullaryFnOnce};

use crate::error::{KernelError, check};

/// How content moves positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trajectory {
    /// The most that a step adds, a.
    pub strength: f64,
    /// What lengths are multiplied by, b.
    pub magnitude: f64,
    /// Whether lengths are divided by the root mean square of those of the sequence so far.
    pub rms: bool,
}

/// Sinusoids of the whole positions 0, 1, ...
#[derive(Clone, Copy, Debug)]
pub struct Sinusoids<'a> {
    /// Rows of pairs (sine, cosine), one pair for each speed.
    pub table: &'a [f32],
    /// Radians per position of each pair, in [0, 1].
    pub speeds: &'a [f32],
    /// Channels of an encoding: two for each speed, or one less.
    pub width: usize,
}

impl Trajectory {
    /// Encodings of embeddings (sequences, steps, width) into `out` of the same shape.
    ///
    /// Returns how many sequences have an embedding that is not finite; from it on theirs is the encoding of
    /// the step's number. Positions that the table does not reach are an error; `out` is then of no use.
    pub fn encode(
        &self,
        embedded: &[f32],
        steps: usize,
        sinusoids: Sinusoids<'_>,
        out: &mut [f32],
    ) -> Result<usize, KernelError> {
        let width = sinusoids.width;
        let one = sequence_len(embedded, steps, width)?;
        check("out", out, embedded.len())?;
        sinusoids.check()?;
        if one == 0 {
            return Ok(0);
        }
        let arch = Arch::new();
        let (rule, mut fallen) = (*self, 0);
        for (path, out) in embedded.chunks_exact(one).zip(out.chunks_exact_mut(one)) {
            let fell = arch.dispatch(Encode {
                rule,
                path,
                sinusoids,
                out,
            });
            fallen += usize::from(fell?);
        }
        Ok(fallen)
    }
}

/// What a sequence's next displacement depends on.
struct Walk<'a> {
    rule: Trajectory,
    before: &'a [f32],
    steps: usize,
    moved: f64,
    power: f64,
}

impl<'a> Walk<'a> {
    fn new(rule: Trajectory) -> Self {
        Self {
            rule,
            before: &[],
            steps: 0,
            moved: 0.0,
            power: 0.0,
        }
    }

    /// The displacement of the next embedding.
    // No closure: it would not be compiled for the instruction set that it is called under.
    #[inline(always)]
    fn step(&mut self, here: &'a [f32]) -> f64 {
        if self.steps == 0 {
            // Later, what is not finite shows in the step to it.
            if !squared_distance(here, here).is_finite() {
                self.moved = f64::NAN;
            }
        } else {
            let mut length = squared_distance(here, self.before).sqrt();
            if self.rule.rms {
                self.power += length * length;
                if self.power > 0.0 {
                    length /= (self.power / self.steps as f64).sqrt();
                }
            }
            self.moved += if length.is_finite() {
                self.rule.strength * (self.rule.magnitude * length).tanh()
            } else {
                f64::NAN
            };
        }
        self.steps += 1;
        self.before = here;
        self.moved
    }
}

impl Sinusoids<'_> {
    /// Encodings of positions, written to `out` (positions, width). Positions are at most half of one before the table's
    /// first row or after its last.
    pub fn encode(&self, positions: &[f64], out: &mut [f32]) -> Result<(), KernelError> {
        self.check()?;
        check("out", out, positions.len() * self.width)?;
        if out.is_empty() {
            return Ok(());
        }
        positions.iter().try_for_each(|&position| self.reach(position))?;
        Arch::new().dispatch(Place {
            sinusoids: *self,
            positions,
            out,
        });
        Ok(())
    }

    fn check(&self) -> Result<(), KernelError> {
        let pairs = self.width.div_ceil(2).max(1);
        check("speeds", self.speeds, pairs)?;
        let rows = self.table.len() / (2 * pairs);
        check("table", self.table, rows.max(1) * 2 * pairs)
    }

    /// Refuses a position that the table does not reach.
    #[inline(always)]
    fn reach(&self, position: f64) -> Result<(), KernelError> {
        let rows = self.table.len() / (2 * self.speeds.len());
        if (-0.5..=rows as f64 - 0.5).contains(&position) {
            return Ok(());
        }
        Err(KernelError::Positions { rows })
    }

    #[inline(always)]
    fn place(&self, position: f64, out: &mut [f32]) {
        let row = 2 * self.speeds.len();
        // A float becomes the nearest number there is: none lies outside the table.
        let whole = ((position + 0.5) as usize).min(self.table.len() / row - 1);
        let rest = (position - whole as f64) as f32;
        let known = &self.table[whole * row..][..row];
        let (outs, rest_of_out) = out.as_chunks_mut::<16>();
        let (knowns, rest_of_known) = known.as_chunks::<16>();
        let (speeds, rest_of_speeds) = self.speeds.as_chunks::<8>();
        for ((o, k), w) in outs.iter_mut().zip(knowns).zip(speeds) {
            let (mut sines, mut cosines) = ([0.0; 8], [0.0; 8]);
            for ((s, c), &w) in sines.iter_mut().zip(&mut cosines).zip(w) {
                (*s, *c) = turn(rest * w);
            }
            for j in 0..8 {
                let (s, c) = (sines[j], cosines[j]);
                o[2 * j] = k[2 * j] * c + k[2 * j + 1] * s;
                o[2 * j + 1] = k[2 * j + 1] * c - k[2 * j] * s;
            }
        }
        // An odd width may end inside the last whole chunk of the table.
        let (rest_of_known, rest_of_speeds) = if rest_of_out.len() > rest_of_known.len() {
            (
                knowns.last().map_or(&[][..], |k| &k[..]),
                speeds.last().map_or(&[][..], |w| &w[..]),
            )
        } else {
            (rest_of_known, rest_of_speeds)
        };
        let pairs = rest_of_known.as_chunks::<2>().0;
        for ((o, [sine, cosine]), w) in rest_of_out.chunks_mut(2).zip(pairs).zip(rest_of_speeds) {
            let (s, c) = turn(rest * w);
            let both = [sine * c + cosine * s, cosine * c - sine * s];
            o.copy_from_slice(&both[..o.len()]);
        }
    }
}

/// Sine and cosine of at most half a radian, to 6e-9.
#[inline(always)]
fn turn(x: f32) -> (f32, f32) {
    let z = x * x;
    let sine = x + x * z * (z * (8.333_333e-3 - z * 1.984_127e-4) - 0.166_666_67);
    let cosine = 1.0 - z * (0.5 - z * (4.166_666_8e-2 - z * (1.388_888_9e-3 - z * 2.480_158_7e-5)));
    (sine, cosine)
}

/// In double precision, so that no two finite vectors are too far apart, and in eight sums.
#[inline(always)]
fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0_f64; 8];
    for (a, b) in a.iter().zip(b) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            let d = f64::from(a) - f64::from(b);
            *sum += d * d;
        }
    }
    for ((sum, &a), &b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        let d = f64::from(a) - f64::from(b);
        *sum += d * d;
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// Values of one sequence, once it is known that they divide what is given.
fn sequence_len(embedded: &[f32], steps: usize, width: usize) -> Result<usize, KernelError> {
    let one = steps.saturating_mul(width);
    let sequences = embedded.len().div_ceil(one.max(1));
    check("embedded", embedded, sequences.saturating_mul(one))?;
    Ok(one)
}

struct Encode<'a> {
    rule: Trajectory,
    path: &'a [f32],
    sinusoids: Sinusoids<'a>,
    out: &'a mut [f32],
}

impl NullaryFnOnce for Encode<'_> {
    /// Whether the sequence fell back.
    type Output = Result<bool, KernelError>;

    #[inline(always)]
    fn call(self) -> Self::Output {
        let (width, mut walk) = (self.sinusoids.width, Walk::new(self.rule));
        let steps = self
            .path
            .chunks_exact(width)
            .zip(self.out.chunks_exact_mut(width));
        for (i, (here, out)) in steps.enumerate() {
            let moved = walk.step(here);
            let position = i as f64 + if moved.is_nan() { 0.0 } else { moved };
            self.sinusoids.reach(position)?;
            self.sinusoids.place(position, out);
        }
        Ok(walk.moved.is_nan())
    }
}

struct Place<'a> {
    sinusoids: Sinusoids<'a>,
    positions: &'a [f64],
    out: &'a mut [f32],
}

impl NullaryFnOnce for Place<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let out = self.out.chunks_exact_mut(self.sinusoids.width);
        for (&position, out) in self.positions.iter().zip(out) {
            self.sinusoids.place(position, out);
        }
    }
}
