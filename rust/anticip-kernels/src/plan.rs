//! Plans for training: which codes would stand out, had an anticipator with errors of a known distribution spoken.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rayon::prelude::*;

use crate::error::{KernelError, check};

/// Codes whose logarithms of the frequency differ by less are drawn from together.
const BAND: f64 = 0.25;
/// Steps that share their scratch memory.
const CHUNK: usize = 64;

/// The distribution of scores of codes that do not come, and how often each code does.
#[derive(Clone, Copy, Debug)]
pub struct PlanDraw<'a> {
    /// Natural logarithms of the codes' frequencies.
    pub log_frequency: &'a [f64],
    /// Logarithms of the scores' quantiles, ascending: evenly spaced in the logit of the probability.
    pub quantiles: &'a [f64],
    /// The logit of the last quantile's probability; the first has its negative.
    pub edge: f64,
}

/// A code and its contrast: the logarithm of its score over its frequency.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    contrast: f64,
    code: usize,
}

/// The next largest score of the codes of a band that do not come, and the most that its contrast can be.
#[derive(Clone, Copy, Debug)]
struct Next {
    bound: f64,
    score: f64,
    band: usize,
    /// How many codes of the band are left, this one included.
    left: usize,
    /// Logarithm of the order statistic of uniform numbers that the score is of.
    log_uniform: f64,
}

/// Codes of about the same frequency.
#[derive(Clone, Copy, Debug)]
struct Band {
    first: usize,
    size: usize,
    /// The least logarithm of a frequency.
    least: f64,
}

impl PlanDraw<'_> {
    /// The `slots` codes of the largest contrasts at each step, largest first.
    ///
    /// Scores of all codes that do not come are independent. They are drawn from the largest on, by order statistics
    /// (the j-th largest of n uniform numbers is the product of `U_i^(1 / (n - i + 1))`, i <= j), until no further one
    /// could be selected.
    ///
    /// # Arguments
    ///
    /// * `comes`: (steps, K) codes that come, -1 for none; of repeated ones the first counts.
    /// * `contrasts`: (steps, K) of those codes.
    /// * `codes`, `found`: (steps, slots) the result.
    pub fn draw(
        &self,
        seed: u64,
        slots: usize,
        (comes, contrasts): (&[i64], &[f64]),
        (codes, found): (&mut [i64], &mut [f64]),
    ) -> Result<(), KernelError> {
        let most = self.log_frequency.len();
        if slots == 0 || slots > most {
            return Err(KernelError::Slots { most, given: slots });
        }
        if self.quantiles.len() < 2 {
            check("quantiles", self.quantiles, 2)?;
        }
        let steps = codes.len() / slots;
        check("codes", codes, steps * slots)?;
        check("found", found, steps * slots)?;
        let ahead = comes.len().checked_div(steps).unwrap_or(0);
        check("comes", comes, steps * ahead)?;
        check("contrasts", contrasts, comes.len())?;
        if comes.iter().any(|&code| code < -1 || code >= most as i64) {
            return Err(KernelError::Codes { codes: most });
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
                    let given = comes[own.clone()].iter().zip(&contrasts[own]);
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
        given: impl Iterator<Item = (&'a i64, &'a f64)>,
        scratch: &mut Scratch,
    ) {
        scratch.mark = scratch.mark.wrapping_add(1);
        for (left, band) in scratch.left.iter_mut().zip(&bands.bands) {
            *left = band.size;
        }
        for (&code, &contrast) in given {
            if let Ok(code) = usize::try_from(code)
                && scratch.take(code)
            {
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
            let least = scratch.best.peek().map(|Reverse(candidate)| candidate.contrast);
            if scratch.best.len() == slots && least >= Some(next.bound) {
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

    /// The largest score of the `left` codes of a band, below one of which the uniform number is known.
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
        let bound = score - bands.bands[band].least;
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
    /// Codes by frequency; those of a band lie side by side.
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
                Some(band) if own - band.least <= BAND => band.size += 1,
                _ => bands.push(Band {
                    first: place,
                    size: 1,
                    least: own,
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

/// What a step needs, kept for the next.
struct Scratch {
    /// The step that a code was last taken at.
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

    /// Whether the code was free until now.
    fn take(&mut self, code: usize) -> bool {
        std::mem::replace(&mut self.taken[code], self.mark) != self.mark
    }

    /// Keep it if it is among the best.
    fn keep(&mut self, candidate: Candidate, slots: usize) {
        if self.best.len() < slots {
            self.best.push(Reverse(candidate));
        } else if let Some(mut least) = self.best.peek_mut()
            && candidate > least.0
        {
            *least = Reverse(candidate);
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

/// Steele's and others' (2014) generator, of a stream of its own for each step.
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
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
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 * 2f64.powi(-53)
    }

    /// A whole number from 0 to below `size`, which is small beside 2^32.
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
    use super::PlanDraw;
    use crate::KernelError;

    const DRAW: PlanDraw<'_> = PlanDraw {
        log_frequency: &[-1.0, -2.0, -2.1, -5.0],
        quantiles: &[-3.0, -1.0],
        edge: 9.0,
    };

    fn draw(slots: usize, comes: &[i64], steps: usize) -> Result<(Vec<i64>, Vec<f64>), KernelError> {
        let (mut codes, mut found) = (vec![0; steps * slots], vec![0.0; steps * slots]);
        let contrasts = vec![0.5; comes.len()];
        DRAW.draw(7, slots, (comes, &contrasts), (&mut codes, &mut found))?;
        Ok((codes, found))
    }

    #[test]
    fn all_codes_are_named_once_where_there_is_room_for_all() -> Result<(), KernelError> {
        let (codes, found) = draw(4, &[1; 200], 100)?;
        for (codes, found) in codes.chunks(4).zip(found.chunks(4)) {
            assert_eq!(codes.iter().fold(0, |seen, code| seen | 1 << code), 0b1111);
            assert!(found.is_sorted_by(|a, b| a >= b));
            let own = codes.iter().position(|&code| code == 1).map(|at| found[at]);
            assert_eq!(own, Some(0.5), "of a code that comes, what it was given");
        }
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(matches!(
            draw(5, &[], 1),
            Err(KernelError::Slots { most: 4, given: 5 })
        ));
        assert!(matches!(draw(2, &[4], 1), Err(KernelError::Codes { codes: 4 })));
        assert!(matches!(draw(2, &[-2], 1), Err(KernelError::Codes { codes: 4 })));
        assert!(matches!(
            draw(2, &[0; 3], 2),
            Err(KernelError::Length { name: "comes", .. })
        ));
        let (mut codes, mut found) = ([0; 2], [0.0; 2]);
        let flat = PlanDraw {
            quantiles: &[0.0],
            ..DRAW
        };
        let refused = flat.draw(7, 2, (&[], &[]), (&mut codes, &mut found));
        assert!(matches!(
            refused,
            Err(KernelError::Length {
                name: "quantiles",
                ..
            })
        ));
    }
}
