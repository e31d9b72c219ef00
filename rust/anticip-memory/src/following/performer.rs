//! What a performer differs by from what was rehearsed: all the time, and for a moment.

use anticip_geometry::Quat;

use super::belief::Seen;
use super::posture::{KeptPose, Posture, Turns, UNTURNED, apart, between};
use super::rehearsal::Rehearsal;

/// What the same movement done again differs by, as a share of what unrelated moments do (the root of it), at first
/// and at most: postures and velocities.
const FIRST: [f32; 2] = [0.25, 0.18];
const MOST: [f32; 2] = [0.3, 0.22];
const LEAST: f32 = 0.06;
/// The share beyond which it is more likely something else.
const ELSE: f32 = 0.6;
/// The scale within which likelihoods fall is so learned that the usual squared difference is this share of its
/// square, by at most half of this (its logarithm) in a frame.
const USUAL: f32 = 0.25;
const ADAPT: f32 = 0.04;
/// A suit that sits otherwise is learned at this rate a frame: in two seconds.
const SUIT: f32 = 0.01;
/// And what it turns joints by at this share of that rate, in four: faster, noise is taken for turns.
const TURN: f32 = 0.5;
/// What joints seem turned by in the same suit, too, by noise and by doing it again (root mean square, radians).
const UNSURE: f64 = 0.026;
/// The share of a frame's log likelihood that counts between stretches from one who differs the most; and how much
/// more it counts the closer one keeps to what was rehearsed, as frames are then the more independent.
const EVIDENCE: f32 = 0.13;
const CLOSER: f32 = 1.25;

/// A performer, as far as known.
#[derive(Debug, Clone)]
pub(super) struct Performer {
    /// What places are off by all the time, metres.
    suit: Posture,
    /// What the joints that carry them are turned by all the time.
    turned: Turns,
    /// What they differ by beyond that, squared: places (m^2) and velocities ((m/s)^2).
    scale: [f32; 2],
    /// What unrelated moments of the rehearsal differ by, squared.
    whole: [f32; 2],
}

impl Performer {
    pub(super) fn new(at: &Rehearsal) -> Self {
        let whole = [at.whole.place, at.whole.velocity];
        Self {
            suit: [0.0; 32],
            turned: UNTURNED,
            scale: std::array::from_fn(|n| FIRST[n] * FIRST[n] * whole[n]),
            whole,
        }
    }

    /// By how much the joints are turned all the time, shrunk as James and Stein do by what any suit shows.
    pub(super) fn turned(&self) -> Turns {
        // Nearly the angle, squared.
        let angle = |turn: &Quat| 4.0 * (turn.x * turn.x + turn.y * turn.y + turn.z * turn.z);
        let mean = self.turned.iter().map(angle).sum::<f64>() / self.turned.len() as f64;
        let share = (1.0 - UNSURE * UNSURE / mean).max(0.0);
        self.turned.map(|turn| Quat::slerp(Quat::IDENTITY, turn, share))
    }

    /// What is to be made of a posture and its velocity, if anybody `moving` has one yet.
    pub(super) fn see(&self, mut place: Posture, velocity: Posture, moving: bool) -> Seen {
        place.iter_mut().zip(&self.suit).for_each(|(v, off)| *v -= off);
        let part = |n: usize| 1.0 + ELSE * ELSE * self.whole[n] / self.scale[n];
        let closer: f32 = (0..2)
            .map(|n| MOST[n] * (self.whole[n] / self.scale[n]).sqrt())
            .product();
        Seen {
            place,
            velocity,
            moving,
            scale: self.scale,
            elsewhere: 1.0 / (part(0) * if moving { part(1) } else { 1.0 }),
            weight: (EVIDENCE * closer.powf(CLOSER)).min(1.0),
        }
    }

    /// Learns from what is seen where this was rehearsed: a posture, its velocity and the pose.
    pub(super) fn learn(
        &mut self,
        (seen, now): (&Seen, &KeptPose),
        (place, velocity, then): (&Posture, &Posture, &KeptPose),
    ) {
        let away = [apart(&seen.place, place), apart(&seen.velocity, velocity)];
        let rate = SUIT / (1.0 + away[0] / self.scale[0]);
        for ((off, live), was) in self.suit.iter_mut().zip(&seen.place).zip(place) {
            *off += rate * (live - was);
        }
        for (turn, newest) in self.turned.iter_mut().zip(between(now, then)) {
            *turn = Quat::slerp(*turn, newest, f64::from(TURN * rate));
        }
        for n in 0..2 {
            let unusual = away[n] / (away[n] + USUAL * self.scale[n]) - 0.5;
            let [least, most] = [LEAST, MOST[n]].map(|share| share * share * self.whole[n]);
            self.scale[n] = (self.scale[n] * (ADAPT * unusual).exp()).clamp(least, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use anticip_motion::CanonicalPose;
    use anticip_motion::canonical::JOINT_COUNT;

    use super::super::posture::Viewer;
    use super::*;

    /// Every joint swings in a rhythm of its own; all but the hips are held otherwise by `turn`.
    fn pose(frame: usize, turn: Quat) -> CanonicalPose {
        std::array::from_fn(|joint| {
            let swing = 0.6 * (0.02 * frame as f64 * (1.0 + joint as f64 / JOINT_COUNT as f64)).sin();
            let by = if joint == 0 { Quat::IDENTITY } else { turn };
            (by * Quat::exp([swing, 0.5 * swing, 0.2]))
                .to_array()
                .map(|v| v as f32)
        })
    }

    /// How far postures are from the rehearsed ones, frame by frame, in a suit that turns every joint.
    fn away(turn: Quat) -> Vec<f32> {
        let take: Vec<CanonicalPose> = (0..1200).map(|i| pose(i, Quat::IDENTITY)).collect();
        let rehearsal = Rehearsal::new([&take]).expect("a take");
        let mut performer = Performer::new(&rehearsal);
        let (mut viewer, mut other, still) = (Viewer::default(), Viewer::default(), [0.0; 32]);
        let mut away = Vec::new();
        for (i, rehearsed) in take.iter().enumerate() {
            let place = other.push(rehearsed);
            let seen = viewer.push_without(&performer.turned(), &pose(i, turn));
            away.push(apart(&seen, &place).sqrt());
            let seen = performer.see(seen, still, true);
            performer.learn((&seen, &viewer.kept()), (&place, &still, &other.kept()));
        }
        away
    }

    fn most(of: &[f32]) -> f32 {
        of.iter().copied().fold(0.0, f32::max)
    }

    #[test]
    fn a_suit_that_turns_every_joint_is_seen_through_in_whatever_posture() {
        let away = away(Quat::exp([0.1, -0.06, 0.08]));
        assert!(most(&away[..50]) > 0.2, "{}", most(&away[..50]));
        assert!(most(&away[1000..]) < 0.05, "{}", most(&away[1000..]));
    }

    #[test]
    fn a_turn_that_the_same_suit_may_show_is_left() {
        let slight = away(Quat::exp([0.012, -0.014, 0.01]));
        let least = slight[1000..].iter().copied().fold(f32::INFINITY, f32::min);
        assert!(least > 0.7 * most(&slight[..200]), "{least}");
    }
}
