//! The rhythm of `pulse` and random note onsets; both advance once per frame.

use fundsp::math::{rnd1, smooth3};

use crate::control::{FRAME, Line, frame_seconds};
use crate::params::Parameter;
use crate::presets::Controls;
use crate::tone::equal_power;

/// Strokes per second before a tempo is known, and about as many afterwards.
pub(crate) const STROKES_HZ: f32 = 4.0;
/// Time constant with which the rhythm locks to a beat, seconds.
const LOCK_S: f32 = 0.2;
/// Weight of each of the eight strokes in a bar.
const STROKE_WEIGHTS: [f32; 8] = [1.0, 0.62, 0.8, 0.55, 0.92, 0.6, 0.84, 0.7];
/// Fraction of a stroke in which it rises.
const ATTACK: f32 = 0.08;
/// Level to which a stroke of weight 1 decays.
const FLOOR: f32 = 0.04;

/// Envelope of the rhythm, 0..1.
#[derive(Clone)]
pub(crate) struct Beat {
    phase: f32,
    stroke: usize,
    /// Duration of a frame, seconds.
    frame_s: f32,
    /// Strokes per frame.
    step: f32,
    /// Strokes by which the rhythm is behind the beat.
    behind: f32,
    value: f32,
    is_new_stroke: bool,
}

impl Beat {
    pub(crate) fn new(sample_rate: f64) -> Self {
        let frame_s = FRAME as f32 / sample_rate as f32;
        Self {
            phase: ATTACK,
            stroke: 0,
            frame_s,
            step: STROKES_HZ * frame_s,
            behind: 0.0,
            value: 1.0,
            is_new_stroke: false,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.is_new_stroke = false;
        self.phase = ATTACK;
        self.stroke = 0;
        self.step = STROKES_HZ * self.frame_s;
        self.behind = 0.0;
        self.value = 1.0;
    }

    /// Follows a beat at its current phase (0..1), with one, two, four or eight strokes per beat, the first
    /// on the beat.
    pub(crate) fn follow(&mut self, bpm: f32, phase: f32) {
        let beats = bpm / 60.0;
        let strokes = (STROKES_HZ / beats).log2().round().clamp(0.0, 3.0).exp2();
        self.step = beats * strokes * self.frame_s;
        let position = (self.stroke % strokes as usize) as f32 + self.phase;
        let half = 0.5 * strokes;
        self.behind = (phase * strokes - position + half).rem_euclid(strokes) - half;
    }

    pub(crate) fn frame(&mut self) -> Line {
        let from = self.value;
        // Speeds up or slows down to catch up, but never jumps.
        let correction = (self.behind * self.frame_s / LOCK_S).clamp(-0.5 * self.step, self.step);
        self.behind -= correction;
        self.phase += self.step + correction;
        self.is_new_stroke = self.phase >= 1.0;
        if self.is_new_stroke {
            self.phase -= 1.0;
            self.stroke = (self.stroke + 1) % STROKE_WEIGHTS.len();
        }
        let weight = STROKE_WEIGHTS[self.stroke];
        self.value = if self.phase < ATTACK {
            let last_level =
                STROKE_WEIGHTS[(self.stroke + STROKE_WEIGHTS.len() - 1) % STROKE_WEIGHTS.len()] * FLOOR;
            last_level + (weight - last_level) * smooth3(self.phase / ATTACK)
        } else {
            weight * FLOOR.powf((self.phase - ATTACK) / (1.0 - ATTACK))
        };
        Line { from, to: self.value }
    }

    /// The weight of the stroke that began in the last frame, if one did.
    pub(crate) fn new_stroke(&self) -> Option<f32> {
        self.is_new_stroke.then(|| STROKE_WEIGHTS[self.stroke])
    }
}

/// Seeded random numbers: a hashed counter.
#[derive(Clone)]
pub(crate) struct Random {
    seed: u64,
    counter: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }

    pub(crate) fn reset(&mut self) {
        self.counter = 0;
    }

    /// Uniform in 0..1.
    pub(crate) fn next(&mut self) -> f32 {
        self.counter += 1;
        rnd1(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(self.counter)) as f32
    }
}

/// Random ticks at a rate that may change at any time.
#[derive(Clone)]
pub(crate) struct RandomTicks {
    pub(crate) random: Random,
    countdown: f32,
    dt: f32,
}

impl RandomTicks {
    pub(crate) fn new(sample_rate: f64, seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            countdown: 0.5,
            dt: frame_seconds(sample_rate),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.random.reset();
        self.countdown = 0.5;
    }

    /// Whether a tick falls into this frame, at `rate` ticks per second; intervals vary between 0.4 and 1.6
    /// of the mean.
    pub(crate) fn frame(&mut self, rate: f32) -> bool {
        self.countdown -= rate * self.dt;
        if self.countdown > 0.0 {
            return false;
        }
        self.countdown += 0.4 + 1.2 * self.random.next();
        true
    }

    /// Whether a note falls into this frame, at a rate given by density; none below 0.02.
    pub(crate) fn note(&mut self, controls: &Controls) -> bool {
        let density = controls.target(Parameter::Density);
        let rate = if density < 0.02 {
            0.0
        } else {
            0.5 * (5.0 * density).exp2()
        };
        self.frame(rate)
    }

    /// Gains of a random position around the pan; the closer that is to a side, the narrower the spread.
    pub(crate) fn random_pan(&mut self, controls: &Controls, spread: f32) -> [f32; 2] {
        let pan = controls.pan.to;
        let offset = spread * (self.random.next() - 0.5) * (1.0 - (2.0 * pan - 1.0).abs());
        equal_power(0.5 + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ticks_keep_their_rate() {
        let mut ticks = RandomTicks::new(48_000.0, 3);
        let count = (0..75_000).filter(|_| ticks.frame(8.0)).count();
        assert!((780..=820).contains(&count), "{count}");
        assert!(!ticks.frame(0.0));
    }

    #[test]
    fn the_beat_is_followed() {
        for bpm in [50.0, 112.0, 170.0, 214.0] {
            let mut beat = Beat::new(48_000.0);
            let mut onsets = Vec::new();
            let mut last = 0.0;
            for frame in 0..7_500 {
                let seconds = frame as f32 * 64.0 / 48_000.0;
                if frame % 15 == 0 {
                    beat.follow(bpm, (seconds * bpm / 60.0 + 0.3).fract());
                }
                let line = beat.frame();
                assert!((line.to - line.from).abs() < 0.25);
                if beat.phase < last {
                    onsets.push((seconds * bpm / 60.0 + 0.3, beat.stroke));
                }
                last = beat.phase;
            }
            let settled: Vec<_> = onsets.iter().filter(|(at, _)| *at > 0.06 * bpm).collect();
            assert!(settled.len() > 8, "{bpm}: {onsets:?}");
            for (at, stroke) in settled {
                let distance = (at * 4.0 - (at * 4.0).round()).abs();
                assert!(distance < 0.06, "{bpm}: stroke {stroke} at beat {at}");
                assert!(
                    stroke % 8 != 0 || (at - at.round()).abs() < 0.02,
                    "{bpm}: the first is on the beat, {at}"
                );
            }
        }
    }

    #[test]
    fn the_beat_never_leaps() {
        let mut beat = Beat::new(48_000.0);
        for _ in 0..10_000 {
            let line = beat.frame();
            assert!((line.to - line.from).abs() < 0.13);
            assert!((0.0..=1.0).contains(&line.to));
        }
    }
}
