//! Bounds on Euclidean distances from small integers, at a fraction of the cost of the distances.
//!
//! Every state is also stored as multiples of a step relative to an origin near the data: its sketch. The error of a
//! sketch is computed when it is made, so the distance of two sketches, which is exact in integers, gives a lower and
//! an upper bound on the distance of the states. The bounds hold for any data; if they are too wide to decide
//! anything, only time is lost.

use crate::kernel::{LANES, pairs};

/// The length of a sketch is a multiple of this.
const WIDE: usize = 32;
/// Numbers whose products are summed in 32 bits.
const BLOCK: usize = 128;
/// Largest number of a sketch: `BLOCK * MAX_VALUE^2` fits 31 bits.
const MAX_VALUE: f64 = 2047.0;
/// Smallest dimension from which on sketches save time.
const MIN_DIM: usize = 24;
/// Smallest step, and a bound on what squares lose by underflow.
const TINY: f64 = 1e-140;
/// Adding this to a number rounds it to an integer, which is then in the low bits.
pub(crate) const ROUND: f64 = 6_755_399_441_055_744.0;

/// Sketches of the states in a window.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    /// Length of a sketch, padding (zeros) included.
    len: usize,
    origin: Vec<f64>,
    step: f64,
    /// Sketches, by slot.
    rows: Vec<i16>,
    /// Their squared norms, by slot.
    squares: Vec<i64>,
    query: Vec<i16>,
    query_square: i64,
    query_error: f64,
    /// Largest distance of a state in the window from its sketch.
    max_error: f64,
}

impl Sketch {
    /// Room for `slots` states of `dim` numbers, a multiple of [`LANES`]; `None` if sketches would not save time.
    pub(crate) fn new(dim: usize, slots: usize) -> Option<Self> {
        debug_assert!(dim.is_multiple_of(LANES));
        let len = dim.next_multiple_of(WIDE);
        (dim >= MIN_DIM).then(|| Self {
            len,
            origin: vec![0.0; dim],
            step: TINY,
            rows: vec![0; slots * len],
            squares: vec![0; slots],
            query: vec![0; len],
            query_square: 0,
            query_error: 0.0,
            max_error: 0.0,
        })
    }

    /// Forgets all states and sets the origin.
    pub(crate) fn restart(&mut self, origin: &[f64]) {
        self.origin.copy_from_slice(origin);
        self.step = TINY;
        self.max_error = 0.0;
    }

    /// Whether the sketches are too coarse to distinguish states of a window of this radius.
    pub(crate) fn is_coarse(&self, radius: f64) -> bool {
        self.max_error > 0.01 * radius
    }

    /// Increases the step if a state is beyond the range; returns true if all sketches must then be drawn again.
    #[inline(always)]
    pub(crate) fn widen(&mut self, state: &[f64]) -> bool {
        let mut max = [0.0; LANES];
        for (x, o) in pairs::<LANES, _>(state, &self.origin) {
            for l in 0..LANES {
                let d = (x[l] - o[l]).abs();
                max[l] = if d > max[l] { d } else { max[l] };
            }
        }
        let max = max.into_iter().fold(0.0, f64::max);
        if max <= MAX_VALUE * self.step {
            return false;
        }
        // Twice the range, so that steadily growing data need few redraws.
        self.step = 2.0 * max / MAX_VALUE;
        self.max_error = 0.0;
        true
    }

    /// Draws the sketch of a state that enters the window.
    #[inline(always)]
    pub(crate) fn enter(&mut self, slot: usize, state: &[f64]) {
        if self.squares.len() <= slot {
            self.rows.resize((slot + 1) * self.len, 0);
            self.squares.resize(slot + 1, 0);
        }
        let row = &mut self.rows[slot * self.len..(slot + 1) * self.len];
        self.max_error = self.max_error.max(draw(&self.origin, self.step, state, row));
        self.squares[slot] = dot(row, row);
    }

    /// Makes the state in this slot the query that distances are measured to.
    #[inline(always)]
    pub(crate) fn query_slot(&mut self, slot: usize) {
        self.query
            .copy_from_slice(&self.rows[slot * self.len..(slot + 1) * self.len]);
        self.query_square = self.squares[slot];
        self.query_error = self.max_error;
    }

    /// Makes a point within the range of the states the query that distances are measured to.
    #[inline(always)]
    pub(crate) fn query_point(&mut self, point: &[f64]) {
        self.query_error = draw(&self.origin, self.step, point, &mut self.query);
        self.query_square = dot(&self.query, &self.query);
    }

    /// Squared distance of a slot's sketch to the query, in steps.
    #[inline(always)]
    pub(crate) fn measure(&self, slot: usize) -> i64 {
        let row = &self.rows[slot * self.len..(slot + 1) * self.len];
        self.squares[slot] + self.query_square - 2 * dot(row, &self.query)
    }

    /// Factor and error: the true distance is at least the root of a squared distance times the factor, less the
    /// error.
    #[inline(always)]
    pub(crate) fn lower(&self) -> (f64, f64) {
        (self.step * (1.0 - 1e-12), self.error())
    }

    /// Upper bound on the true distance of a squared distance.
    #[inline(always)]
    pub(crate) fn upper(&self, square: i64) -> f64 {
        (square as f64).sqrt() * (self.step * (1.0 + 1e-12)) + self.error()
    }

    #[inline(always)]
    fn error(&self) -> f64 {
        (self.max_error + self.query_error) * (1.0 + 1e-12)
    }
}

/// Inner product of two sketches.
#[inline(always)]
fn dot(a: &[i16], b: &[i16]) -> i64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<BLOCK>(), b.as_chunks::<BLOCK>());
    let mut sum = 0;
    for (a, b) in a.iter().zip(b) {
        sum += i64::from(block(a, b));
    }
    let mut rest = 0;
    for (a, b) in pairs::<WIDE, _>(a_rest, b_rest) {
        rest += block(a, b);
    }
    sum + i64::from(rest)
}

/// Inner product as a loop of fixed length over pairs of 16 bits, for which compilers use the multiply-add
/// instruction.
#[inline(always)]
fn block<const N: usize>(a: &[i16; N], b: &[i16; N]) -> i32 {
    let mut sum = 0;
    for l in 0..N {
        sum += i32::from(a[l]) * i32::from(b[l]);
    }
    sum
}

/// Writes the sketch of a state that is within the range; returns a bound on its distance from the state.
#[inline(always)]
fn draw(origin: &[f64], step: f64, state: &[f64], out: &mut [i16]) -> f64 {
    let inverse = 1.0 / step;
    let (mut error, mut norm) = ([0.0; LANES], [0.0; LANES]);
    for ((x, o), out) in pairs::<LANES, _>(state, origin).zip(out.as_chunks_mut::<LANES>().0) {
        for l in 0..LANES {
            let d = x[l] - o[l];
            let rounded = d * inverse + ROUND;
            out[l] = rounded.to_bits() as i16;
            let e = d - step * (rounded - ROUND);
            error[l] += e * e;
            norm[l] += d * d;
        }
    }
    let sum = |s: [f64; LANES]| s.iter().sum::<f64>();
    // The difference and the multiple of the step round by 2^-53 each.
    sum(error).sqrt() * (1.0 + 1e-12) + sum(norm).sqrt() * 2f64.powi(-51) + TINY
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::vector_dist2;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bounds_hold(
            base in prop::collection::vec(-1.0..1.0f64, 136),
            other in prop::collection::vec(-1.0..1.0f64, 136),
            scale in -150..95i32,
            near in -12..1i32,
            far in 0..5i32,
        ) {
            let scale = 10f64.powi(scale);
            let offset = scale * 10f64.powi(far);
            let a: Vec<f64> = base.iter().map(|x| offset + scale * x).collect();
            let b: Vec<f64> = a.iter().zip(&other).map(|(a, y)| a + scale * 10f64.powi(near) * y).collect();
            let middle: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (a + b) / 2.0).collect();
            let mut sketch = Sketch::new(136, 3).unwrap();
            sketch.restart(&[0.9 * offset; 136]);
            while sketch.widen(&a) || sketch.widen(&b) {}
            sketch.enter(1, &a);
            sketch.enter(10, &b);
            sketch.query_slot(1);
            for (point, asked) in [(&a, false), (&middle, true)] {
                if asked {
                    sketch.query_point(point);
                }
                let distance = vector_dist2(point, &b).sqrt();
                let square = sketch.measure(10);
                let (factor, error) = sketch.lower();
                let lower = (square as f64).sqrt() * factor - error;
                prop_assert!(lower <= distance, "{lower} {distance}");
                prop_assert!(sketch.upper(square) >= distance, "{} {distance}", sketch.upper(square));
                if scale > 1e-120 && near == 0 && far == 0 {
                    prop_assert!(sketch.upper(square) - lower < 0.1 * distance);
                }
            }
        }
    }

    #[test]
    fn products_of_the_largest_numbers_fit() {
        let a = vec![2047; 1024];
        assert_eq!(dot(&a, &a), 1024 * 2047 * 2047);
    }
}
