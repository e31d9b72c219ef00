//! How a performer differs from the rehearsal, constantly and from moment to moment.

use anticip_geometry::Quat;

use super::belief::Observation;
use super::posture::{KeptPose, Posture, Turns, UNTURNED, between, distance_squared, jitter_errors};
use super::rehearsal::Rehearsal;

/// Initial scale of differences when a movement is repeated, as a share of the rms difference of unrelated
/// moments: postures and velocities.
const INITIAL_SCALE: [f32; 2] = [0.25, 0.18];
/// Maximum of that scale.
const MAX_SCALE: [f32; 2] = [0.3, 0.22];
/// Minimum of that scale.
const MIN_SCALE: f32 = 0.06;
/// Share beyond which the movement is more likely something else.
const ELSEWHERE_SHARE: f32 = 0.6;
/// The scale is adapted so that the usual squared difference is this share of the squared scale.
const USUAL: f32 = 0.25;
/// Twice the maximum change of the logarithm of the squared scale per frame.
const ADAPT: f32 = 0.04;
/// Rate per frame at which constant offsets of positions are learned: about two seconds.
const OFFSET_RATE: f32 = 0.01;
/// Rate at which constant turns of joints are learned, relative to that: faster, noise would be learned.
const TURN_RATE: f32 = 0.5;
/// Turns that joints show in the same suit, from noise and repetition (rms, radians).
const TURN_NOISE: f64 = 0.026;
/// Scale assumed for a performer whose own differences are hidden by larger jitter of the suit.
const HIDDEN_SCALE: f32 = 0.1;
/// Share of a frame's log likelihood that counts between stretches for a performer who differs the most.
const MIN_WEIGHT: f32 = 0.13;
/// Exponent with which that share grows for performers who differ less, whose frames are more independent.
const WEIGHT_EXPONENT: f32 = 1.25;

/// What has been learned of a performer.
#[derive(Debug, Clone)]
pub(super) struct Performer {
    /// Constant offset of the positions, metres.
    offset: Posture,
    /// Constant turn of the joints that carry them.
    turns: Turns,
    /// Squared scale of the remaining differences: positions (m^2) and velocities ((m/s)^2).
    scale: [f32; 2],
    /// Mean squared difference of unrelated moments of the rehearsal.
    unrelated: [f32; 2],
}

impl Performer {
    pub(super) fn new(at: &Rehearsal) -> Self {
        let unrelated = [at.whole.place, at.whole.velocity];
        Self {
            offset: [0.0; 32],
            turns: UNTURNED,
            scale: std::array::from_fn(|n| INITIAL_SCALE[n] * INITIAL_SCALE[n] * unrelated[n]),
            unrelated,
        }
    }

    /// The constant turns, shrunk (James-Stein) by what is within the noise of any suit.
    pub(super) fn turns(&self) -> Turns {
        // Approximately the squared angle.
        let angle_squared = |turn: &Quat| 4.0 * (turn.x * turn.x + turn.y * turn.y + turn.z * turn.z);
        let mean = self.turns.iter().map(angle_squared).sum::<f64>() / self.turns.len() as f64;
        let share = (1.0 - TURN_NOISE * TURN_NOISE / mean).max(0.0);
        self.turns.map(|turn| Quat::slerp(Quat::IDENTITY, turn, share))
    }

    /// Scale of the performer's own differences, without the jitter of the suit, as a share of the rms difference
    /// of unrelated moments; `error` is the squared error that the jitter causes.
    fn own_scale(&self, n: usize, error: f32) -> f32 {
        let [scale, jitter] = [self.scale[n], error / USUAL].map(|square| square / self.unrelated[n]);
        let floor = jitter.min(HIDDEN_SCALE * HIDDEN_SCALE);
        (scale - jitter).max(floor).sqrt().clamp(MIN_SCALE, MAX_SCALE[n])
    }

    /// The observation of a posture and its velocity; `moving` is false while there is no velocity yet, `noise`
    /// is the suit's jitter (see [`jitter_errors`]).
    pub(super) fn observe(
        &self,
        mut place: Posture,
        velocity: Posture,
        moving: bool,
        noise: f32,
    ) -> Observation {
        place
            .iter_mut()
            .zip(&self.offset)
            .for_each(|(v, offset)| *v -= offset);
        let inverse_share =
            |n: usize| 1.0 + ELSEWHERE_SHARE * ELSEWHERE_SHARE * self.unrelated[n] / self.scale[n];
        let errors = jitter_errors(noise);
        let closer: f32 = (0..2)
            .map(|n| MAX_SCALE[n] / self.own_scale(n, errors[n]))
            .product();
        Observation {
            place,
            velocity,
            moving,
            scale: self.scale,
            elsewhere: 1.0 / (inverse_share(0) * if moving { inverse_share(1) } else { 1.0 }),
            weight: (MIN_WEIGHT * closer.powf(WEIGHT_EXPONENT)).min(1.0),
        }
    }

    /// Learns from an observation and the posture, velocity and pose that were rehearsed at its place.
    pub(super) fn learn(
        &mut self,
        (observed, now): (&Observation, &KeptPose),
        (place, velocity, then): (&Posture, &Posture, &KeptPose),
    ) {
        let distances = [
            distance_squared(&observed.place, place),
            distance_squared(&observed.velocity, velocity),
        ];
        let rate = OFFSET_RATE / (1.0 + distances[0] / self.scale[0]);
        for ((offset, current), rehearsed) in self.offset.iter_mut().zip(&observed.place).zip(place) {
            *offset += rate * (current - rehearsed);
        }
        for (turn, newest) in self.turns.iter_mut().zip(between(now, then)) {
            *turn = Quat::slerp(*turn, newest, f64::from(TURN_RATE * rate));
        }
        for n in 0..2 {
            let deviation = distances[n] / (distances[n] + USUAL * self.scale[n]) - 0.5;
            let [min, max] = [MIN_SCALE, MAX_SCALE[n]].map(|share| share * share * self.unrelated[n]);
            self.scale[n] = (self.scale[n] * (ADAPT * deviation).exp()).clamp(min, max);
        }
    }
}

#[cfg(test)]
mod tests {
    use anticip_motion::CanonicalPose;
    use anticip_motion::canonical::JOINT_COUNT;

    use super::super::posture::Viewer;
    use super::*;

    /// A pose in which every joint swings in its own rhythm; all joints but the hips are offset by `turn`.
    fn pose(frame: usize, turn: Quat) -> CanonicalPose {
        std::array::from_fn(|joint| {
            let swing = 0.6 * (0.02 * frame as f64 * (1.0 + joint as f64 / JOINT_COUNT as f64)).sin();
            let offset = if joint == 0 { Quat::IDENTITY } else { turn };
            (offset * Quat::exp([swing, 0.5 * swing, 0.2]))
                .to_array()
                .map(|v| v as f32)
        })
    }

    /// Distances from the rehearsed postures, frame by frame, in a suit that turns every joint.
    fn distances(turn: Quat) -> Vec<f32> {
        let take: Vec<CanonicalPose> = (0..1200).map(|i| pose(i, Quat::IDENTITY)).collect();
        let rehearsal = Rehearsal::new([&take]).expect("a take");
        let mut performer = Performer::new(&rehearsal);
        let (mut viewer, mut other, still) = (Viewer::default(), Viewer::default(), [0.0; 32]);
        let mut distances = Vec::new();
        for (i, rehearsed) in take.iter().enumerate() {
            let place = other.push(rehearsed);
            let observed = viewer.push_without(&performer.turns(), &pose(i, turn));
            distances.push(distance_squared(&observed, &place).sqrt());
            let observed = performer.observe(observed, still, true, 0.0);
            performer.learn((&observed, &viewer.kept()), (&place, &still, &other.kept()));
        }
        distances
    }

    fn max(of: &[f32]) -> f32 {
        of.iter().copied().fold(0.0, f32::max)
    }

    #[test]
    fn a_suit_that_turns_every_joint_is_seen_through_in_whatever_posture() {
        let distances = distances(Quat::exp([0.1, -0.06, 0.08]));
        assert!(max(&distances[..50]) > 0.2, "{}", max(&distances[..50]));
        assert!(max(&distances[1000..]) < 0.05, "{}", max(&distances[1000..]));
    }

    #[test]
    fn a_turn_that_the_same_suit_may_show_is_left() {
        let slight = distances(Quat::exp([0.012, -0.014, 0.01]));
        let min = slight[1000..].iter().copied().fold(f32::INFINITY, f32::min);
        assert!(min > 0.7 * max(&slight[..200]), "{min}");
    }
}
