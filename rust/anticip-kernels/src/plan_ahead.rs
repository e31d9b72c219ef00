//! Training targets of an anticipator: the codes after and before each step of a sequence.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use crate::error::{KernelError, check, check_positive};

/// Sequences of codes, and the horizon around each step.
#[derive(Clone, Copy, Debug)]
pub struct PlanAhead<'a> {
    /// (rows, count), negative for none.
    pub codes: &'a [i64],
    /// Codes per row.
    pub count: usize,
    /// Steps K of the horizon.
    pub horizon: usize,
}

impl PlanAhead<'_> {
    /// Computes the target of each code in the K steps after a step: `sum ln(K + 2 - d)` over the distances d at which
    /// it occurs, divided by the sum over all codes. Returns the distinct targets, 0 first.
    ///
    /// # Arguments
    ///
    /// * `place`: (rows, length, K) index of the target of the code d + 1 steps ahead; 0 if there is none, or the
    ///   code also occurs nearer.
    /// * `gone`: (rows, length, K) whether the code K - 1 - d steps back does not occur after that, up to the last of
    ///   the K steps ahead.
    /// * `whole`: (rows, length) whether all K codes ahead exist.
    pub fn targets(
        &self,
        place: &mut [i64],
        gone: &mut [bool],
        whole: &mut [bool],
    ) -> Result<Vec<f64>, KernelError> {
        let (count, horizon) = (self.count, self.horizon);
        check_positive("horizon", horizon)?;
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
            let occurrences = occurrences(codes);
            let each = place
                .chunks_exact_mut(horizon)
                .zip(gone.chunks_exact_mut(horizon));
            for (step, ((place, gone), whole)) in each.zip(whole).enumerate() {
                let last = step + horizon;
                let ahead = occurrences.get(step + 1..count.min(last + 1)).unwrap_or_default();
                let existing = ahead
                    .iter()
                    .zip(&weights)
                    .filter(|(occurrence, _)| occurrence.exists);
                let (count_known, sum) =
                    existing.fold((0, 0.0), |(n, sum), (_, weight)| (n + 1, sum + weight));
                *whole = count_known == horizon;
                place.fill(0);
                for (d, occurrence) in ahead
                    .iter()
                    .enumerate()
                    .rev()
                    .filter(|(_, occurrence)| occurrence.exists)
                {
                    let farther = if occurrence.next <= last {
                        totals[occurrence.next - step - 1]
                    } else {
                        0.0
                    };
                    totals[d] = weights[d] + farther;
                    if occurrence.before <= step {
                        place[d] = targets.index_of(totals[d] / sum);
                    }
                }
                for (d, gone) in gone.iter_mut().enumerate() {
                    let back = (step + 1 + d)
                        .checked_sub(horizon)
                        .and_then(|at| occurrences.get(at));
                    *gone = back.is_some_and(|occurrence| occurrence.exists && occurrence.next > last);
                }
            }
        }
        Ok(targets.values)
    }
}

/// Neighbouring occurrences of the code of a step: `next`, or `usize::MAX`, and `before`, or 0.
#[derive(Clone, Copy)]
struct Occurrence {
    exists: bool,
    before: usize,
    next: usize,
}

fn occurrences(codes: &[i64]) -> Vec<Occurrence> {
    let mut seen: HashMap<u64, usize, BuildHasherDefault<FastHasher>> = HashMap::default();
    let mut found: Vec<Occurrence> = Vec::with_capacity(codes.len());
    for (at, &code) in codes.iter().enumerate() {
        let (exists, next) = (code >= 0, usize::MAX);
        let before = if exists {
            seen.insert(code as u64, at)
        } else {
            None
        };
        if let Some(before) = before {
            found[before].next = at;
        }
        let before = before.unwrap_or(0);
        found.push(Occurrence { exists, before, next });
    }
    found
}

/// Distinct target values, and their indices.
struct Targets {
    values: Vec<f64>,
    places: HashMap<u64, i64, BuildHasherDefault<FastHasher>>,
}

impl Targets {
    fn new() -> Self {
        Self {
            values: vec![0.0],
            places: HashMap::default(),
        }
    }

    fn index_of(&mut self, value: f64) -> i64 {
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

/// A hash of one number by one multiplication, for keys that are not adversarial.
#[derive(Default)]
struct FastHasher(u64);

impl Hasher for FastHasher {
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
        let error = |codes: &[i64], horizon, sizes: (usize, usize, usize)| {
            let input = PlanAhead {
                horizon,
                ..ahead(codes)
            };
            let (mut place, mut gone) = (vec![0; sizes.0], vec![false; sizes.1]);
            input
                .targets(&mut place, &mut gone, &mut vec![false; sizes.2])
                .is_ok()
        };
        assert!(error(&[1, 2], 3, (6, 6, 2)));
        assert!(error(&[], 3, (0, 0, 0)));
        let no_horizon = PlanAhead {
            horizon: 0,
            ..ahead(&[1, 2])
        };
        let refused = no_horizon.targets(&mut [], &mut [], &mut [false; 2]);
        let message = refused.unwrap_err().to_string();
        assert_eq!(message, "horizon: expected at least 1, got 0");
        assert!(!error(&[1, 2], 3, (5, 6, 2)));
        assert!(!error(&[1, 2], 3, (6, 7, 2)));
        assert!(!error(&[], 3, (0, 0, 1)));
    }
}
