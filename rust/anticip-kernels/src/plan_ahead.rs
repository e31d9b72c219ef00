//! What comes and what has gone at each step of a sequence of codes: what an anticipator has to learn.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use crate::error::{KernelError, check};

/// Sequences of codes, and how far around a step they are looked at.
#[derive(Clone, Copy, Debug)]
pub struct PlanAhead<'a> {
    /// (rows, count), negative for none.
    pub codes: &'a [i64],
    /// Codes of a row.
    pub count: usize,
    /// K steps.
    pub horizon: usize,
}

impl PlanAhead<'_> {
    /// The target of each code in the K steps after a step, `sum ln(K + 2 - d)` over the distances d at which it comes,
    /// over the sum of all: the values that there are, 0 before all others.
    ///
    /// # Arguments
    ///
    /// * `place`: (rows, length, K) which of the values is that of the code d + 1 steps ahead; 0 where there is none,
    ///   or the code came nearer by.
    /// * `gone`: (rows, length, K) whether the code K - 1 - d steps back is none of those after it, to the last of the
    ///   K steps ahead.
    /// * `whole`: (rows, length) whether all K codes ahead exist.
    pub fn targets(
        &self,
        place: &mut [i64],
        gone: &mut [bool],
        whole: &mut [bool],
    ) -> Result<Vec<f64>, KernelError> {
        let (count, horizon) = (self.count, self.horizon);
        if horizon == 0 {
            return Err(KernelError::Width);
        }
        let rows = self.codes.len().checked_div(count).unwrap_or(0);
        check("codes", self.codes, rows * count)?;
        let length = whole.len().checked_div(rows).unwrap_or(0);
        check("whole", whole, rows * length)?;
        check("place", place, rows * length * horizon)?;
        check("gone", gone, rows * length * horizon)?;
        if length == 0 {
            return Ok(vec![0.0]);
        }
        let weights: Vec<f64> = (0..horizon).map(|d| ((horizon + 1 - d) as f64).ln()).collect();
        let (mut targets, mut totals) = (Targets::new(), vec![0.0; horizon]);
        let steps = length * horizon;
        let outputs = place
            .chunks_exact_mut(steps)
            .zip(gone.chunks_exact_mut(steps))
            .zip(whole.chunks_exact_mut(length));
        for (codes, ((place, gone), whole)) in self.codes.chunks_exact(count).zip(outputs) {
            let twins = twins(codes);
            let each = place
                .chunks_exact_mut(horizon)
                .zip(gone.chunks_exact_mut(horizon));
            for (step, ((place, gone), whole)) in each.zip(whole).enumerate() {
                let last = step + horizon;
                let ahead = twins.get(step + 1..count.min(last + 1)).unwrap_or_default();
                let there = ahead.iter().zip(&weights).filter(|(twin, _)| twin.there);
                let (known, sum) = there.fold((0, 0.0), |(n, sum), (_, weight)| (n + 1, sum + weight));
                *whole = known == horizon;
                place.fill(0);
                for (d, twin) in ahead.iter().enumerate().rev().filter(|(_, twin)| twin.there) {
                    let further = if twin.next <= last {
                        totals[twin.next - step - 1]
                    } else {
                        0.0
                    };
                    totals[d] = weights[d] + further;
                    if twin.before <= step {
                        place[d] = targets.place(totals[d] / sum);
                    }
                }
                for (d, gone) in gone.iter_mut().enumerate() {
                    let back = (step + 1 + d).checked_sub(horizon).and_then(|at| twins.get(at));
                    *gone = back.is_some_and(|twin| twin.there && twin.next > last);
                }
            }
        }
        Ok(targets.values)
    }
}

/// Where else the code of a step is: at `next`, or beyond all steps, and at `before`, or at 0.
#[derive(Clone, Copy)]
struct Twin {
    there: bool,
    before: usize,
    next: usize,
}

fn twins(codes: &[i64]) -> Vec<Twin> {
    let mut seen: HashMap<u64, usize, BuildHasherDefault<Mixed>> = HashMap::default();
    let mut found: Vec<Twin> = Vec::with_capacity(codes.len());
    for (at, &code) in codes.iter().enumerate() {
        let (there, next) = (code >= 0, usize::MAX);
        let before = if there { seen.insert(code as u64, at) } else { None };
        if let Some(before) = before {
            found[before].next = at;
        }
        let before = before.unwrap_or(0);
        found.push(Twin { there, before, next });
    }
    found
}

/// Values, each once.
struct Targets {
    values: Vec<f64>,
    places: HashMap<u64, i64, BuildHasherDefault<Mixed>>,
}

impl Targets {
    fn new() -> Self {
        Self {
            values: vec![0.0],
            places: HashMap::default(),
        }
    }

    fn place(&mut self, value: f64) -> i64 {
        let next = self.values.len() as i64;
        match self.places.entry(value.to_bits()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                self.values.push(value);
                *free.insert(next)
            }
        }
    }
}

/// A hash of one number, in one multiplication: what is hashed is nobody's attack.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::PlanAhead;
    use crate::KernelError;

    fn ahead(codes: &[i64]) -> PlanAhead<'_> {
        PlanAhead {
            codes,
            count: codes.len(),
            horizon: 3,
        }
    }

    #[test]
    fn codes_that_come_twice_have_one_target() -> Result<(), KernelError> {
        let (mut place, mut gone, mut whole) = ([9; 12], [true; 12], [true; 4]);
        let targets = ahead(&[5, 7, 5, 7, -1]).targets(&mut place, &mut gone, &mut whole)?;
        let (a, b, c) = (4f64.ln(), 3f64.ln(), 2f64.ln());
        // 7 5 7 ahead of step 0; 5 7 of step 1, where nothing is third; then 7 alone; then nothing.
        assert_eq!(place, [2, 1, 0, 4, 3, 0, 5, 0, 0, 0, 0, 0]);
        let wanted = [
            0.0,
            b / (a + b + c),
            (a + c) / (a + b + c),
            b / (a + b),
            a / (a + b),
            1.0,
        ];
        assert!(targets.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-15));
        assert_eq!(targets.len(), wanted.len());
        assert_eq!(whole, [true, false, false, false]);
        // At step 2 the 5 has gone, and the 7 is still to come; at step 3 both have.
        assert_eq!(gone[6..], [false, false, true, false, true, true]);
        assert!(!gone[..6].contains(&true));
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let told = |codes: &[i64], horizon, sizes: (usize, usize, usize)| {
            let given = PlanAhead {
                horizon,
                ..ahead(codes)
            };
            let (mut place, mut gone) = (vec![0; sizes.0], vec![false; sizes.1]);
            given
                .targets(&mut place, &mut gone, &mut vec![false; sizes.2])
                .is_ok()
        };
        assert!(told(&[1, 2], 3, (6, 6, 2)));
        assert!(told(&[], 3, (0, 0, 0)));
        assert!(!told(&[1, 2], 0, (0, 0, 2)));
        assert!(!told(&[1, 2], 3, (5, 6, 2)));
        assert!(!told(&[1, 2], 3, (6, 7, 2)));
        assert!(!told(&[], 3, (0, 0, 1)));
    }
}
