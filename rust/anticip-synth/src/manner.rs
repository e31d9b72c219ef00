//! A performer's manner: slow averages of the movement, and the resonances that an instrument derives from
//! them.

use crate::control::frame_seconds;

/// Number of averaged traits: pitch, roughness, space, pulse, and speed of the hands.
const TRAITS: usize = 5;
/// Averaging time in seconds at full loudness; soft movement counts less.
const AVERAGE_S: f32 = 4.0;
/// Seconds for which the usual performer counts at the start.
const PRIOR_S: f32 = 1.0;
/// Means over sixteen dances, walks and martial arts.
const USUAL: [f32; TRAITS] = [0.65, 0.62, 0.53, 0.27, 0.45];
/// Typical deviation of one clip from them; the unit of the weights below.
const SPREAD: [f32; TRAITS] = [0.15, 0.14, 0.17, 0.1, 0.11];
/// Octaves by which a deviation of one `SPREAD` in each trait shifts the resonances.
const OCTAVE_WEIGHTS: [f32; TRAITS] = [0.54, -0.51, -0.19, 0.16, -0.17];
/// dB by which it lifts each of the three resonances.
const LIFT_WEIGHTS: [[f32; TRAITS]; 3] = [
    [-0.3, -7.5, -2.3, 12.5, 0.6],
    [-0.4, 6.9, -9.5, 0.4, 3.7],
    [5.3, 2.6, 2.4, 3.1, 8.0],
];
/// Maximum of the shift in octaves.
const MAX_OCTAVES: f32 = 1.6;
/// Maximum of each lift in dB.
const MAX_LIFT: f32 = 12.0;
/// dB by which an octave of shift makes a choir louder.
const OCTAVE_GAIN: f32 = 1.0;
/// dB by which a dB of lift of each resonance makes a choir louder.
const LIFT_GAINS: [f32; 3] = [0.45, 0.45, 0.16];

/// Difference of a body's resonances from the default ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    /// Octaves by which they are higher.
    pub(crate) octaves: f32,
    /// dB by which each is stronger.
    pub(crate) lifts: [f32; 3],
    /// dB by which this makes the whole louder.
    pub(crate) louder: f32,
}

/// Slow means of a performer's traits, over the past alone.
pub(crate) struct Manner {
    means: [f32; TRAITS],
    weight_s: f32,
    dt: f32,
}

impl Manner {
    pub(crate) fn new(sample_rate: f64) -> Self {
        Self {
            means: USUAL,
            weight_s: PRIOR_S,
            dt: frame_seconds(sample_rate),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.means = USUAL;
        self.weight_s = PRIOR_S;
    }

    /// Adds a frame; returns the current shape. `hands` is `None` if their speed is unknown.
    pub(crate) fn frame(
        &mut self,
        parameters: [f32; TRAITS - 1],
        hands: Option<f32>,
        loudness: f32,
    ) -> Shape {
        let weight = loudness * self.dt;
        self.weight_s = (self.weight_s + weight).min(AVERAGE_S);
        let [pitch, roughness, space, pulse] = parameters;
        let hands = hands.unwrap_or(self.means[TRAITS - 1]);
        let now = [pitch, roughness, space, pulse, hands];
        for (mean, now) in self.means.iter_mut().zip(now) {
            *mean += (now - *mean) * weight / self.weight_s;
        }
        let deviations: [f32; TRAITS] = core::array::from_fn(|t| (self.means[t] - USUAL[t]) / SPREAD[t]);
        let limited_sum = |weights: [f32; TRAITS], limit: f32| {
            let sum: f32 = weights
                .iter()
                .zip(deviations)
                .map(|(weight, deviation)| weight * deviation)
                .sum();
            limit * (sum / limit).tanh()
        };
        let octaves = limited_sum(OCTAVE_WEIGHTS, MAX_OCTAVES);
        let lifts = LIFT_WEIGHTS.map(|weights| limited_sum(weights, MAX_LIFT));
        let louder = lifts.iter().zip(LIFT_GAINS).map(|(lift, gain)| gain * lift);
        Shape {
            octaves,
            lifts,
            louder: OCTAVE_GAIN * octaves + louder.sum::<f32>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: f32, parameters: [f32; TRAITS - 1], hands: Option<f32>, loudness: f32) -> Shape {
        let mut manner = Manner::new(48_000.0);
        let frames = (seconds / manner.dt) as usize;
        (0..frames).fold(Shape::default(), |_, _| manner.frame(parameters, hands, loudness))
    }

    #[test]
    fn the_usual_performer_and_silence_leave_the_body_as_it_is() {
        let [pitch, roughness, space, pulse, hands] = USUAL;
        let usual = [pitch, roughness, space, pulse];
        assert_eq!(after(20.0, usual, Some(hands), 0.7), Shape::default());
        assert_eq!(after(20.0, usual, None, 0.7), Shape::default());
        assert_eq!(after(20.0, [1.0; 4], Some(1.0), 0.0), Shape::default());
    }

    #[test]
    fn whoever_differs_gets_a_body_of_their_own_within_seconds_and_within_bounds() {
        let (soon, late) = (
            after(2.0, [0.4, 0.4, 0.8, 0.5], Some(0.2), 0.7),
            after(20.0, [0.4, 0.4, 0.8, 0.5], Some(0.2), 0.7),
        );
        assert!(
            late.lifts[0] > soon.lifts[0] && soon.lifts[0] > 1.0,
            "{soon:?} {late:?}"
        );
        for parameters in [[0.0; 4], [1.0; 4], [0.0, 1.0, 0.0, 1.0]] {
            let shape = after(60.0, parameters, Some(parameters[3]), 1.0);
            assert!(shape.octaves.abs() <= MAX_OCTAVES, "{shape:?}");
            assert!(shape.lifts.iter().all(|lift| lift.abs() <= MAX_LIFT), "{shape:?}");
        }
    }
}
