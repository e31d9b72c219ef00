//! The offline teacher as a stream: what it says about a frame, as soon as all that it looks at has arrived.
//!
//! Zero-phase throughout: every filter is a symmetric Gaussian, cut and renormalised at both ends of a take, every
//! difference is central (one-sided in the first and the last frame), the periodicity compares equal stretches of past
//! and future.

use anticip_motion::kinematics::ENDS;
use anticip_motion::twin::Ring;
use anticip_motion::twin::body::{Body, CALM_SIZE, PLACE_SIZE, PULSE_SIZE, Rotations, Vector};
use anticip_motion::twin::measures::{
    FAST, FAST_HZ, LAGS, LONGEST_LAG, MEASURES, MOTION_HZ, SLOW_HZ, lags, periodicity, pulse_row,
    raw_measures, repetition, squash,
};

use crate::gaussian::Gaussian;
use crate::{PARAMETER_COUNT, RATE};

/// Frames after a frame that the teacher looks at: 5 to smooth and 1 to differentiate positions, 30 of the longest
/// period, 27 to smooth how well it repeats.
pub const TEACHER_REACH: usize = 63;

/// Frames that a take must be longer than for every period to be looked at. Until so many are there, nothing is said.
pub const TEACHER_START: usize = 2 * LONGEST_LAG;

/// More frames than stand between the first that is still needed and the newest.
const KEPT: usize = 128;

const END_SIZE: usize = 3 * ENDS.len();

/// The teacher's parameters of a take, frame by frame; each comes [`TEACHER_REACH`] frames late, the first ones when
/// the take is longer than [`TEACHER_START`].
#[derive(Debug, Clone)]
pub struct Teacher {
    motion: Gaussian,
    fast: Gaussian,
    slow: Gaussian,
    places: Ring<CALM_SIZE>,
    lateral: Ring<{ ENDS.len() }>,
    calm: Ring<CALM_SIZE>,
    velocity: Ring<CALM_SIZE>,
    pulse: Ring<{ PULSE_SIZE + 1 }>,
    acceleration: Ring<END_SIZE>,
    measures: Ring<MEASURES>,
    terms: Ring<{ 2 * LAGS }>,
    emitted: usize,
}

impl Default for Teacher {
    fn default() -> Self {
        Self {
            motion: Gaussian::new(MOTION_HZ),
            fast: Gaussian::new(FAST_HZ),
            slow: Gaussian::new(SLOW_HZ),
            places: Ring::new(KEPT),
            lateral: Ring::new(KEPT),
            calm: Ring::new(KEPT),
            velocity: Ring::new(KEPT),
            pulse: Ring::new(KEPT),
            acceleration: Ring::new(KEPT),
            measures: Ring::new(KEPT),
            terms: Ring::new(KEPT),
            emitted: 0,
        }
    }
}

/// Whether row `at` of a stream can be made of another that has `given` rows and is looked at `reach` rows ahead.
fn ready(at: usize, given: usize, reach: usize, ended: bool) -> bool {
    at + if ended { 0 } else { reach } < given
}

impl Teacher {
    /// Takes the next frame; what can be said now is said in order, one call a frame.
    pub fn push(&mut self, pose: &Rotations, say: impl FnMut([f64; PARAMETER_COUNT])) {
        self.push_body(&Body::of(pose), say);
    }

    pub(crate) fn push_body(&mut self, body: &Body, say: impl FnMut([f64; PARAMETER_COUNT])) {
        self.places.push(&body.places);
        self.lateral.push(&body.lateral);
        self.advance(false, say);
    }

    /// Says what is left of the take, which ends here; the next frame begins another.
    pub fn finish(&mut self, say: impl FnMut([f64; PARAMETER_COUNT])) {
        self.advance(true, say);
        self.reset();
    }

    /// The next frame begins another take; what was not said of the last is not said.
    pub fn reset(&mut self) {
        self.places.clear();
        self.lateral.clear();
        self.calm.clear();
        self.velocity.clear();
        self.pulse.clear();
        self.acceleration.clear();
        self.measures.clear();
        self.terms.clear();
        self.emitted = 0;
    }

    fn advance(&mut self, ended: bool, mut say: impl FnMut([f64; PARAMETER_COUNT])) {
        let frames = self.places.len();
        while ready(self.calm.len(), frames, self.motion.radius(), ended) {
            let row = smooth(&self.motion, &self.places, self.calm.len());
            self.calm.push(&row);
        }
        while ready(self.velocity.len(), self.calm.len(), 1, ended) {
            let row = derivative(&self.calm, self.velocity.len());
            self.velocity.push(&row);
            self.pulse.push(&pulse_row(&row[PLACE_SIZE..]));
        }
        while ready(self.acceleration.len(), self.velocity.len(), 1, ended) {
            let all = derivative(&self.velocity, self.acceleration.len());
            let mut row = [0.0; END_SIZE];
            for (slot, joint) in row.chunks_exact_mut(3).zip(ENDS) {
                slot.copy_from_slice(&all[3 * joint..3 * joint + 3]);
            }
            self.acceleration.push(&row);
        }
        while ready(self.measures.len(), self.acceleration.len(), 1, ended) {
            let at = self.measures.len();
            let jerk = derivative(&self.acceleration, at);
            let jerk: [Vector; ENDS.len()] =
                std::array::from_fn(|i| std::array::from_fn(|axis| jerk[3 * i + axis]));
            let places = self.places.at(at)[..PLACE_SIZE].as_chunks().0;
            let velocity = self.velocity.at(at)[..PLACE_SIZE].as_chunks().0;
            let row = raw_measures(places, self.lateral.at(at), velocity, &jerk);
            self.measures.push(&row);
        }
        while ready(self.terms.len(), self.velocity.len(), LONGEST_LAG / 2, ended) {
            let row = self.terms_at(self.terms.len());
            self.terms.push(&row);
        }
        while (ended || frames > TEACHER_START)
            && ready(self.emitted, self.measures.len(), self.slow.radius(), ended)
            && ready(self.emitted, self.terms.len(), self.slow.radius(), ended)
        {
            let mut measures = smooth(&self.slow, &self.measures, self.emitted);
            measures[..FAST].copy_from_slice(&smooth(&self.fast, &self.measures, self.emitted)[..FAST]);
            say(squash(&measures, self.periodicity(frames)));
            self.emitted += 1;
        }
    }

    /// How the movement repeats around frame `at`, for every period; nothing where a period reaches beyond the take.
    fn terms_at(&self, at: usize) -> [f64; 2 * LAGS] {
        let mut row = [0.0; 2 * LAGS];
        for (slot, lag) in row.as_chunks_mut().0.iter_mut().zip(lags()) {
            let half = lag / 2;
            if at >= half && at + half < self.pulse.len() {
                *slot = repetition(self.pulse.at(at + half), self.pulse.at(at - half));
            }
        }
        row
    }

    /// The greatest periodicity around the next frame to be said; `frames` of the take have come.
    fn periodicity(&self, frames: usize) -> f64 {
        let sums = smooth(&self.slow, &self.terms, self.emitted);
        let mass: f64 = self.slow.around(self.emitted, frames).map(|(_, tap)| tap).sum();
        let (mut best, reach) = (0.0_f64, self.slow.radius());
        for (&term, lag) in sums.as_chunks().0.iter().zip(lags()) {
            let half = lag / 2;
            if frames <= 2 * lag {
                continue;
            }
            let both = half..frames - half;
            // Far from both ends of the take it is all of it.
            let inside = self.emitted >= half + reach && self.emitted + reach < both.end;
            let seen = self.slow.around(self.emitted, frames);
            let seen = seen.filter(|(at, _)| both.contains(at)).map(|(_, tap)| tap);
            let weight = if inside { 1.0 } else { seen.sum::<f64>() / mass };
            if weight > 0.25 {
                best = best.max(periodicity(term, weight));
            }
        }
        best
    }
}

fn smooth<const N: usize>(kernel: &Gaussian, rows: &Ring<N>, at: usize) -> [f64; N] {
    let (mut total, mut mass) = ([0.0; N], 0.0);
    for (frame, tap) in kernel.around(at, rows.len()) {
        mass += tap;
        for (sum, value) in total.iter_mut().zip(rows.at(frame)) {
            *sum += tap * value;
        }
    }
    total.map(|sum| sum / mass)
}

/// Central difference per second, one-sided in the first and the last row.
fn derivative<const N: usize>(rows: &Ring<N>, at: usize) -> [f64; N] {
    let (first, last) = (at.saturating_sub(1), (at + 1).min(rows.len() - 1));
    let step = RATE / (last - first).max(1) as f64;
    let (from, to) = (rows.at(first), rows.at(last));
    std::array::from_fn(|i| (to[i] - from[i]) * step)
}
