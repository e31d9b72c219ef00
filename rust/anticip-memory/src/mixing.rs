//! Mixing of experts by measured skill: whoever was right lately counts most.
//!
//! For every parameter and horizon the weight of an expert is its prior times exp(-rate * loss), where the
//! loss is the sum of its errors beyond those of the best expert, with a half-life of ten seconds (Hedge;
//! Freund and Schapire 1997), relative to the best one's mean error: being 10 % worse counts alike in small
//! movements and in large ones. An expert without a value is charged the mixture's error (Freund and others
//! 1997): it neither gains nor loses.

use anticip_motion::twin::Ring;

use crate::correction::{Correction, RIVALS};
use crate::{HORIZONS, PARAMETER_COUNT};

/// Number of experts: the model, the corrected model, two from memory, two from the place in a rehearsal,
/// three holds, two means, and a half hold, half mean.
pub(crate) const EXPERTS: usize = 12;
/// The number of experts that forecast, which come first; the others only hold or average.
const FORECASTS: usize = 6;
/// Index of the model as corrected by the rivals, which is only in part a forecast.
const CORRECTED: usize = 1;
/// Rivals whose differences from the model correct it: held 20 and 160 ms late, means over 1 and 4 s.
const RIVAL_EXPERTS: [usize; RIVALS] = [6, 8, 9, 10];
/// The experts that use the place in a rehearsal; they count as much as the place is trusted.
const PLACE_EXPERTS: std::ops::Range<usize> = 4..6;

/// Initial weight of each expert.
const PRIOR: [f64; EXPERTS] = [200.0, 200.0, 1.0, 1.0, 200.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Reduction of an expert's log weight for each frame in which its error is twice the best expert's.
const RATE: f64 = 0.03;
/// Added to the best mean error: below about this, experts count as equally good.
const NEGLIGIBLE: f64 = 0.002;
/// Frames after which an error counts half.
const HALF_LIFE: f64 = 500.0;
/// Frames at the start of a take in which experts are not scored.
const UNSCORED_FRAMES: usize = 25;

const H: usize = HORIZONS.len();
const COLUMN: usize = PARAMETER_COUNT * EXPERTS;

/// Each expert's value of a parameter; `None` where it has none.
pub(crate) type ExpertValues = [Option<f64>; EXPERTS];

/// One value per parameter and horizon.
pub type Table = [[f32; H]; PARAMETER_COUNT];

#[derive(Debug, Clone)]
pub(crate) struct Mixing {
    losses: [[[f64; EXPERTS]; H]; PARAMETER_COUNT],
    /// Discounted number of frames in the losses.
    counts: [f64; H],
    corrections: [[Correction; H]; PARAMETER_COUNT],
    /// Log weights, because an expert without a value may be better than all others by more than a float can
    /// hold.
    scores: [[[f64; EXPERTS]; H]; PARAMETER_COUNT],
    /// Recent expert values, one ring per horizon.
    forecasts: [Ring<COLUMN>; H],
}

impl Mixing {
    /// `late` is the maximum delay, in frames, from a frame to the truth about it.
    pub(crate) fn new(max_delay: usize) -> Self {
        let mut mixing = Self {
            losses: [[[0.0; EXPERTS]; H]; PARAMETER_COUNT],
            counts: [0.0; H],
            corrections: Default::default(),
            scores: [[[0.0; EXPERTS]; H]; PARAMETER_COUNT],
            forecasts: HORIZONS.map(|ahead| Ring::new(max_delay + ahead + 1)),
        };
        mixing.update_weights();
        mixing
    }

    /// Starts another take; the learned weights stay.
    pub(crate) fn restart(&mut self) {
        self.forecasts.iter_mut().for_each(Ring::clear);
    }

    /// The truth about frame `frame` of the take: every expert is charged its error, effective from the next
    /// [`Mixing::update_weights`].
    pub(crate) fn score(&mut self, frame: usize, truth: &[f64; PARAMETER_COUNT]) {
        let decay = 0.5_f64.powf(1.0 / HALF_LIFE);
        for (h, ahead) in HORIZONS.into_iter().enumerate() {
            if frame < ahead + UNSCORED_FRAMES {
                continue;
            }
            self.counts[h] = decay * self.counts[h] + 1.0;
            let rows = self.forecasts[h].at(frame - ahead).as_chunks::<EXPERTS>().0;
            for (p, (forecasts, truth)) in rows.iter().zip(truth).enumerate() {
                for (loss, forecast) in self.losses[p][h].iter_mut().zip(forecasts) {
                    *loss = decay * *loss + (forecast - truth).abs();
                }
                let differences = RIVAL_EXPERTS.map(|rival| forecasts[rival] - forecasts[0]);
                self.corrections[p][h].learn(decay, &differences, truth - forecasts[0]);
            }
        }
    }

    /// Updates the log weights and corrections from the losses.
    pub(crate) fn update_weights(&mut self) {
        for p in 0..PARAMETER_COUNT {
            for (h, count) in self.counts.into_iter().enumerate() {
                self.corrections[p][h].solve(count);
                let losses = &self.losses[p][h];
                let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
                let rate = RATE / (least / count.max(1.0) + NEGLIGIBLE);
                for ((score, prior), loss) in self.scores[p][h].iter_mut().zip(PRIOR).zip(losses) {
                    *score = prior.ln() - rate * (loss - least);
                }
            }
        }
    }

    /// Adds the model and the corrected model to the values of the others; the rivals always have a value.
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
            let differences = RIVAL_EXPERTS.map(|rival| others[rival].unwrap_or(model) - model);
            (model + self.corrections[parameter][h].correction(&differences)).clamp(0.0, 1.0)
        });
        expert_values
    }

    /// The mixed value of a parameter at a horizon, 0..1 whatever the model says, and the share of forecasts
    /// in it. `place_trust` (0..1) scales the experts that use the place.
    pub(crate) fn mix(
        &self,
        parameter: usize,
        h: usize,
        expert_values: &ExpertValues,
        place_trust: f64,
    ) -> (f64, f64) {
        let mut scores = self.scores[parameter][h];
        scores[PLACE_EXPERTS]
            .iter_mut()
            .for_each(|score| *score += place_trust.ln());
        let available = scores
            .iter()
            .zip(expert_values)
            .filter(|(_, forecast)| forecast.is_some());
        let best = available
            .map(|(score, _)| *score)
            .fold(f64::NEG_INFINITY, f64::max);
        let model_share = self.corrections[parameter][h].model_share();
        let (mut total, mut mixed, mut forecast_weight) = (0.0, 0.0, 0.0);
        for (i, (forecast, score)) in expert_values.iter().zip(scores).enumerate() {
            if let Some(forecast) = forecast {
                let weight = (score - best).exp();
                total += weight;
                mixed += weight * forecast;
                forecast_weight += match i {
                    CORRECTED => model_share * weight,
                    i if i < FORECASTS => weight,
                    _ => 0.0,
                };
            }
        }
        ((mixed / total).clamp(0.0, 1.0), forecast_weight / total)
    }

    /// Stores the expert values of a frame until the truth is known; call it once per frame.
    pub(crate) fn record(&mut self, expert_values: &[[ExpertValues; H]; PARAMETER_COUNT], mixed: &Table) {
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

    fn all_parameters(values: [f64; EXPERTS]) -> [[ExpertValues; H]; PARAMETER_COUNT] {
        [[values.map(Some); H]; PARAMETER_COUNT]
    }

    #[test]
    fn weights_begin_as_the_priors_and_go_to_who_was_right() {
        let mut mixing = Mixing::new(0);
        let values = std::array::from_fn(|i| i as f64 / 10.0);
        let (_, trust) = mixing.mix(0, 0, &values.map(Some), 0.0);
        assert!((trust - 402.0 / 408.0).abs() < 1e-12);
        for frame in 0..600 {
            mixing.record(&all_parameters(values), &Table::default());
            mixing.score(frame, &[0.6; PARAMETER_COUNT]);
        }
        mixing.update_weights();
        let (mixed, trust) = mixing.mix(3, 2, &values.map(Some), 0.5);
        assert!((mixed - 0.6).abs() < 1e-3, "{mixed}");
        assert!(trust < 1e-3, "{trust}");
    }

    #[test]
    fn who_is_right_is_found_as_fast_in_small_movements() {
        let share = |size: f64| {
            let mut mixing = Mixing::new(0);
            // The model's error is twice that of the first hold.
            let values = std::array::from_fn(|i| size * if i == 6 { 1.0 } else { 2.0 });
            for frame in 0..600 {
                mixing.record(&all_parameters(values), &Table::default());
                mixing.score(frame, &[0.0; PARAMETER_COUNT]);
            }
            mixing.update_weights();
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
        let mut expert_values = all_parameters([1.0; EXPERTS]);
        expert_values
            .iter_mut()
            .flatten()
            .for_each(|values| values[2] = None);
        for frame in 0..100 {
            mixing.record(&expert_values, &[[1.0; H]; PARAMETER_COUNT]);
            mixing.score(frame, &[0.0; PARAMETER_COUNT]);
        }
        mixing.update_weights();
        let scores = mixing.scores[0][0];
        assert!((scores[2] - scores[3]).abs() < 1e-9);
    }

    #[test]
    fn where_the_best_falls_silent_the_next_best_speaks() {
        let mut mixing = Mixing::new(0);
        // The expert of the place was exact, the first hold nearly, all others far off.
        let values =
            std::array::from_fn(|i| [0.0, 0.9][usize::from(i != 4)] - if i == 6 { 0.1 } else { 0.0 });
        for frame in 0..1000 {
            mixing.record(&all_parameters(values), &Table::default());
            mixing.score(frame, &[0.0; PARAMETER_COUNT]);
        }
        mixing.update_weights();
        let mut without_best = values.map(Some);
        without_best[4] = None;
        for (expert_values, place_trust) in [(without_best, 1.0), (values.map(Some), 0.0)] {
            let (mixed, trust) = mixing.mix(0, 0, &expert_values, place_trust);
            assert!((mixed - 0.8).abs() < 1e-6, "{mixed}");
            assert!(trust < 1e-6, "{trust}");
        }
    }

    #[test]
    fn an_old_error_counts_half_after_ten_seconds() {
        let mut mixing = Mixing::new(0);
        for frame in 0..600 {
            let error = if frame == 50 { 1.0 } else { 0.0 };
            mixing.record(&all_parameters([error; EXPERTS]), &Table::default());
            // The values recorded at frame 50 are for frame 55.
            mixing.score(frame, &[0.0; PARAMETER_COUNT]);
            if frame == 555 {
                assert!((mixing.losses[0][0][0] - 0.5).abs() < 1e-9);
            }
        }
    }
}
