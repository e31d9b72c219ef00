//! The tempo that a body keeps: period, phase and trust of its beat, frame by frame.
//!
//! The period is where the running autocorrelation of the movement of hands, toes and head (as it is, mirrored, and of
//! its speed) is highest; among peaks about as high the shortest counts. An oscillator of that period is pulled to the
//! phase of the speed's rise and fall (its Fourier coefficient at the period, over the last two), so that phase 0 is
//! where strokes arrive: where the onsets of the motion model lie, of steps and of any other stroke.

mod repetition;

use std::f64::consts::TAU;
use std::hint::black_box;

use crate::canonical::OFFSETS;
use crate::features::RATE;
use crate::kinematics::{ENDS, TOO_FAST, VELOCITIES, body_kinematics};
use crate::twin::{LowPass, Ring};
use repetition::{LONGEST, REST, Repetition, SIZE};

/// The shortest and the longest period, frames: 250 (a sprint) to 50 beats a minute.
const FASTEST: usize = 12;
const SLOWEST: usize = 60;
/// Delay of the smoother, seconds.
const DELAY_S: f64 = 0.04;
/// m/s added to the speed before octaves are counted.
const FLOOR: f64 = 0.1;
/// Frames over which the usual speed is forgotten.
const USUAL: f64 = 60.0;
/// How much a period counts less an octave away from this one (frames, 120 beats a minute).
const USUAL_PERIOD: f64 = 25.0;
const OCTAVE: f64 = 0.1;
/// The shortest period with a peak of this part of the highest is the one.
const AS_HIGH: f64 = 0.75;
/// Where the strides' peak is this part of the steps', both are heard for the period; farther off (frames) it is none.
const STRIDES: f64 = 0.8;
const BESIDE: usize = 4;
/// Periods so near to each other are the same (their logarithm).
const SAME: f64 = 0.08;
/// Another period is taken when it has been found for so many frames; the same is followed by this part a frame.
const PATIENCE: u32 = 12;
const FOLLOW: f64 = 0.2;
/// From the highest of the speed's rise and fall to the arrival of the stroke, in beats, what the smoother delays included.
const ARRIVAL: f64 = 0.14;
/// How many periods the phase is measured over, and what part of a difference is made up for in a frame.
const PERIODS: f64 = 2.0;
const PULL: f64 = 0.15;
/// Of the energy of the last second and more, the part below which a body has come to rest; and how fast that is seen.
const RESTING: f64 = 0.25;
const SOON: f64 = 0.04;
/// Likeness that means nothing, and that is all that can be had of a body.
const CHANCE: f64 = 0.25;
const SURE: f64 = 0.75;
/// Frames until a period that stays is fully trusted; it is lost twice as fast.
const PERSISTENCE: f64 = 50.0;

/// The beat as it stands in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tempo {
    /// Beats a minute; the last that were known, 0 before any.
    pub bpm: f64,
    /// 0 at the beat, towards 1 before the next.
    pub phase: f64,
    /// 0: the body keeps no beat; 1: it does, and has for a second.
    pub trust: f64,
}

impl Tempo {
    /// The same beat so many frames later.
    #[must_use]
    pub fn after(self, frames: f64) -> Self {
        Self {
            phase: wrapped(self.phase + frames * self.bpm / (60.0 * RATE)),
            ..self
        }
    }
}

/// Follows the beat of feature rows; nothing is allocated after construction.
#[derive(Debug, Clone)]
pub struct TempoTracker {
    smoother: LowPass,
    repetition: Repetition,
    /// The speed of the ends, octaves.
    curve: Ring<1>,
    usual: f64,
    /// Energy of the last half second.
    recent: f64,
    /// Frames, 0 before the first.
    period: f64,
    phase: f64,
    /// Another period that is found, and for how many frames.
    other: f64,
    found: u32,
    /// Frames that the period has held, up to [`PERSISTENCE`].
    held: f64,
    trust: f64,
}

impl Default for TempoTracker {
    /// Of a stream that begins.
    fn default() -> Self {
        Self {
            smoother: LowPass::new(DELAY_S, 2, SIZE + 1),
            repetition: Repetition::new(),
            curve: Ring::new(LONGEST + 1),
            usual: 0.0,
            recent: 0.0,
            period: 0.0,
            phase: 0.0,
            other: 0.0,
            found: 0,
            held: 0.0,
            trust: 0.0,
        }
    }
}

impl TempoTracker {
    /// The next frame is a first frame again; the last beats a minute are held, without trust.
    pub fn reset(&mut self) {
        self.smoother.reset();
        self.repetition.reset();
        self.curve.clear();
        (self.other, self.found, self.held, self.trust) = (0.0, 0, 0.0, 0.0);
    }

    /// Takes the next feature row, of any version.
    pub fn push<const COLUMNS: usize>(&mut self, row: &[f32; COLUMNS]) -> Tempo {
        let body = body_kinematics(row, &OFFSETS);
        let velocities = &body[VELOCITIES..];
        let mut moving = [0.0; SIZE + 1];
        for (slot, joint) in moving.as_chunks_mut::<3>().0.iter_mut().zip(ENDS) {
            *slot = std::array::from_fn(|axis| {
                let v = f64::from(velocities[3 * (joint - 1) + axis]);
                if v.abs() < TOO_FAST { v } else { 0.0 }
            });
        }
        moving[SIZE] = moving[..SIZE].iter().map(|v| v * v).sum::<f64>() / ENDS.len() as f64;
        self.smoother.push(&mut moving);
        let speed = (moving[SIZE].max(0.0).sqrt() + FLOOR).log2();
        if self.curve.is_empty() {
            (self.usual, self.recent) = (speed, 0.0);
        }
        self.usual += (speed - self.usual) / USUAL;
        self.curve.push(&[speed]);
        let velocity = std::array::from_fn(|i| moving[i]);
        let energy = self.repetition.push(&velocity, speed - self.usual);
        self.recent += SOON * (energy - self.recent);
        let found = self.find();
        self.follow(found);
        self.tempo()
    }

    /// Brings into the caches what the next row needs; nothing changes.
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

    /// The period that the movement has now (frames), and how well it repeats.
    fn find(&self) -> Option<(f64, f64)> {
        let known = self.repetition.known();
        let rests = self.recent < REST.max(RESTING * self.repetition.energy());
        if known < FASTEST + 2 || rests {
            return None;
        }
        let top = SLOWEST.min(known - 2);
        let mut body = [0.0; SLOWEST + 2];
        let mut all = [0.0; SLOWEST + 2];
        for lag in FASTEST - 1..=top + 1 {
            let like = self.repetition.at(lag);
            body[lag] = like.plain.max(like.mirrored);
            all[lag] = 0.5 * (body[lag] + like.rhythm);
        }
        let is_peak =
            |lag: &usize| all[*lag] > 0.0 && all[*lag] > all[*lag - 1] && all[*lag] >= all[*lag + 1];
        let score = |lag: usize| all[lag] - OCTAVE * (lag as f64 / USUAL_PERIOD).log2().powi(2);
        let peaks = || (FASTEST..=top).filter(is_peak);
        let highest = peaks().map(score).reduce(f64::max)?;
        let lag = peaks().find(|&lag| score(lag) >= highest.min(AS_HIGH * highest))?;
        let mut period = lag as f64 + vertex(all[lag - 1], all[lag], all[lag + 1]);
        let like = self.repetition.at(lag);
        if like.mirrored > like.plain {
            period = self.with_strides(period, like.mirrored).unwrap_or(period);
        }
        Some((period, all[lag]))
    }

    /// The period of steps, with half that of the strides where these are clear.
    fn with_strides(&self, period: f64, steps: f64) -> Option<f64> {
        let twice = (2.0 * period).round() as usize;
        let last = (twice + BESIDE + 1).min(self.repetition.known().saturating_sub(1));
        let plain = |lag: usize| self.repetition.at(lag).plain;
        let peak = (twice - BESIDE + 1..last).find(|&lag| {
            plain(lag) > plain(lag - 1) && plain(lag) >= plain(lag + 1) && plain(lag) > STRIDES * steps
        })?;
        let stride = peak as f64 + vertex(plain(peak - 1), plain(peak), plain(peak + 1));
        Some(0.5 * (period + 0.5 * stride))
    }

    /// Takes in what was found, and turns the oscillator.
    fn follow(&mut self, found: Option<(f64, f64)>) {
        let near = |a: f64, b: f64| a > 0.0 && (b / a).ln().abs() < SAME;
        let sure = found.map_or(0.0, |(_, like)| {
            ((like - CHANCE) / (SURE - CHANCE)).clamp(0.0, 1.0)
        });
        let mut anew = false;
        match found.filter(|_| sure > 0.0) {
            Some((period, _)) if near(self.period, period) => {
                self.period += FOLLOW * (period - self.period);
                self.held = (self.held + 1.0).min(PERSISTENCE);
                self.found = 0;
            }
            Some((period, _)) => {
                self.found = if near(self.other, period) {
                    self.found + 1
                } else {
                    1
                };
                self.other = period;
                self.held = (self.held - 2.0).max(0.0);
                anew = self.found >= PATIENCE;
                if anew {
                    (self.period, self.found) = (period, 0);
                    self.held = f64::from(PATIENCE);
                }
            }
            None => {
                self.found = 0;
                self.held = (self.held - 2.0).max(0.0);
            }
        }
        self.trust = sure * self.held / PERSISTENCE;
        if self.period > 0.0 {
            let step = 1.0 / self.period;
            let pull = match self.measured() {
                _ if sure <= 0.0 => 0.0,
                Some(phase) if anew => (phase - self.phase - step).rem_euclid(1.0),
                Some(phase) => {
                    let away = (phase - self.phase - step + 0.5).rem_euclid(1.0) - 0.5;
                    // Time does not go back.
                    (PULL * away).max(-0.9 * step)
                }
                None => 0.0,
            };
            self.phase = wrapped(self.phase + step + pull);
        }
    }

    /// The phase of the speed's rise and fall; `None` before one period is known, or where it is flat.
    fn measured(&self) -> Option<f64> {
        let known = self.curve.len().min(LONGEST + 1) as f64;
        let periods = PERIODS.min((known / self.period).floor());
        let frames = (periods * self.period).round() as usize;
        if periods < 1.0 || frames as f64 > known {
            return None;
        }
        let mean = (0..frames).map(|ago| self.curve.ago(ago)[0]).sum::<f64>() / frames as f64;
        let (turn_sin, turn_cos) = (TAU / self.period).sin_cos();
        let (mut sin, mut cos, mut real, mut imaginary) = (0.0, 1.0, 0.0, 0.0);
        for ago in 0..frames {
            let value = self.curve.ago(ago)[0] - mean;
            real += value * cos;
            imaginary += value * sin;
            (cos, sin) = (cos * turn_cos - sin * turn_sin, sin * turn_cos + cos * turn_sin);
        }
        (real.hypot(imaginary) > 0.0).then(|| wrapped(imaginary.atan2(real) / TAU - ARRIVAL))
    }
}

/// Where between three points the parabola through them is highest.
fn vertex(before: f64, here: f64, after: f64) -> f64 {
    let bend = before - 2.0 * here + after;
    if bend < 0.0 {
        0.5 * (before - after) / bend
    } else {
        0.0
    }
}

/// Within 0..1; 1 itself, to which a number just under 0 is rounded, is 0.
fn wrapped(phase: f64) -> f64 {
    let within = phase.rem_euclid(1.0);
    if within < 1.0 { within } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tracker that has found the same things so often.
    fn tracked(finds: &[(usize, Option<(f64, f64)>)]) -> TempoTracker {
        let mut tracker = TempoTracker::default();
        for &(times, found) in finds {
            (0..times).for_each(|_| tracker.follow(found));
        }
        tracker
    }

    #[test]
    fn trust_takes_a_second_and_is_lost_twice_as_fast() {
        let walk = Some((25.0, SURE));
        assert_eq!(tracked(&[(11, walk)]).tempo(), Tempo::default());
        let trust = |finds: &[_]| tracked(finds).trust;
        // It has been found for twelve frames when it is taken.
        for (frames, wanted) in [(12, 0.24), (13, 0.26), (49, 0.98), (50, 1.0), (90, 1.0)] {
            assert!((trust(&[(frames, walk)]) - wanted).abs() < 1e-12, "{frames}");
        }
        assert_eq!(trust(&[(50, walk), (1, None)]), 0.0);
        for (rest, wanted) in [(1, 0.98), (10, 0.62), (24, 0.06), (25, 0.02), (60, 0.02)] {
            for other in [None, Some((50.0, CHANCE))] {
                let found = trust(&[(60, walk), (rest, other), (1, walk)]);
                assert!((found - wanted).abs() < 1e-12, "{rest}: {found}");
            }
        }
        let half = Some((25.0, 0.5 * (SURE + CHANCE)));
        assert!((trust(&[(60, half)]) - 0.5).abs() < 1e-12);
        assert_eq!(trust(&[(60, Some((25.0, 1.0)))]), 1.0);
    }

    #[test]
    fn another_period_is_taken_when_it_stays() {
        let (walk, run, odd) = (Some((30.0, 1.0)), Some((20.0, 1.0)), Some((50.0, 1.0)));
        let bpm = |finds: &[_]| tracked(finds).tempo().bpm;
        assert_eq!(bpm(&[(60, walk)]), 100.0);
        assert_eq!(bpm(&[(60, walk), (11, run)]), 100.0);
        assert_eq!(bpm(&[(60, walk), (12, run)]), 150.0);
        for between in [walk, odd, None] {
            assert_eq!(bpm(&[(60, walk), (11, run), (1, between), (11, run)]), 100.0);
        }
        assert!((tracked(&[(60, walk), (12, run)]).trust - 0.24).abs() < 1e-12);
        assert!((tracked(&[(60, walk), (11, run)]).trust - 0.56).abs() < 1e-12);
        // One nearby is followed at once, a fifth of the way a frame.
        assert!((tracked(&[(60, walk), (1, Some((31.0, 1.0)))]).period - 30.2).abs() < 1e-12);
        assert!((tracked(&[(60, walk), (40, Some((28.0, 1.0)))]).period - 28.0).abs() < 1e-3);
    }

    #[test]
    fn the_phase_goes_on_by_itself_one_beat_a_period() {
        let mut tracker = tracked(&[(60, Some((25.0, 1.0)))]);
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
