//! Plans for training: the codes that an anticipator with a known error distribution would select.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rayon::prelude::*;

use crate::beta::Beta;
use crate::error::{KernelError, check, range};

/// Maximum range of log frequencies in a band of codes, which are drawn from together.
const BAND: f64 = 0.25;
/// Steps that share scratch memory.
const CHUNK: usize = 64;

/// The score distribution of codes that do not occur, and the frequency of each code.
#[derive(Clone, Copy, Debug)]
pub struct PlanDraw<'a> {
    /// Natural logarithms of the codes' frequencies.
    pub log_frequency: &'a [f64],
    /// Logarithms of the scores' quantiles, ascending: evenly spaced in the logit of the probability.
    pub quantiles: &'a [f64],
    /// The logit of the last quantile's probability; the first has its negative.
    pub edge: f64,
}

/// The codes that occur after each step of a sequence, and their score distributions.
#[derive(Clone, Copy, Debug)]
pub struct OccurringCodes<'a> {
    /// (steps, K); of repeated codes the first counts.
    pub codes: &'a [i64],
    /// (steps, K) index of the distribution of a code's score; 0 for codes that do not count.
    pub place: &'a [i64],
    /// (distributions, 2) alpha and beta of Beta distributions, positive.
    pub shapes: &'a [f64],
}

/// A code and its contrast, the logarithm of its score over its frequency.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    contrast: f64,
    code: usize,
}

/// The next largest score of a band's codes that do not occur, and an upper bound of its contrast.
#[derive(Clone, Copy, Debug)]
struct Next {
    bound: f64,
    score: f64,
    band: usize,
    /// Number of codes left in the band, including this one.
    left: usize,
    /// Logarithm of the order statistic of uniform numbers that gave the score.
    log_uniform: f64,
}

/// Codes of similar frequency.
#[derive(Clone, Copy, Debug)]
struct Band {
    first: usize,
    size: usize,
    /// Minimum log frequency.
    min_log_frequency: f64,
}

impl PlanDraw<'_> {
    /// Draws the `slots` codes with the largest contrasts at each step, largest first.
    ///
    /// Scores of codes that do not occur are independent. They are drawn in descending order, by order statistics
    /// (the j-th largest of n uniform numbers is the product of `U_i^(1 / (n - i + 1))`, i <= j), until no further one
    /// can be selected.
    ///
    /// # Arguments
    ///
    /// * `occurring`: the codes that occur, (steps, K).
    /// * `codes`, `found`: (steps, slots) buffers for the codes and their contrasts.
    pub fn draw(
        &self,
        seed: u64,
        slots: usize,
        occurring: OccurringCodes<'_>,
        (codes, found): (&mut [i64], &mut [f64]),
    ) -> Result<(), KernelError> {
        let most = self.log_frequency.len();
        if slots == 0 || slots > most {
            return Err(range("slots", format!("1 to {most}"), slots));
        }
        if self.quantiles.len() < 2 {
            check("quantiles", self.quantiles, 2)?;
        }
        let steps = codes.len() / slots;
        check("codes", codes, steps * slots)?;
        check("found", found, steps * slots)?;
        let ahead = occurring.codes.len().checked_div(steps).unwrap_or(0);
        check("comes", occurring.codes, steps * ahead)?;
        check("place", occurring.place, occurring.codes.len())?;
        check("shapes", occurring.shapes, occurring.shapes.len() / 2 * 2)?;
        let shapes: Vec<Beta> = occurring
            .shapes
            .chunks_exact(2)
            .map(|pair| Beta::new(pair[0], pair[1]))
            .collect();
        let within = |&number: &i64, most| usize::try_from(number).is_ok_and(|number| number < most);
        let mut given = occurring.codes.iter().zip(occurring.place);
        if !given.all(|(code, place)| *place == 0 || within(code, most) && within(place, shapes.len())) {
            return Err(range("codes", format!("below {most}"), "one outside"));
        }
        let bands = Bands::new(self.log_frequency);
        codes
            .par_chunks_mut(CHUNK * slots)
            .zip(found.par_chunks_mut(CHUNK * slots))
            .enumerate()
            .for_each(|(chunk, (codes, found))| {
                let mut scratch = Scratch::new(most, bands.bands.len());
                let rows = codes.chunks_exact_mut(slots).zip(found.chunks_exact_mut(slots));
                for (step, (codes, found)) in (chunk * CHUNK..).zip(rows) {
                    let own = step * ahead..(step + 1) * ahead;
                    let given = occurring.codes[own.clone()].iter().zip(&occurring.place[own]);
                    let given = given
                        .filter(|(_, place)| **place > 0)
                        .map(|(&code, &place)| (code as usize, &shapes[place as usize]));
                    scratch.best.clear();
                    self.step(&bands, Random::new(seed, step as u64), slots, given, &mut scratch);
                    scratch.best_first(codes, found);
                }
            });
        Ok(())
    }

    fn step<'a>(
        &self,
        bands: &Bands,
        mut random: Random,
        slots: usize,
        given: impl Iterator<Item = (usize, &'a Beta)>,
        scratch: &mut Scratch,
    ) {
        scratch.mark = scratch.mark.wrapping_add(1);
        for (left, band) in scratch.left.iter_mut().zip(&bands.bands) {
            *left = band.size;
        }
        for (code, shape) in given {
            if scratch.take(code) {
                let contrast = shape.log_draw(&mut random) - self.log_frequency[code];
                scratch.left[bands.of_code[code]] -= 1;
                scratch.keep(Candidate { contrast, code }, slots);
            }
        }
        scratch.next.clear();
        for (band, &left) in scratch.left.iter().enumerate() {
            scratch
                .next
                .extend(self.next(bands, band, left, 0.0, &mut random));
        }
        while let Some(next) = scratch.next.pop() {
            let worst = scratch.best.peek().map(|Reverse(candidate)| candidate.contrast);
            if scratch.best.len() == slots && worst >= Some(next.bound) {
                return;
            }
            let band = bands.bands[next.band];
            let code = loop {
                let code = bands.order[band.first + random.below(band.size)];
                if scratch.take(code) {
                    break code;
                }
            };
            let contrast = next.score - self.log_frequency[code];
            scratch.keep(Candidate { contrast, code }, slots);
            let after = self.next(bands, next.band, next.left - 1, next.log_uniform, &mut random);
            scratch.next.extend(after);
        }
    }

    /// Draws the largest score of the `left` codes of a band, below the one whose uniform number is known.
    fn next(
        &self,
        bands: &Bands,
        band: usize,
        left: usize,
        log_uniform: f64,
        random: &mut Random,
    ) -> Option<Next> {
        if left == 0 {
            return None;
        }
        let log_uniform = log_uniform + random.unit().ln() / left as f64;
        let odds = log_uniform - (-log_uniform.exp_m1()).ln();
        let score = self.quantile(odds);
        let bound = score - bands.bands[band].min_log_frequency;
        Some(Next {
            bound,
            score,
            band,
            left,
            log_uniform,
        })
    }

    fn quantile(&self, odds: f64) -> f64 {
        let last = self.quantiles.len() - 1;
        let at = ((odds + self.edge) * (last as f64 / (2.0 * self.edge))).clamp(0.0, last as f64);
        let below = (at as usize).min(last - 1);
        let (left, right) = (self.quantiles[below], self.quantiles[below + 1]);
        left + (right - left) * (at - below as f64)
    }
}

struct Bands {
    /// Codes sorted by frequency, so that those of a band are contiguous.
    order: Vec<usize>,
    of_code: Vec<usize>,
    bands: Vec<Band>,
}

impl Bands {
    fn new(log_frequency: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..log_frequency.len()).collect();
        order.sort_by(|&a, &b| log_frequency[a].total_cmp(&log_frequency[b]));
        let mut of_code = vec![0; order.len()];
        let mut bands: Vec<Band> = Vec::new();
        for (place, &code) in order.iter().enumerate() {
            let own = log_frequency[code];
            match bands.last_mut() {
                Some(band) if own - band.min_log_frequency <= BAND => band.size += 1,
                _ => bands.push(Band {
                    first: place,
                    size: 1,
                    min_log_frequency: own,
                }),
            }
            of_code[code] = bands.len() - 1;
        }
        Self {
            order,
            of_code,
            bands,
        }
    }
}

/// Scratch memory, reused from step to step.
struct Scratch {
    /// The mark of the step at which a code was last taken.
    taken: Vec<u32>,
    mark: u32,
    left: Vec<usize>,
    next: BinaryHeap<Next>,
    best: BinaryHeap<Reverse<Candidate>>,
}

impl Scratch {
    fn new(codes: usize, bands: usize) -> Self {
        Self {
            taken: vec![0; codes],
            mark: 0,
            left: vec![0; bands],
            next: BinaryHeap::with_capacity(bands),
            best: BinaryHeap::new(),
        }
    }

    /// Takes a code; returns whether it was free.
    fn take(&mut self, code: usize) -> bool {
        std::mem::replace(&mut self.taken[code], self.mark) != self.mark
    }

    /// Keeps a candidate if it is among the best.
    fn keep(&mut self, candidate: Candidate, slots: usize) {
        if self.best.len() < slots {
            self.best.push(Reverse(candidate));
        } else if let Some(mut worst) = self.best.peek_mut()
            && candidate > worst.0
        {
            *worst = Reverse(candidate);
        }
    }

    fn best_first(&mut self, codes: &mut [i64], found: &mut [f64]) {
        for (code, found) in codes.iter_mut().zip(found).rev() {
            if let Some(Reverse(candidate)) = self.best.pop() {
                (*code, *found) = (candidate.code as i64, candidate.contrast);
            }
        }
    }
}

/// The SplitMix64 generator (Steele et al. 2014), with a separate stream for each step.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed.wrapping_add(stream));
        Self(mixed.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 * 2f64.powi(-53)
    }

    /// An integer from 0 to below `size`, which must be small compared to 2^32.
    fn below(&mut self, size: usize) -> usize {
        (((self.next() >> 32) * size as u64) >> 32) as usize
    }
}

macro_rules! ordered_by {
    ($kind:ty, $number:ident, $then:ident) => {
        impl Ord for $kind {
            fn cmp(&self, other: &Self) -> Ordering {
                let by_number = self.$number.total_cmp(&other.$number);
                by_number.then(other.$then.cmp(&self.$then))
            }
        }
        impl PartialOrd for $kind {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl PartialEq for $kind {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }
        impl Eq for $kind {}
    };
}

ordered_by!(Candidate, contrast, code);
ordered_by!(Next, bound, band);

#[cfg(test)]
mod tests {
    use super::{OccurringCodes, PlanDraw};
    use crate::KernelError;

    const DRAW: PlanDraw<'_> = PlanDraw {
        log_frequency: &[-1.0, -2.0, -2.1, -5.0],
        quantiles: &[-3.0, -1.0],
        edge: 9.0,
    };

    /// Of codes that all have the first shape but one, certain to be scored as high as can be.
    fn draw(slots: usize, occurring: &[i64], steps: usize) -> Result<(Vec<i64>, Vec<f64>), KernelError> {
        let (mut codes, mut found) = (vec![0; steps * slots], vec![0.0; steps * slots]);
        let occurring = OccurringCodes {
            codes: occurring,
            place: &vec![1; occurring.len()],
            shapes: &[1.0, 1.0, 1e9, 1e-3],
        };
        DRAW.draw(7, slots, occurring, (&mut codes, &mut found))?;
        Ok((codes, found))
    }

    #[test]
    fn all_codes_are_named_once_where_there_is_room_for_all() -> Result<(), KernelError> {
        let (codes, found) = draw(4, &[1; 200], 100)?;
        for (codes, found) in codes.chunks(4).zip(found.chunks(4)) {
            assert_eq!(codes.iter().fold(0, |seen, code| seen | 1 << code), 0b1111);
            assert!(found.is_sorted_by(|a, b| a >= b));
            let own = codes.iter().position(|&code| code == 1).map(|at| found[at]);
            assert!(
                own.is_some_and(|own| (own - 2.0).abs() < 1e-5),
                "as its shape has it"
            );
        }
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (slots, codes, steps, message) in [
            (5, &[][..], 1, "slots: expected 1 to 4, got 5"),
            (2, &[4], 1, "codes: expected below 4, got one outside"),
            (2, &[-2], 1, "codes: expected below 4, got one outside"),
            (2, &[0; 3], 2, "comes: expected 2 values, got 3"),
        ] {
            assert_eq!(draw(slots, codes, steps).unwrap_err().to_string(), message);
        }
        let (mut codes, mut found) = ([0; 2], [0.0; 2]);
        for (place, shapes) in [(1, vec![1.0; 2]), (-1, vec![1.0; 4]), (1, vec![1.0; 5])] {
            let occurring = OccurringCodes {
                codes: &[0],
                place: &[place],
                shapes: &shapes,
            };
            assert!(DRAW.draw(7, 2, occurring, (&mut codes, &mut found)).is_err());
        }
        let flat = PlanDraw {
            quantiles: &[0.0],
            ..DRAW
        };
        let none = OccurringCodes {
            codes: &[],
            place: &[],
            shapes: &[],
        };
        let refused = flat.draw(7, 2, none, (&mut codes, &mut found));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "quantiles: expected 2 values, got 1"
        );
    }
}
