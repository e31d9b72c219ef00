//! Live mixing by measured skill: what has said best lately what comes is believed most.
//!
//! For every parameter and horizon the weight of an expert is its prior times exp(-rate * error), where the error is
//! the sum of what it was off beyond the best of them, discounted by half in ten seconds (Hedge; Freund and Schapire
//! 1997), and taken relative to the best one's mean: a tenth worse counts alike in small movements and in large ones.
//! An expert that said nothing is charged what the mixture was off (Freund and others 1997): it neither gains nor loses.

use anticip_motion::twin::Ring;

use crate::correction::{Correction, TELLERS};
use crate::{HORIZONS, PARAMETER_COUNT};

/// How many say what comes: the model, the model corrected, the memory twice, the place in a rehearsal twice, three
/// holds, two means, half hold and half mean.
pub(crate) const EXPERTS: usize = 12;
/// How many of them forecast, the first ones; the others only hold or average.
const FORECASTS: usize = 6;
/// The model as the rivals correct it, which is only in part a forecast.
const CORRECTED: usize = 1;
/// Those whose distances from the model correct it: held 20 and 160 ms late, means over 1 and 4 s.
const TELL: [usize; TELLERS] = [6, 8, 9, 10];
/// Who knows it from the place: believed as much as the place is.
const PLACED: std::ops::Range<usize> = 4..6;

const PRIOR: [f64; EXPERTS] = [200.0, 200.0, 1.0, 1.0, 200.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// By how much one frame in which an expert is off twice as much as the best one lowers the logarithm of its weight.
const RATE: f64 = 0.03;
/// Mean error up to which experts are equally good.
const NEGLIGIBLE: f64 = 0.002;
/// Frames in which an error counts half.
const HALF_LIFE: f64 = 500.0;
/// Frames at the start of a take that nobody is judged by.
const UNJUDGED: usize = 25;

const H: usize = HORIZONS.len();
const COLUMN: usize = PARAMETER_COUNT * EXPERTS;

/// What every expert says of a parameter; nothing where it has nothing to say.
pub(crate) type ExpertValues = [Option<f64>; EXPERTS];

/// One number for each parameter and horizon.
pub type Table = [[f32; H]; PARAMETER_COUNT];

#[derive(Debug, Clone)]
pub(crate) struct Mixing {
    losses: [[[f64; EXPERTS]; H]; PARAMETER_COUNT],
    /// How many frames the losses are of, discounted as they are.
    counts: [f64; H],
    corrections: [[Correction; H]; PARAMETER_COUNT],
    /// Logarithms of the weights: whoever says nothing may be better than all who speak by more than numbers reach.
    scores: [[[f64; EXPERTS]; H]; PARAMETER_COUNT],
    /// What was said of late, a ring a horizon.
    forecasts: [Ring<COLUMN>; H],
}

impl Mixing {
    /// At most `late` frames pass between a frame and the truth about it.
    pub(crate) fn new(late: usize) -> Self {
        let mut mixing = Self {
            losses: [[[0.0; EXPERTS]; H]; PARAMETER_COUNT],
            counts: [0.0; H],
            corrections: Default::default(),
            scores: [[[0.0; EXPERTS]; H]; PARAMETER_COUNT],
            forecasts: HORIZONS.map(|ahead| Ring::new(late + ahead + 1)),
        };
        mixing.weigh();
        mixing
    }

    /// The next frame begins another take; what was learned of the experts stays.
    pub(crate) fn restart(&mut self) {
        self.forecasts.iter_mut().for_each(Ring::clear);
    }

    /// The truth about frame `frame` of the take: every expert is charged for what it said of it, which counts from
    /// the next [`Mixing::weigh`] on.
    pub(crate) fn judge(&mut self, frame: usize, truth: &[f64; PARAMETER_COUNT]) {
        let decay = 0.5_f64.powf(1.0 / HALF_LIFE);
        for (h, ahead) in HORIZONS.into_iter().enumerate() {
            if frame < ahead + UNJUDGED {
                continue;
            }
            self.counts[h] = decay * self.counts[h] + 1.0;
            let rows = self.forecasts[h].at(frame - ahead).as_chunks::<EXPERTS>().0;
            for (p, (forecasts, truth)) in rows.iter().zip(truth).enumerate() {
                for (loss, forecast) in self.losses[p][h].iter_mut().zip(forecasts) {
                    *loss = decay * *loss + (forecast - truth).abs();
                }
                let apart = TELL.map(|teller| forecasts[teller] - forecasts[0]);
                self.corrections[p][h].learn(decay, &apart, truth - forecasts[0]);
            }
        }
    }

    /// Believes everybody as much as they were right so far.
    pub(crate) fn weigh(&mut self) {
        for p in 0..PARAMETER_COUNT {
            for (h, count) in self.counts.into_iter().enumerate() {
                self.corrections[p][h].believe(count);
                let losses = &self.losses[p][h];
                let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
                let rate = RATE / (least / count.max(1.0) + NEGLIGIBLE);
                for ((score, prior), loss) in self.scores[p][h].iter_mut().zip(PRIOR).zip(losses) {
                    *score = prior.ln() - rate * (loss - least);
                }
            }
        }
    }

    /// What everybody says, where the model says this; the rivals always say something.
    pub(crate) fn with_model(
        &self,
        parameter: usize,
        h: usize,
        others: &ExpertValues,
        model: Option<f64>,
    ) -> ExpertValues {
        let mut expert_values = *others;
        expert_values[0] = model;
        expert_values[CORRECTED] = model.map(|model| {
            let apart = TELL.map(|teller| others[teller].unwrap_or(model) - model);
            (model + self.corrections[parameter][h].of(&apart)).clamp(0.0, 1.0)
        });
        expert_values
    }

    /// What is said of a parameter at a horizon, 0..1 whatever the model says, and the share of the forecasts in it;
    /// `sure`, 0..1, of the place.
    pub(crate) fn mix(
        &self,
        parameter: usize,
        h: usize,
        expert_values: &ExpertValues,
        sure: f64,
    ) -> (f64, f64) {
        let mut scores = self.scores[parameter][h];
        scores[PLACED].iter_mut().for_each(|score| *score += sure.ln());
        let speaking = scores
            .iter()
            .zip(expert_values)
            .filter(|(_, forecast)| forecast.is_some());
        let best = speaking
            .map(|(score, _)| *score)
            .fold(f64::NEG_INFINITY, f64::max);
        let kept = self.corrections[parameter][h].kept();
        let (mut total, mut mixed, mut ahead) = (0.0, 0.0, 0.0);
        for (i, (forecast, score)) in expert_values.iter().zip(scores).enumerate() {
            if let Some(forecast) = forecast {
                let weight = (score - best).exp();
                total += weight;
                mixed += weight * forecast;
                ahead += match i {
                    CORRECTED => kept * weight,
                    i if i < FORECASTS => weight,
                    _ => 0.0,
                };
            }
        }
        ((mixed / total).clamp(0.0, 1.0), ahead / total)
    }

    /// Keeps what was said in a frame until the truth is known; one call a frame.
    pub(crate) fn keep(&mut self, expert_values: &[[ExpertValues; H]; PARAMETER_COUNT], mixed: &Table) {
        for (h, ring) in self.forecasts.iter_mut().enumerate() {
            let mut row = [0.0; COLUMN];
            let slots = row.as_chunks_mut::<EXPERTS>().0.iter_mut();
            for (p, slots) in slots.enumerate() {
                for (slot, forecast) in slots.iter_mut().zip(expert_values[p][h]) {
                    *slot = forecast.unwrap_or(f64::from(mixed[p][h]));
                }
            }
            ring.push(&row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everybody(values: [f64; EXPERTS]) -> [[ExpertValues; H]; PARAMETER_COUNT] {
        [[values.map(Some); H]; PARAMETER_COUNT]
    }

    #[test]
    fn weights_begin_as_the_priors_and_go_to_who_was_right() {
        let mut mixing = Mixing::new(0);
        let values = std::array::from_fn(|i| i as f64 / 10.0);
        let (_, trust) = mixing.mix(0, 0, &values.map(Some), 0.0);
        assert!((trust - 402.0 / 408.0).abs() < 1e-12);
        for frame in 0..600 {
            mixing.keep(&everybody(values), &Table::default());
            mixing.judge(frame, &[0.6; PARAMETER_COUNT]);
        }
        mixing.weigh();
        let (mixed, trust) = mixing.mix(3, 2, &values.map(Some), 0.5);
        assert!((mixed - 0.6).abs() < 1e-3, "{mixed}");
        assert!(trust < 1e-3, "{trust}");
    }

    #[test]
    fn who_is_right_is_found_as_fast_in_small_movements() {
        let share = |size: f64| {
            let mut mixing = Mixing::new(0);
            // The model is off by twice what the first hold is off.
            let values = std::array::from_fn(|i| size * if i == 6 { 1.0 } else { 2.0 });
            for frame in 0..600 {
                mixing.keep(&everybody(values), &Table::default());
                mixing.judge(frame, &[0.0; PARAMETER_COUNT]);
            }
            mixing.weigh();
            let weights = mixing.scores[0][0].map(f64::exp);
            weights[6] / weights.iter().sum::<f64>()
        };
        assert!(share(0.2) > 0.9, "{}", share(0.2));
        assert!(
            (share(0.2) - share(0.02)).abs() < 0.1,
            "{} {}",
            share(0.2),
            share(0.02)
        );
    }

    #[test]
    fn who_says_nothing_is_charged_what_the_mixture_was_off() {
        let mut mixing = Mixing::new(0);
        let mut expert_values = everybody([1.0; EXPERTS]);
        expert_values
            .iter_mut()
            .flatten()
            .for_each(|saying| saying[2] = None);
        for frame in 0..100 {
            mixing.keep(&expert_values, &[[1.0; H]; PARAMETER_COUNT]);
            mixing.judge(frame, &[0.0; PARAMETER_COUNT]);
        }
        mixing.weigh();
        let scores = mixing.scores[0][0];
        assert!((scores[2] - scores[3]).abs() < 1e-9);
    }

    #[test]
    fn where_the_best_falls_silent_the_next_best_speaks() {
        let mut mixing = Mixing::new(0);
        // The place was right to the last digit, the first hold nearly, all others far off.
        let values =
            std::array::from_fn(|i| [0.0, 0.9][usize::from(i != 4)] - if i == 6 { 0.1 } else { 0.0 });
        for frame in 0..1000 {
            mixing.keep(&everybody(values), &Table::default());
            mixing.judge(frame, &[0.0; PARAMETER_COUNT]);
        }
        mixing.weigh();
        let mut silent = values.map(Some);
        silent[4] = None;
        for (expert_values, sure) in [(silent, 1.0), (values.map(Some), 0.0)] {
            let (mixed, trust) = mixing.mix(0, 0, &expert_values, sure);
            assert!((mixed - 0.8).abs() < 1e-6, "{mixed}");
            assert!(trust < 1e-6, "{trust}");
        }
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
