//! A sketch of a key: its projection onto a few directions in which keys differ most.
//!
//! The directions are orthonormal, so two sketches are never farther apart than their keys: a moment whose
//! sketch is farther than the nearest key found so far can be skipped. Keys differ most in the mean and trend
//! of the parameters, then in hands and toes.

use crate::PARAMETER_COUNT;
use crate::key::{KEY_SIZE, Key};

/// Number of values in a sketch.
pub(crate) const SKETCH_SIZE: usize = 2 * PARAMETER_COUNT + PLACES.len();

/// A sketch, in the units of a key.
pub(crate) type Sketch = [i16; SKETCH_SIZE];

/// Number of blocks of eight parameters at the start of a key.
const BLOCKS: usize = 7;
/// Weight of each block in the mean of the blocks: 1 / sqrt(7), so that the direction has length 1.
const MEAN_WEIGHT: f64 = 0.377_964_473;
/// Weights of the blocks in the trend, late against early; orthogonal to the mean.
const TREND: [f64; BLOCKS] = [3.0, 1.0, -1.0, -2.0, -3.0, 2.0, 0.0];
/// Length of `TREND`, by which it is divided.
const TREND_LENGTH: f64 = 5.291_502_622;
/// Posture coordinates in a sketch, by index in the posture: both hands, and how far forward the toes are.
const PLACES: [usize; 8] = [24, 25, 26, 36, 37, 38, 50, 62];
/// Number of values in one posture of a key.
const POSTURE: usize = (KEY_SIZE - BLOCKS * PARAMETER_COUNT) / 2;

pub(crate) fn sketch(key: &Key) -> Sketch {
    let (parameters, postures) = key.split_at(BLOCKS * PARAMETER_COUNT);
    let mut out = [0; SKETCH_SIZE];
    let block = |b: usize, p: usize| f64::from(parameters[b * PARAMETER_COUNT + p]);
    for p in 0..PARAMETER_COUNT {
        let mean: f64 = (0..BLOCKS).map(|b| block(b, p)).sum();
        let trend: f64 = TREND
            .iter()
            .enumerate()
            .map(|(b, weight)| weight * block(b, p))
            .sum();
        out[p] = (mean * MEAN_WEIGHT).round() as i16;
        out[PARAMETER_COUNT + p] = (trend / TREND_LENGTH).round() as i16;
    }
    for (slot, place) in out[2 * PARAMETER_COUNT..].iter_mut().zip(PLACES) {
        let sum = f64::from(postures[place]) + f64::from(postures[POSTURE + place]);
        *slot = (sum * std::f64::consts::FRAC_1_SQRT_2).round() as i16;
    }
    out
}

/// The squared distance of two sketches, in units of a key squared.
#[inline(always)]
pub(crate) fn distance(a: &Sketch, b: &Sketch) -> i32 {
    // Differences fit 16 bits, which lets the compiler use a fused multiply-add of 16-bit integers.
    let differences = a.iter().zip(b).map(|(&a, &b)| i32::from(a - b));
    differences.map(|d| d * d).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::{MAX_VALUE, Split, UNIT};

    fn keys() -> impl Strategy<Value = Key> {
        proptest::collection::vec(-MAX_VALUE..=MAX_VALUE, KEY_SIZE)
            .prop_map(|values| std::array::from_fn(|i| values[i]))
    }

    /// Squared distance of two keys, computed from their stored form.
    fn key_distance(a: &Key, b: &Key) -> f32 {
        let b = Split::of(b);
        crate::key::distance(&Split::of(a), &b.own, &b.earlier)
    }

    proptest! {
        #[test]
        fn sketches_are_no_farther_apart_than_their_keys(a in keys(), b in keys()) {
            let key_distance_squared = f64::from(key_distance(&a, &b)) * UNIT * UNIT;
            let distance = f64::from(distance(&sketch(&a), &sketch(&b)));
            // Rounding moves each value of a sketch by at most half a unit.
            prop_assert!(distance.sqrt() <= key_distance_squared.sqrt() + (SKETCH_SIZE as f64).sqrt() + 1.0);
        }

        #[test]
        fn distances_are_those_of_the_numbers(a in keys(), b in keys()) {
            let exact: f64 = a.iter().zip(&b).map(|(&a, &b)| ((f64::from(a) - f64::from(b)) / UNIT).powi(2)).sum();
            prop_assert!((f64::from(key_distance(&a, &b)) - exact).abs() <= 1e-6 * exact.max(1.0));
        }
    }
}
