//! What a performer differs by from what was rehearsed: all the time, and for a moment.

use super::belief::Seen;
use super::posture::{Posture, apart};
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
/// The share of a frame's log likelihood that counts between stretches from one who differs the most; and how much
/// more it counts the closer one keeps to what was rehearsed, as frames are then the more independent.
const EVIDENCE: f32 = 0.13;
const CLOSER: f32 = 1.25;

/// A performer, as far as known.
#[derive(Debug, Clone)]
pub(super) struct Performer {
    /// What places are off by all the time, metres.
    suit: Posture,
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
            scale: std::array::from_fn(|n| FIRST[n] * FIRST[n] * whole[n]),
            whole,
        }
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

    /// Learns from what is seen where this was rehearsed.
    pub(super) fn learn(&mut self, seen: &Seen, place: &Posture, velocity: &Posture) {
        let away = [apart(&seen.place, place), apart(&seen.velocity, velocity)];
        let rate = SUIT / (1.0 + away[0] / self.scale[0]);
        for ((off, now), then) in self.suit.iter_mut().zip(&seen.place).zip(place) {
            *off += rate * (now - then);
        }
        for n in 0..2 {
            let unusual = away[n] / (away[n] + USUAL * self.scale[n]) - 0.5;
            let [least, most] = [LEAST, MOST[n]].map(|share| share * share * self.whole[n]);
            self.scale[n] = (self.scale[n] * (ADAPT * unusual).exp()).clamp(least, most);
        }
    }
}
