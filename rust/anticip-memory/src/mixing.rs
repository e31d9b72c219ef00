//! Live mixing by measured skill: what has said best lately what comes is believed most.
//!
//! For every parameter and horizon the weight of an expert is its prior times exp(-rate * error), where the error is
//! the sum of what it was off, discounted by half in ten seconds (Hedge; Freund and Schapire 1997). An expert that
//! said nothing is charged what the mixture was off (Freund and others 1997): it neither gains nor loses.

use anticip_motion::twin::Ring;

use crate::{HORIZONS, PARAMETER_COUNT};

/// How many say what comes: the model, the memory twice, the place in a rehearsal twice, three holds, two means, half
/// hold and half mean.
pub(crate) const EXPERTS: usize = 11;
/// How many of them forecast, the first ones; the others only hold or average.
pub(crate) const FORECASTS: usize = 5;
/// Who knows it from the place: believed as much as the place is.
const PLACED: std::ops::Range<usize> = 3..5;

const PRIOR: [f64; EXPERTS] = [100.0, 1.0, 1.0, 100.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// By how much an error of one in one frame lowers the logarithm of a weight.
const RATE: f64 = 40.0 / 60.0;
/// Frames in which an error counts half.
const HALF_LIFE: f64 = 500.0;
/// Frames at the start of a take that nobody is judged by.
const UNJUDGED: usize = 25;

const H: usize = HORIZONS.len();
const COLUMN: usize = PARAMETER_COUNT * EXPERTS;

/// What every expert says of a parameter; nothing where it has nothing to say.
pub(crate) type Sayings = [Option<f64>; EXPERTS];

/// One number for each parameter and horizon.
pub type Table = [[f32; H]; PARAMETER_COUNT];

#[derive(Debug, Clone)]
pub(crate) struct Mixing {
    losses: [[[f64; EXPERTS]; H]; PARAMETER_COUNT],
    weights: [[[f64; EXPERTS]; H]; PARAMETER_COUNT],
    /// What was said of late, a ring a horizon.
    said: [Ring<COLUMN>; H],
}

impl Mixing {
    /// At most `late` frames pass between a frame and the truth about it.
    pub(crate) fn new(late: usize) -> Self {
        let mut mixing = Self {
            losses: [[[0.0; EXPERTS]; H]; PARAMETER_COUNT],
            weights: [[[0.0; EXPERTS]; H]; PARAMETER_COUNT],
            said: HORIZONS.map(|ahead| Ring::new(late + ahead + 1)),
        };
        mixing.weigh();
        mixing
    }

    /// The next frame begins another take; what was learned of the experts stays.
    pub(crate) fn restart(&mut self) {
        self.said.iter_mut().for_each(Ring::clear);
    }

    /// The truth about frame `frame` of the take: every expert is charged for what it said of it, which counts from
    /// the next [`Mixing::weigh`] on.
    pub(crate) fn judge(&mut self, frame: usize, truth: &[f64; PARAMETER_COUNT]) {
        let decay = 0.5_f64.powf(1.0 / HALF_LIFE);
        for (h, ahead) in HORIZONS.into_iter().enumerate() {
            if frame < ahead + UNJUDGED {
                continue;
            }
            let said = self.said[h].at(frame - ahead).as_chunks::<EXPERTS>().0;
            for ((losses, said), truth) in self.losses.iter_mut().zip(said).zip(truth) {
                for (loss, said) in losses[h].iter_mut().zip(said) {
                    *loss = decay * *loss + (said - truth).abs();
                }
            }
        }
    }

    /// Believes everybody as much as they were right so far.
    pub(crate) fn weigh(&mut self) {
        for (weights, losses) in self
            .weights
            .iter_mut()
            .flatten()
            .zip(self.losses.iter().flatten())
        {
            let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
            for ((weight, prior), loss) in weights.iter_mut().zip(PRIOR).zip(losses) {
                *weight = prior * (-RATE * (loss - least)).exp();
            }
        }
    }

    /// What is said of a parameter at a horizon, and the share of the forecasts in it; `sure`, 0..1, of the place.
    pub(crate) fn mix(&self, parameter: usize, h: usize, sayings: &Sayings, sure: f64) -> (f64, f64) {
        let weights = &self.weights[parameter][h];
        let (mut total, mut mixed, mut ahead) = (0.0, 0.0, 0.0);
        for (i, (said, weight)) in sayings.iter().zip(weights).enumerate() {
            if let Some(said) = said {
                let weight = if PLACED.contains(&i) {
                    weight * sure
                } else {
                    *weight
                };
                total += weight;
                mixed += weight * said;
                ahead += if i < FORECASTS { weight } else { 0.0 };
            }
        }
        (mixed / total, ahead / total)
    }

    /// Keeps what was said in a frame until the truth is known; one call a frame.
    pub(crate) fn keep(&mut self, sayings: &[[Sayings; H]; PARAMETER_COUNT], mixed: &Table) {
        for (h, ring) in self.said.iter_mut().enumerate() {
            let mut row = [0.0; COLUMN];
            let slots = row.as_chunks_mut::<EXPERTS>().0.iter_mut();
            for (p, slots) in slots.enumerate() {
                for (slot, said) in slots.iter_mut().zip(sayings[p][h]) {
                    *slot = said.unwrap_or(f64::from(mixed[p][h]));
                }
            }
            ring.push(&row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everybody(values: [f64; EXPERTS]) -> [[Sayings; H]; PARAMETER_COUNT] {
        [[values.map(Some); H]; PARAMETER_COUNT]
    }

    #[test]
    fn weights_begin_as_the_priors_and_go_to_who_was_right() {
        let mut mixing = Mixing::new(0);
        let values = std::array::from_fn(|i| i as f64 / 10.0);
        let (_, trust) = mixing.mix(0, 0, &values.map(Some), 0.0);
        assert!((trust - 102.0 / 108.0).abs() < 1e-12);
        for frame in 0..600 {
            mixing.keep(&everybody(values), &Table::default());
            mixing.judge(frame, &[0.5; PARAMETER_COUNT]);
        }
        mixing.weigh();
        let (mixed, trust) = mixing.mix(3, 2, &values.map(Some), 0.5);
        assert!((mixed - 0.5).abs() < 1e-3, "{mixed}");
        assert!(trust < 1e-3, "{trust}");
    }

    #[test]
    fn who_says_nothing_is_charged_what_the_mixture_was_off() {
        let mut mixing = Mixing::new(0);
        let mut sayings = everybody([1.0; EXPERTS]);
        sayings.iter_mut().flatten().for_each(|saying| saying[1] = None);
        for frame in 0..100 {
            mixing.keep(&sayings, &[[1.0; H]; PARAMETER_COUNT]);
            mixing.judge(frame, &[0.0; PARAMETER_COUNT]);
        }
        mixing.weigh();
        let weights = mixing.weights[0][0];
        assert!((weights[1] - weights[2]).abs() < 1e-12);
    }

    #[test]
    fn an_old_error_counts_half_after_ten_seconds() {
        let mut mixing = Mixing::new(0);
        for frame in 0..600 {
            let error = if frame == 50 { 1.0 } else { 0.0 };
            mixing.keep(&everybody([error; EXPERTS]), &Table::default());
            // What was said at frame 50 is of frame 55.
            mixing.judge(frame, &[0.0; PARAMETER_COUNT]);
            if frame == 555 {
                assert!((mixing.losses[0][0][0] - 0.5).abs() < 1e-9);
            }
        }
    }
}
