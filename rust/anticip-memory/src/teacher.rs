//! The offline teacher as a stream: its output for a frame, as soon as all frames it depends on have arrived.
//!
//! Zero-phase throughout: every filter is a symmetric Gaussian, truncated and renormalised at both ends of a
//! take, every difference is central (one-sided in the first and the last frame), and the periodicity
//! compares equally long stretches of past and future.

use anticip_motion::kinematics::ENDS;
use anticip_motion::twin::Ring;
use anticip_motion::twin::body::{Body, POSITION_SIZE, PULSE_SIZE, Rotations, SMOOTHED_SIZE, Vector};
use anticip_motion::twin::measures::{
    FAST, FAST_HZ, LAGS, LONGEST_LAG, MEASURES, MOTION_HZ, SLOW_HZ, lags, periodicity, pulse_row,
    raw_measures, repetition, squash,
};

use crate::gaussian::Gaussian;
use crate::{PARAMETER_COUNT, RATE};

/// Frames after a frame on which the teacher's output for it depends: 5 to smooth positions and 1 to
/// differentiate them, 30 for the longest period, 27 to smooth its periodicity.
pub const TEACHER_REACH: usize = 63;

/// A take must be longer than this, in frames, for every period to be tested. Until then there is no output.
pub const TEACHER_START: usize = 2 * LONGEST_LAG;

/// Capacity of the rings: more frames than lie between the first one still needed and the newest.
const RING_SIZE: usize = 128;

const END_SIZE: usize = 3 * ENDS.len();

/// The teacher's parameters of a take, frame by frame; each comes [`TEACHER_REACH`] frames late, the first
/// ones when the take is longer than [`TEACHER_START`].
#[derive(Debug, Clone)]
pub struct Teacher {
    motion: Gaussian,
    fast: Gaussian,
    slow: Gaussian,
    places: Ring<SMOOTHED_SIZE>,
    lateral: Ring<{ ENDS.len() }>,
    calm: Ring<SMOOTHED_SIZE>,
    velocity: Ring<SMOOTHED_SIZE>,
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
            places: Ring::new(RING_SIZE),
            lateral: Ring::new(RING_SIZE),
            calm: Ring::new(RING_SIZE),
            velocity: Ring::new(RING_SIZE),
            pulse: Ring::new(RING_SIZE),
            acceleration: Ring::new(RING_SIZE),
            measures: Ring::new(RING_SIZE),
            terms: Ring::new(RING_SIZE),
            emitted: 0,
        }
    }
}

/// Whether row `at` can be computed from a stream that has `available` rows, of which it needs `reach` ahead.
fn ready(at: usize, available: usize, reach: usize, ended: bool) -> bool {
    at + if ended { 0 } else { reach } < available
}

impl Teacher {
    /// Adds the next frame; calls `emit` once per frame whose output is complete, in order.
    pub fn push(&mut self, pose: &Rotations, emit: impl FnMut([f64; PARAMETER_COUNT])) {
        self.push_body(&Body::from_pose(pose), emit);
    }

    pub(crate) fn push_body(&mut self, body: &Body, emit: impl FnMut([f64; PARAMETER_COUNT])) {
        self.places.push(&body.positions);
        self.lateral.push(&body.lateral);
        self.advance(false, emit);
    }

    /// Ends the take and emits the rest of it; the next frame starts another.
    pub fn finish(&mut self, emit: impl FnMut([f64; PARAMETER_COUNT])) {
        self.advance(true, emit);
        self.reset();
    }

    /// Discards the take; the next frame starts another.
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

    /// Computes every row whose inputs are complete, stage by stage.
    fn advance(&mut self, ended: bool, mut emit: impl FnMut([f64; PARAMETER_COUNT])) {
        let frames = self.places.len();
        while ready(self.calm.len(), frames, self.motion.radius(), ended) {
            let row = smooth(&self.motion, &self.places, self.calm.len());
            self.calm.push(&row);
        }
        while ready(self.velocity.len(), self.calm.len(), 1, ended) {
            let row = derivative(&self.calm, self.velocity.len());
            self.velocity.push(&row);
            self.pulse.push(&pulse_row(&row[POSITION_SIZE..]));
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
            let places = self.places.at(at)[..POSITION_SIZE].as_chunks().0;
            let velocity = self.velocity.at(at)[..POSITION_SIZE].as_chunks().0;
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
            emit(squash(&measures, self.periodicity(frames)));
            self.emitted += 1;
        }
    }

    /// How well the movement repeats around frame `at`, per period; zeros where a period extends beyond the
    /// take.
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

    /// The highest periodicity around the next frame to be emitted; `frames` of the take have arrived.
    fn periodicity(&self, frames: usize) -> f64 {
        let sums = smooth(&self.slow, &self.terms, self.emitted);
        let mass: f64 = self.slow.around(self.emitted, frames).map(|(_, tap)| tap).sum();
        let (mut highest, reach) = (0.0_f64, self.slow.radius());
        for (&term, lag) in sums.as_chunks().0.iter().zip(lags()) {
            let half = lag / 2;
            if frames <= 2 * lag {
                continue;
            }
            let valid = half..frames - half;
            // Far from both ends of the take all taps are inside.
            let is_inside = self.emitted >= half + reach && self.emitted + reach < valid.end;
            let taps_inside = self.slow.around(self.emitted, frames);
            let taps_inside = taps_inside
                .filter(|(at, _)| valid.contains(at))
                .map(|(_, tap)| tap);
            let weight = if is_inside {
                1.0
            } else {
                taps_inside.sum::<f64>() / mass
            };
            if weight > 0.25 {
                highest = highest.max(periodicity(term, weight));
            }
        }
        highest
    }
}

/// Row `at` smoothed by the kernel, renormalised at both ends.
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
