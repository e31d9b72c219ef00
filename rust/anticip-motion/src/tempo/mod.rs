//! Tempo tracking: period, phase and trust of the body's beat in each frame.
//!
//! The period is the lag with the highest running autocorrelation of the movement of hands, toes and head (plain,
//! mirrored, and of its speed); of peaks of similar height the shortest is chosen. An oscillator with that period is
//! pulled to the phase of the rise and fall of the speed (its Fourier coefficient at the period, over the last two
//! periods), so that phase 0 is where strokes arrive: where the onsets of the motion model lie, of steps and other
//! strokes.

mod repetition;

use std::f64::consts::TAU;
use std::hint::black_box;

use crate::canonical::OFFSETS;
use crate::features::RATE;
use crate::kinematics::{ENDS, MAX_SPEED, VELOCITIES, body_kinematics};
use crate::twin::{LowPass, Ring};
use repetition::{MAX_LAG, REST_ENERGY, Repetition, SIZE};

/// Shortest period, frames: 250 beats a minute (a sprint).
const MIN_PERIOD: usize = 12;
/// Longest period, frames: 50 beats a minute.
const MAX_PERIOD: usize = 60;
/// Delay of the smoother, seconds.
const DELAY_S: f64 = 0.04;
/// Added to the speed (m/s) before its logarithm is taken.
const SPEED_FLOOR: f64 = 0.1;
/// Time constant of the usual speed, frames.
const USUAL_SPEED_FRAMES: f64 = 60.0;
/// Period without a penalty, frames (120 beats a minute).
const USUAL_PERIOD: f64 = 25.0;
/// Penalty of a period an octave away from that.
const OCTAVE_PENALTY: f64 = 0.1;
/// Part of the highest peak from which on the peak with the shortest period is chosen.
const PEAK_RATIO: f64 = 0.75;
/// If the strides' peak is this part of the steps', both determine the period.
const STRIDE_RATIO: f64 = 0.8;
/// Frames within which the strides' peak lies near twice the period.
const STRIDE_MARGIN: usize = 4;
/// Largest difference of the logarithms of equal periods.
const SAME_PERIOD: f64 = 0.08;
/// Frames for which another period must have been found before it is taken.
const PATIENCE: u32 = 12;
/// Gain per frame at which an equal period is followed.
const PERIOD_GAIN: f64 = 0.2;
/// Beats from the maximum of the speed's rise and fall to the arrival of the stroke, including the smoother's delay.
const ARRIVAL: f64 = 0.14;
/// Periods over which the phase is measured.
const PHASE_PERIODS: f64 = 2.0;
/// Gain per frame at which the phase is followed.
const PHASE_GAIN: f64 = 0.15;
/// Part of the energy of the last second and more below which a body has come to rest.
const REST_RATIO: f64 = 0.25;
/// Gain per frame of the recent energy.
const RECENT_GAIN: f64 = 0.04;
/// Similarity that is due to chance: no trust.
const CHANCE: f64 = 0.25;
/// The highest similarity that a body reaches: full trust.
const FULL: f64 = 0.75;
/// Frames until a lasting period is fully trusted; trust is lost twice as fast.
const PERSISTENCE: f64 = 50.0;

/// The beat in one frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tempo {
    /// Beats a minute; the last known value, 0 before any.
    pub bpm: f64,
    /// 0 at the beat, approaching 1 before the next.
    pub phase: f64,
    /// 0 if the body keeps no beat, 1 if it has kept one for a second.
    pub trust: f64,
}

impl Tempo {
    /// The same beat this many frames later.
    #[must_use]
    pub fn after(self, frames: f64) -> Self {
        Self {
            phase: wrapped(self.phase + frames * self.bpm / (60.0 * RATE)),
            ..self
        }
    }
}

/// Tracks the beat over feature rows; allocates nothing after construction.
#[derive(Debug, Clone)]
pub struct TempoTracker {
    smoother: LowPass,
    repetition: Repetition,
    /// Speed of the ends, octaves.
    speeds: Ring<1>,
    usual_speed: f64,
    /// Smoothed energy of the last half second.
    recent_energy: f64,
    /// Period in frames, 0 while unknown.
    period: f64,
    phase: f64,
    /// Another period that was found.
    candidate: f64,
    /// Frames for which it was found.
    candidate_frames: u32,
    /// Frames for which the period has held, up to [`PERSISTENCE`].
    held: f64,
    trust: f64,
}

impl Default for TempoTracker {
    /// A tracker for a new stream.
    fn default() -> Self {
        Self {
            smoother: LowPass::new(DELAY_S, 2, SIZE + 1),
            repetition: Repetition::new(),
            speeds: Ring::new(MAX_LAG + 1),
            usual_speed: 0.0,
            recent_energy: 0.0,
            period: 0.0,
            phase: 0.0,
            candidate: 0.0,
            candidate_frames: 0,
            held: 0.0,
            trust: 0.0,
        }
    }
}

impl TempoTracker {
    /// Starts a new stream with the next row. The last beats a minute are kept, without trust.
    pub fn reset(&mut self) {
        self.smoother.reset();
        self.repetition.reset();
        self.speeds.clear();
        (self.candidate, self.candidate_frames) = (0.0, 0);
        (self.held, self.trust) = (0.0, 0.0);
    }

    /// Takes the next feature row, of any version.
    pub fn push<const COLUMNS: usize>(&mut self, row: &[f32; COLUMNS]) -> Tempo {
        let body = body_kinematics(row, &OFFSETS);
        let velocities = &body[VELOCITIES..];
        let mut moving = [0.0; SIZE + 1];
        for (slot, joint) in moving.as_chunks_mut::<3>().0.iter_mut().zip(ENDS) {
            *slot = std::array::from_fn(|axis| {
                let v = f64::from(velocities[3 * (joint - 1) + axis]);
                if v.abs() < MAX_SPEED { v } else { 0.0 }
            });
        }
        moving[SIZE] = moving[..SIZE].iter().map(|v| v * v).sum::<f64>() / ENDS.len() as f64;
        self.smoother.push(&mut moving);
        let speed = (moving[SIZE].max(0.0).sqrt() + SPEED_FLOOR).log2();
        if self.speeds.is_empty() {
            (self.usual_speed, self.recent_energy) = (speed, 0.0);
        }
        self.usual_speed += (speed - self.usual_speed) / USUAL_SPEED_FRAMES;
        self.speeds.push(&[speed]);
        let velocity = std::array::from_fn(|i| moving[i]);
        let energy = self.repetition.push(&velocity, speed - self.usual_speed);
        self.recent_energy += RECENT_GAIN * (energy - self.recent_energy);
        let found = self.find();
        self.follow(found);
        self.tempo()
    }

    /// Loads into the CPU caches what the next row needs.
    pub fn prewarm(&self) {
        black_box(self.repetition.touch());
    }

    /// The beat of the newest frame.
    #[must_use]
    pub fn tempo(&self) -> Tempo {
        let bpm = if self.period > 0.0 {
            60.0 * RATE / self.period
        } else {
            0.0
        };
        Tempo {
            bpm,
            phase: self.phase,
            trust: self.trust,
        }
    }

    /// The current period of the movement (frames), and how well it repeats.
    fn find(&self) -> Option<(f64, f64)> {
        let known = self.repetition.known_lags();
        let rests = self.recent_energy < REST_ENERGY.max(REST_RATIO * self.repetition.energy());
        if known < MIN_PERIOD + 2 || rests {
            return None;
        }
        let top = MAX_PERIOD.min(known - 2);
        let mut body = [0.0; MAX_PERIOD + 2];
        let mut all = [0.0; MAX_PERIOD + 2];
        for lag in MIN_PERIOD - 1..=top + 1 {
            let similarity = self.repetition.at(lag);
            body[lag] = similarity.plain.max(similarity.mirrored);
            all[lag] = 0.5 * (body[lag] + similarity.rhythm);
        }
        let is_peak =
            |lag: &usize| all[*lag] > 0.0 && all[*lag] > all[*lag - 1] && all[*lag] >= all[*lag + 1];
        let score = |lag: usize| all[lag] - OCTAVE_PENALTY * (lag as f64 / USUAL_PERIOD).log2().powi(2);
        let peaks = || (MIN_PERIOD..=top).filter(is_peak);
        let highest = peaks().map(score).reduce(f64::max)?;
        let lag = peaks().find(|&lag| score(lag) >= highest.min(PEAK_RATIO * highest))?;
        let mut period = lag as f64 + vertex(all[lag - 1], all[lag], all[lag + 1]);
        let similarity = self.repetition.at(lag);
        if similarity.mirrored > similarity.plain {
            period = self.with_strides(period, similarity.mirrored).unwrap_or(period);
        }
        // The vertex may lie half a frame beyond the last lag.
        Some((period.clamp(MIN_PERIOD as f64, MAX_PERIOD as f64), all[lag]))
    }

    /// Mean of the period of steps and half that of strides; `None` if the strides have no clear peak.
    fn with_strides(&self, period: f64, steps: f64) -> Option<f64> {
        let twice = (2.0 * period).round() as usize;
        let last = (twice + STRIDE_MARGIN + 1).min(self.repetition.known_lags().saturating_sub(1));
        let plain = |lag: usize| self.repetition.at(lag).plain;
        let peak = (twice - STRIDE_MARGIN + 1..last).find(|&lag| {
            plain(lag) > plain(lag - 1) && plain(lag) >= plain(lag + 1) && plain(lag) > STRIDE_RATIO * steps
        })?;
        let stride = peak as f64 + vertex(plain(peak - 1), plain(peak), plain(peak + 1));
        Some(0.5 * (period + 0.5 * stride))
    }

    /// Updates period and trust from what was found, and advances the phase.
    fn follow(&mut self, found: Option<(f64, f64)>) {
        let is_same = |a: f64, b: f64| a > 0.0 && (b / a).ln().abs() < SAME_PERIOD;
        let certainty = found.map_or(0.0, |(_, similarity)| {
            ((similarity - CHANCE) / (FULL - CHANCE)).clamp(0.0, 1.0)
        });
        let mut is_new_period = false;
        match found.filter(|_| certainty > 0.0) {
            Some((period, _)) if is_same(self.period, period) => {
                self.period += PERIOD_GAIN * (period - self.period);
                self.held = (self.held + 1.0).min(PERSISTENCE);
                self.candidate_frames = 0;
            }
            Some((period, _)) => {
                self.candidate_frames = if is_same(self.candidate, period) {
                    self.candidate_frames + 1
                } else {
                    1
                };
                self.candidate = period;
                self.held = (self.held - 2.0).max(0.0);
                is_new_period = self.candidate_frames >= PATIENCE;
                if is_new_period {
                    (self.period, self.candidate_frames) = (period, 0);
                    self.held = f64::from(PATIENCE);
                }
            }
            None => {
                self.candidate_frames = 0;
                self.held = (self.held - 2.0).max(0.0);
            }
        }
        self.trust = certainty * self.held / PERSISTENCE;
        if self.period > 0.0 {
            let step = 1.0 / self.period;
            let pull = match self.measured_phase() {
                _ if certainty <= 0.0 => 0.0,
                Some(phase) if is_new_period => (phase - self.phase - step).rem_euclid(1.0),
                Some(phase) => {
                    let difference = (phase - self.phase - step + 0.5).rem_euclid(1.0) - 0.5;
                    // The phase never goes back.
                    (PHASE_GAIN * difference).max(-0.9 * step)
                }
                None => 0.0,
            };
            self.phase = wrapped(self.phase + step + pull);
        }
    }

    /// Phase of the speed's rise and fall; `None` before one period is known, or if the speed is constant.
    fn measured_phase(&self) -> Option<f64> {
        let known = self.speeds.len().min(MAX_LAG + 1) as f64;
        let periods = PHASE_PERIODS.min((known / self.period).floor());
        let frames = (periods * self.period).round() as usize;
        if periods < 1.0 || frames as f64 > known {
            return None;
        }
        let mean = (0..frames).map(|ago| self.speeds.ago(ago)[0]).sum::<f64>() / frames as f64;
        let (turn_sin, turn_cos) = (TAU / self.period).sin_cos();
        let (mut sin, mut cos, mut real, mut imaginary) = (0.0, 1.0, 0.0, 0.0);
        for ago in 0..frames {
            let value = self.speeds.ago(ago)[0] - mean;
            real += value * cos;
            imaginary += value * sin;
            (cos, sin) = (cos * turn_cos - sin * turn_sin, sin * turn_cos + cos * turn_sin);
        }
        (real.hypot(imaginary) > 0.0).then(|| wrapped(imaginary.atan2(real) / TAU - ARRIVAL))
    }
}

/// Offset of the maximum of the parabola through three points; 0 if it has none.
fn vertex(before: f64, here: f64, after: f64) -> f64 {
    let bend = before - 2.0 * here + after;
    if bend < 0.0 {
        0.5 * (before - after) / bend
    } else {
        0.0
    }
}

/// Wraps a phase to 0..1. A tiny negative number is rounded to 1, which becomes 0.
fn wrapped(phase: f64) -> f64 {
    let within = phase.rem_euclid(1.0);
    if within < 1.0 { within } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tracker after it has found these periods for these numbers of frames.
    fn track(finds: &[(usize, Option<(f64, f64)>)]) -> TempoTracker {
        let mut tracker = TempoTracker::default();
        for &(times, found) in finds {
            (0..times).for_each(|_| tracker.follow(found));
        }
        tracker
    }

    #[test]
    fn trust_takes_a_second_and_is_lost_twice_as_fast() {
        let walk = Some((25.0, FULL));
        assert_eq!(track(&[(11, walk)]).tempo(), Tempo::default());
        let trust = |finds: &[_]| track(finds).trust;
        // It is taken after it has been found for twelve frames.
        for (frames, expected) in [(12, 0.24), (13, 0.26), (49, 0.98), (50, 1.0), (90, 1.0)] {
            assert!((trust(&[(frames, walk)]) - expected).abs() < 1e-12, "{frames}");
        }
        assert_eq!(trust(&[(50, walk), (1, None)]), 0.0);
        for (rest, expected) in [(1, 0.98), (10, 0.62), (24, 0.06), (25, 0.02), (60, 0.02)] {
            for other in [None, Some((50.0, CHANCE))] {
                let found = trust(&[(60, walk), (rest, other), (1, walk)]);
                assert!((found - expected).abs() < 1e-12, "{rest}: {found}");
            }
        }
        let half = Some((25.0, 0.5 * (FULL + CHANCE)));
        assert!((trust(&[(60, half)]) - 0.5).abs() < 1e-12);
        assert_eq!(trust(&[(60, Some((25.0, 1.0)))]), 1.0);
    }

    #[test]
    fn another_period_is_taken_when_it_stays() {
        let (walk, run, odd) = (Some((30.0, 1.0)), Some((20.0, 1.0)), Some((50.0, 1.0)));
        let bpm = |finds: &[_]| track(finds).tempo().bpm;
        assert_eq!(bpm(&[(60, walk)]), 100.0);
        assert_eq!(bpm(&[(60, walk), (11, run)]), 100.0);
        assert_eq!(bpm(&[(60, walk), (12, run)]), 150.0);
        for between in [walk, odd, None] {
            assert_eq!(bpm(&[(60, walk), (11, run), (1, between), (11, run)]), 100.0);
        }
        assert!((track(&[(60, walk), (12, run)]).trust - 0.24).abs() < 1e-12);
        assert!((track(&[(60, walk), (11, run)]).trust - 0.56).abs() < 1e-12);
        // A similar one is followed at once, by a fifth of the difference each frame.
        assert!((track(&[(60, walk), (1, Some((31.0, 1.0)))]).period - 30.2).abs() < 1e-12);
        assert!((track(&[(60, walk), (40, Some((28.0, 1.0)))]).period - 28.0).abs() < 1e-3);
    }

    #[test]
    fn the_phase_goes_on_by_itself_one_beat_a_period() {
        let mut tracker = track(&[(60, Some((25.0, 1.0)))]);
        let before = tracker.tempo();
        (0..10).for_each(|_| tracker.follow(None));
        let turned = (tracker.phase - before.phase).rem_euclid(1.0);
        assert!((turned - 0.4).abs() < 1e-9, "{turned}");
        assert!((before.after(10.0).phase - tracker.phase).abs() < 1e-9);
    }

    #[test]
    fn the_highest_of_a_parabola_is_found_between_its_points() {
        for highest in [-0.5, -0.2, 0.0, 0.3, 0.5] {
            let at = |x: f64| 3.0 - 2.0 * (x - highest).powi(2);
            assert!((vertex(at(-1.0), at(0.0), at(1.0)) - highest).abs() < 1e-12);
        }
        assert_eq!(vertex(1.0, 1.0, 1.0), 0.0);
        assert_eq!(vertex(2.0, 1.0, 3.0), 0.0, "a valley has no highest");
    }
}
