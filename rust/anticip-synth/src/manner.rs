//! What a performer is like over seconds, and the body that an instrument takes from it.

use crate::control::FRAME;

/// What is followed: pitch, roughness, space, pulse, and how fast the hands move.
const TRAITS: usize = 5;
/// Seconds of full loudness over which the means are taken; what moves softly counts less.
const MEMORY: f32 = 4.0;
/// Seconds for which the usual performer counts at the beginning.
const PRIOR: f32 = 1.0;
/// Means over sixteen dances, walks and martial arts, and by how much those of one clip differ from them.
const USUAL: [f32; TRAITS] = [0.65, 0.62, 0.53, 0.27, 0.45];
const APART: [f32; TRAITS] = [0.15, 0.14, 0.17, 0.1, 0.11];
/// Octaves by which each trait moves the body's resonances, and dB that it adds to each of the three.
const SMALL: [f32; TRAITS] = [0.54, -0.51, -0.19, 0.16, -0.17];
const LIFTS: [[f32; TRAITS]; 3] = [
    [-0.3, -7.5, -2.3, 12.5, 0.6],
    [-0.4, 6.9, -9.5, 0.4, 3.7],
    [5.3, 2.6, 2.4, 3.1, 8.0],
];
/// The most that all of them together do.
const MOST_SMALL: f32 = 1.6;
const MOST_LIFT: f32 = 12.0;
/// dB by which an octave, and a dB of each resonance, make a choir louder.
const EVEN_SMALL: f32 = 1.0;
const EVEN_LIFTS: [f32; 3] = [0.45, 0.45, 0.16];

/// How a body's resonances differ from those in the middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    /// Octaves by which they lie higher.
    pub(crate) small: f32,
    /// dB by which each is stronger.
    pub(crate) lifts: [f32; 3],
    /// dB by which all of it is louder for that.
    pub(crate) louder: f32,
}

/// Slow means, of the past alone.
pub(crate) struct Manner {
    means: [f32; TRAITS],
    heard: f32,
    dt: f32,
}

impl Manner {
    pub(crate) fn new(sample_rate: f64) -> Self {
        Self {
            means: USUAL,
            heard: PRIOR,
            dt: (FRAME as f64 / sample_rate) as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.means = USUAL;
        self.heard = PRIOR;
    }

    /// A frame; how fast the hands move may be unknown.
    pub(crate) fn frame(
        &mut self,
        parameters: [f32; TRAITS - 1],
        hands: Option<f32>,
        loudness: f32,
    ) -> Shape {
        let weight = loudness * self.dt;
        self.heard = (self.heard + weight).min(MEMORY);
        let [pitch, roughness, space, pulse] = parameters;
        let hands = hands.unwrap_or(self.means[TRAITS - 1]);
        let now = [pitch, roughness, space, pulse, hands];
        for (mean, now) in self.means.iter_mut().zip(now) {
            *mean += (now - *mean) * weight / self.heard;
        }
        let far: [f32; TRAITS] = core::array::from_fn(|t| (self.means[t] - USUAL[t]) / APART[t]);
        let moved = |by: [f32; TRAITS], most: f32| {
            let sum: f32 = by.iter().zip(far).map(|(by, far)| by * far).sum();
            most * (sum / most).tanh()
        };
        let small = moved(SMALL, MOST_SMALL);
        let lifts = LIFTS.map(|by| moved(by, MOST_LIFT));
        let louder = lifts.iter().zip(EVEN_LIFTS).map(|(lift, even)| even * lift);
        Shape {
            small,
            lifts,
            louder: EVEN_SMALL * small + louder.sum::<f32>(),
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
            let most = after(60.0, parameters, Some(parameters[3]), 1.0);
            assert!(most.small.abs() <= MOST_SMALL, "{most:?}");
            assert!(most.lifts.iter().all(|lift| lift.abs() <= MOST_LIFT), "{most:?}");
        }
    }
}
