//! What a key is first compared by: a projection onto a few directions in which keys differ most.
//!
//! The directions are orthonormal, so that two sketches are never farther apart than their keys are: what is farther
//! than the nearest found so far by its sketch alone is farther. Means and tempo of the parameters are most of what
//! keys differ in, then come hands and toes.

use crate::PARAMETER_COUNT;
use crate::key::{KEY_SIZE, Key};

/// How many numbers a sketch has.
pub(crate) const SKETCH: usize = 2 * PARAMETER_COUNT + PLACES.len();

/// In the units of a key.
pub(crate) type Sketch = [i16; SKETCH];

/// Blocks of eight parameters that a key begins with.
const BLOCKS: usize = 7;
/// How the blocks are added: all alike; late against early. Both of length one, at right angles.
const MEAN: f64 = 0.377_964_473;
const LATE: [f64; BLOCKS] = [3.0, 1.0, -1.0, -2.0, -3.0, 2.0, 0.0];
const LATE_LENGTH: f64 = 5.291_502_622;
/// Coordinates of the posture, in the order of a key: both hands, and how far ahead the toes are.
const PLACES: [usize; 8] = [24, 25, 26, 36, 37, 38, 50, 62];
const POSTURE: usize = (KEY_SIZE - BLOCKS * PARAMETER_COUNT) / 2;

pub(crate) fn sketch(key: &Key) -> Sketch {
    let (parameters, postures) = key.split_at(BLOCKS * PARAMETER_COUNT);
    let mut out = [0; SKETCH];
    let block = |b: usize, p: usize| f64::from(parameters[b * PARAMETER_COUNT + p]);
    for p in 0..PARAMETER_COUNT {
        let mean: f64 = (0..BLOCKS).map(|b| block(b, p)).sum();
        let late: f64 = LATE.iter().enumerate().map(|(b, by)| by * block(b, p)).sum();
        out[p] = (mean * MEAN).round() as i16;
        out[PARAMETER_COUNT + p] = (late / LATE_LENGTH).round() as i16;
    }
    for (slot, place) in out[2 * PARAMETER_COUNT..].iter_mut().zip(PLACES) {
        let sum = f64::from(postures[place]) + f64::from(postures[POSTURE + place]);
        *slot = (sum * std::f64::consts::FRAC_1_SQRT_2).round() as i16;
    }
    out
}

/// The squared distance of two sketches, in units of a key.
#[inline(always)]
pub(crate) fn distance(a: &Sketch, b: &Sketch) -> i32 {
    // In 16 bits, in which sketches differ: this is what the machine multiplies and adds at once.
    let apart = a.iter().zip(b).map(|(&a, &b)| i32::from(a - b));
    apart.map(|apart| apart * apart).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::{GREATEST, Split, UNIT};

    fn keys() -> impl Strategy<Value = Key> {
        proptest::collection::vec(-GREATEST..=GREATEST, KEY_SIZE)
            .prop_map(|values| std::array::from_fn(|i| values[i]))
    }

    /// By whole numbers, as they are stored.
    fn apart(a: &Key, b: &Key) -> f32 {
        let b = Split::of(b);
        crate::key::distance(&Split::of(a), &b.own, &b.earlier)
    }

    proptest! {
        #[test]
        fn sketches_are_no_farther_apart_than_their_keys(a in keys(), b in keys()) {
            let keys_apart = f64::from(apart(&a, &b)) * UNIT * UNIT;
            let apart = f64::from(distance(&sketch(&a), &sketch(&b)));
            // Each number of a sketch is rounded by half a unit at most.
            prop_assert!(apart.sqrt() <= keys_apart.sqrt() + (SKETCH as f64).sqrt() + 1.0);
        }

        #[test]
        fn distances_are_those_of_the_numbers(a in keys(), b in keys()) {
            let exact: f64 = a.iter().zip(&b).map(|(&a, &b)| ((f64::from(a) - f64::from(b)) / UNIT).powi(2)).sum();
            prop_assert!((f64::from(apart(&a, &b)) - exact).abs() <= 1e-6 * exact.max(1.0));
        }
    }
}
