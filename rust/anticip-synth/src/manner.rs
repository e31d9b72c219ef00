//! A performer's manner: slow averages of the movement, and what they do to the resonances of an instrument.

use crate::control::frame_seconds;

/// Number of averaged traits: pitch, roughness, space, pulse, and speed of the hands.
const TRAITS: usize = 5;
/// Averaging time in seconds at full loudness; soft movement counts less.
const AVERAGE_S: f32 = 4.0;
/// Seconds for which the usual performer counts at the start.
const PRIOR_S: f32 = 1.0;
/// Means over sixteen dances, walks and martial arts.
const USUAL: Traits = [0.65, 0.62, 0.53, 0.27, 0.45];
/// Typical deviation of one clip from them; the unit of the traits and of an instrument's weights.
const SPREAD: Traits = [0.15, 0.14, 0.17, 0.1, 0.11];
/// Maximum of a shift in octaves.
const MAX_OCTAVES: f32 = 1.6;
/// Maximum of a lift in dB.
const MAX_LIFT: f32 = 12.0;

/// The performer's pitch, roughness, space, pulse and speed of the hands; 0 for the usual performer.
pub(crate) type Traits = [f32; TRAITS];

/// Change of an instrument's resonances by a performer's manner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    /// Octaves by which they are higher.
    pub(crate) octaves: f32,
    /// dB by which each is stronger.
    pub(crate) lifts: [f32; 3],
    /// dB by which this makes the instrument louder.
    pub(crate) louder: f32,
}

/// How an instrument's resonances follow the performer's traits; not at all by default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Following {
    /// Octaves by which each trait shifts the resonances.
    pub(crate) octaves: Traits,
    /// dB by which each trait lifts each resonance.
    pub(crate) lifts: [Traits; 3],
    /// dB by which an octave of shift makes the instrument louder.
    pub(crate) octave_gain: f32,
    /// dB by which a dB of lift of each resonance makes it louder.
    pub(crate) lift_gains: [f32; 3],
}

impl Following {
    /// The shape for a performer.
    pub(crate) fn shape(&self, traits: Traits) -> Shape {
        let limited_sum = |weights: Traits, limit: f32| {
            let sum: f32 = weights.iter().zip(traits).map(|(weight, by)| weight * by).sum();
            limit * (sum / limit).tanh()
        };
        let octaves = limited_sum(self.octaves, MAX_OCTAVES);
        let lifts = self.lifts.map(|weights| limited_sum(weights, MAX_LIFT));
        let louder = lifts.iter().zip(self.lift_gains).map(|(lift, gain)| gain * lift);
        Shape {
            octaves,
            lifts,
            louder: self.octave_gain * octaves + louder.sum::<f32>(),
        }
    }
}

/// Slow means of a performer's traits, over the past alone.
pub(crate) struct Manner {
    means: Traits,
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

    /// Adds a frame; returns the current traits. `hands` is `None` if their speed is unknown.
    pub(crate) fn frame(
        &mut self,
        parameters: [f32; TRAITS - 1],
        hands: Option<f32>,
        loudness: f32,
    ) -> Traits {
        let weight = loudness * self.dt;
        self.weight_s = (self.weight_s + weight).min(AVERAGE_S);
        let [pitch, roughness, space, pulse] = parameters;
        let hands = hands.unwrap_or(self.means[TRAITS - 1]);
        let now = [pitch, roughness, space, pulse, hands];
        for (mean, now) in self.means.iter_mut().zip(now) {
            *mean += (now - *mean) * weight / self.weight_s;
        }
        core::array::from_fn(|t| (self.means[t] - USUAL[t]) / SPREAD[t])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLLOWING: Following = Following {
        octaves: [0.5, -0.5, -0.2, 0.2, -0.2],
        lifts: [
            [0.0, -7.0, -2.0, 12.0, 0.0],
            [0.0, 7.0, -9.0, 0.0, 4.0],
            [5.0, 3.0, 2.0, 3.0, 8.0],
        ],
        octave_gain: 1.0,
        lift_gains: [0.5; 3],
    };

    fn after(seconds: f32, parameters: [f32; TRAITS - 1], hands: Option<f32>, loudness: f32) -> Shape {
        let mut manner = Manner::new(48_000.0);
        let frames = (seconds / manner.dt) as usize;
        let traits = (0..frames).fold([0.0; TRAITS], |_, _| manner.frame(parameters, hands, loudness));
        FOLLOWING.shape(traits)
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
