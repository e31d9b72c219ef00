//! Positions that depend on the path of embeddings, and sinusoidal encodings at real positions.
//!
//! Step i of a sequence is at position `i + d_i`, where `d_0 = 0` and `d_i = d_(i-1) + a tanh(b |e_i - e_(i-1)|)`.
//! An encoding is the table's row of the nearest whole position, rotated by the remaining fraction: at most half a
//! radian, where short polynomials are accurate to single precision.

use pulp::{Arch, NullaryFnOnce};

use crate::error::{KernelError, check, range};

/// Parameters of the displacement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trajectory {
    /// Maximum displacement per step, a.
    pub strength: f64,
    /// Factor of step lengths, b.
    pub magnitude: f64,
    /// Whether step lengths are divided by the root mean square of those of the sequence so far.
    pub rms: bool,
}

/// Sinusoids of the whole positions 0, 1, ...
#[derive(Clone, Copy, Debug)]
pub struct Sinusoids<'a> {
    /// Rows of pairs (sine, cosine), one pair for each speed.
    pub table: &'a [f32],
    /// Radians per position of each pair, in [0, 1].
    pub speeds: &'a [f32],
    /// Channels of an encoding: two for each speed, or one less in total.
    pub width: usize,
}

impl Trajectory {
    /// Writes the encodings of embeddings (sequences, steps, width) into `out` of the same shape.
    ///
    /// Returns the number of sequences with a non-finite embedding; from it on their encoding is that of the
    /// step's number. Positions outside the table are an error, which leaves `out` partly written.
    pub fn encode(
        &self,
        embedded: &[f32],
        steps: usize,
        sinusoids: Sinusoids<'_>,
        out: &mut [f32],
    ) -> Result<usize, KernelError> {
        let width = sinusoids.width;
        let values = sequence_len(embedded, steps, width)?;
        check("out", out, embedded.len())?;
        sinusoids.check()?;
        if values == 0 {
            return Ok(0);
        }
        let arch = Arch::new();
        let (parameters, mut fallbacks) = (*self, 0);
        for (path, out) in embedded.chunks_exact(values).zip(out.chunks_exact_mut(values)) {
            let fell_back = arch.dispatch(EncodeSequence {
                parameters,
                path,
                sinusoids,
                out,
            });
            fallbacks += usize::from(fell_back?);
        }
        Ok(fallbacks)
    }
}

/// State of a sequence's displacement.
struct DisplacementState<'a> {
    parameters: Trajectory,
    previous: &'a [f32],
    steps: usize,
    displacement: f64,
    power: f64,
}

impl<'a> DisplacementState<'a> {
    fn new(parameters: Trajectory) -> Self {
        Self {
            parameters,
            previous: &[],
            steps: 0,
            displacement: 0.0,
            power: 0.0,
        }
    }

    /// The displacement of the next embedding.
    // Not a closure, which would not be compiled for the caller's instruction set.
    #[inline(always)]
    fn step(&mut self, here: &'a [f32]) -> f64 {
        if self.steps == 0 {
            // A later non-finite embedding shows in the length of the step to it.
            if !squared_distance(here, here).is_finite() {
                self.displacement = f64::NAN;
            }
        } else {
            let mut length = squared_distance(here, self.previous).sqrt();
            if self.parameters.rms {
                self.power += length * length;
                if self.power > 0.0 {
                    length /= (self.power / self.steps as f64).sqrt();
                }
            }
            self.displacement += if length.is_finite() {
                self.parameters.strength * (self.parameters.magnitude * length).tanh()
            } else {
                f64::NAN
            };
        }
        self.steps += 1;
        self.previous = here;
        self.displacement
    }
}

impl Sinusoids<'_> {
    /// Writes the encodings of positions into `out` (positions, width). Positions may be at most 0.5 before the
    /// table's first row or after its last.
    pub fn encode(&self, positions: &[f64], out: &mut [f32]) -> Result<(), KernelError> {
        self.check()?;
        check("out", out, positions.len() * self.width)?;
        if out.is_empty() {
            return Ok(());
        }
        positions
            .iter()
            .try_for_each(|&position| self.check_position(position))?;
        Arch::new().dispatch(EncodePositions {
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

    /// Refuses a position outside the table.
    #[inline(always)]
    fn check_position(&self, position: f64) -> Result<(), KernelError> {
        let rows = self.table.len() / (2 * self.speeds.len());
        if (-0.5..=rows as f64 - 0.5).contains(&position) {
            return Ok(());
        }
        let table = format!("within the {rows} rows of the table");
        Err(range("positions", table, "one outside"))
    }

    /// Writes the encoding of one position.
    #[inline(always)]
    fn write_encoding(&self, position: f64, out: &mut [f32]) {
        let row = 2 * self.speeds.len();
        // The cast saturates, so that the row exists for every float.
        let whole = ((position + 0.5) as usize).min(self.table.len() / row - 1);
        let fraction = (position - whole as f64) as f32;
        let table_row = &self.table[whole * row..][..row];
        let (out_chunks, rest_of_out) = out.as_chunks_mut::<16>();
        let (table_chunks, rest_of_row) = table_row.as_chunks::<16>();
        let (speeds, rest_of_speeds) = self.speeds.as_chunks::<8>();
        for ((o, k), w) in out_chunks.iter_mut().zip(table_chunks).zip(speeds) {
            let (mut sines, mut cosines) = ([0.0; 8], [0.0; 8]);
            for ((s, c), &w) in sines.iter_mut().zip(&mut cosines).zip(w) {
                (*s, *c) = sin_cos(fraction * w);
            }
            for j in 0..8 {
                let (s, c) = (sines[j], cosines[j]);
                o[2 * j] = k[2 * j] * c + k[2 * j + 1] * s;
                o[2 * j + 1] = k[2 * j + 1] * c - k[2 * j] * s;
            }
        }
        // An odd width may end inside the last whole chunk of the table.
        let (rest_of_row, rest_of_speeds) = if rest_of_out.len() > rest_of_row.len() {
            (
                table_chunks.last().map_or(&[][..], |k| &k[..]),
                speeds.last().map_or(&[][..], |w| &w[..]),
            )
        } else {
            (rest_of_row, rest_of_speeds)
        };
        let pairs = rest_of_row.as_chunks::<2>().0;
        for ((o, [sine, cosine]), w) in rest_of_out.chunks_mut(2).zip(pairs).zip(rest_of_speeds) {
            let (s, c) = sin_cos(fraction * w);
            let pair = [sine * c + cosine * s, cosine * c - sine * s];
            o.copy_from_slice(&pair[..o.len()]);
        }
    }
}

/// Sine and cosine of at most half a radian, to 6e-9.
#[inline(always)]
fn sin_cos(x: f32) -> (f32, f32) {
    let z = x * x;
    let sine = x + x * z * (z * (8.333_333e-3 - z * 1.984_127e-4) - 0.166_666_67);
    let cosine = 1.0 - z * (0.5 - z * (4.166_666_8e-2 - z * (1.388_888_9e-3 - z * 2.480_158_7e-5)));
    (sine, cosine)
}

/// Squared distance in double precision, in which finite vectors cannot overflow, in eight partial sums.
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

/// Number of values per sequence; an error if the embeddings are not whole sequences.
fn sequence_len(embedded: &[f32], steps: usize, width: usize) -> Result<usize, KernelError> {
    let values = steps.saturating_mul(width);
    let sequences = embedded.len().div_ceil(values.max(1));
    check("embedded", embedded, sequences.saturating_mul(values))?;
    Ok(values)
}

struct EncodeSequence<'a> {
    parameters: Trajectory,
    path: &'a [f32],
    sinusoids: Sinusoids<'a>,
    out: &'a mut [f32],
}

impl NullaryFnOnce for EncodeSequence<'_> {
    /// Whether the sequence fell back.
    type Output = Result<bool, KernelError>;

    #[inline(always)]
    fn call(self) -> Self::Output {
        let (width, mut walk) = (self.sinusoids.width, DisplacementState::new(self.parameters));
        let steps = self
            .path
            .chunks_exact(width)
            .zip(self.out.chunks_exact_mut(width));
        for (i, (here, out)) in steps.enumerate() {
            let displacement = walk.step(here);
            let position = i as f64 + if displacement.is_nan() { 0.0 } else { displacement };
            self.sinusoids.check_position(position)?;
            self.sinusoids.write_encoding(position, out);
        }
        Ok(walk.displacement.is_nan())
    }
}

struct EncodePositions<'a> {
    sinusoids: Sinusoids<'a>,
    positions: &'a [f64],
    out: &'a mut [f32],
}

impl NullaryFnOnce for EncodePositions<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let out = self.out.chunks_exact_mut(self.sinusoids.width);
        for (&position, out) in self.positions.iter().zip(out) {
            self.sinusoids.write_encoding(position, out);
        }
    }
}
