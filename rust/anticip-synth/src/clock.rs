//! The rhythm of `pulse` and the strewing of bells: both advance once a frame.

use fundsp::math::{rnd1, smooth3};

use crate::control::{FRAME, Line};
use crate::params::Parameter;
use crate::presets::Controls;

/// Strokes a second before a beat is told, and about as many after.
pub(crate) const STROKES: f32 = 4.0;
/// Time in which the rhythm finds to a beat, seconds.
const PULL: f32 = 0.2;
/// Weight of each of the eight strokes in a bar.
const ACCENTS: [f32; 8] = [1.0, 0.62, 0.8, 0.55, 0.92, 0.6, 0.84, 0.7];
/// Part of a stroke spent rising.
const ATTACK: f32 = 0.08;
/// Level to which a stroke of weight 1 falls.
const FLOOR: f32 = 0.04;

/// Envelope of the rhythm, 0..1.
#[derive(Clone)]
pub(crate) struct Beat {
    phase: f32,
    stroke: usize,
    /// Seconds of a frame, and strokes in it.
    seconds: f32,
    step: f32,
    /// Strokes by which the rhythm is behind the beat.
    behind: f32,
    value: f32,
    begun: bool,
}

impl Beat {
    pub(crate) fn new(sample_rate: f64) -> Self {
        let seconds = FRAME as f32 / sample_rate as f32;
        Self {
            phase: ATTACK,
            stroke: 0,
            seconds,
            step: STROKES * seconds,
            behind: 0.0,
            value: 1.0,
            begun: false,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.begun = false;
        self.phase = ATTACK;
        self.stroke = 0;
        self.step = STROKES * self.seconds;
        self.behind = 0.0;
        self.value = 1.0;
    }

    /// Follows a beat, which has come so far (0..1): its strokes are one, two or four to a beat, the first of them on it.
    pub(crate) fn follow(&mut self, bpm: f32, phase: f32) {
        let beats = bpm / 60.0;
        let strokes = (STROKES / beats).log2().round().clamp(0.0, 3.0).exp2();
        self.step = beats * strokes * self.seconds;
        let here = (self.stroke % strokes as usize) as f32 + self.phase;
        let half = 0.5 * strokes;
        self.behind = (phase * strokes - here + half).rem_euclid(strokes) - half;
    }

    pub(crate) fn frame(&mut self) -> Line {
        let from = self.value;
        // It hurries or tarries, but does not leap.
        let pull = (self.behind * self.seconds / PULL).clamp(-0.5 * self.step, self.step);
        self.behind -= pull;
        self.phase += self.step + pull;
        self.begun = self.phase >= 1.0;
        if self.begun {
            self.phase -= 1.0;
            self.stroke = (self.stroke + 1) % ACCENTS.len();
        }
        let weight = ACCENTS[self.stroke];
        self.value = if self.phase < ATTACK {
            let before = ACCENTS[(self.stroke + ACCENTS.len() - 1) % ACCENTS.len()] * FLOOR;
            before + (weight - before) * smooth3(self.phase / ATTACK)
        } else {
            weight * FLOOR.powf((self.phase - ATTACK) / (1.0 - ATTACK))
        };
        Line { from, to: self.value }
    }

    /// The weight of the stroke that began in the last frame.
    pub(crate) fn stroke(&self) -> Option<f32> {
        self.begun.then(|| ACCENTS[self.stroke])
    }
}

/// Seeded chance: a counter, hashed.
#[derive(Clone)]
pub(crate) struct Chance {
    seed: u64,
    counter: u64,
}

impl Chance {
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

/// Irregular ticks at a rate that may change at any time.
#[derive(Clone)]
pub(crate) struct Strewer {
    pub(crate) chance: Chance,
    left: f32,
    dt: f32,
}

impl Strewer {
    pub(crate) fn new(sample_rate: f64, seed: u64) -> Self {
        Self {
            chance: Chance::new(seed),
            left: 0.5,
            dt: (FRAME as f64 / sample_rate) as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.chance.reset();
        self.left = 0.5;
    }

    /// Whether a tick falls into this frame at `rate` ticks a second; gaps vary between 0.4 and 1.6 of the mean.
    pub(crate) fn frame(&mut self, rate: f32) -> bool {
        self.left -= rate * self.dt;
        if self.left > 0.0 {
            return false;
        }
        self.left += 0.4 + 1.2 * self.chance.next();
        true
    }

    /// The same of notes, by density: none below 0.02.
    pub(crate) fn note(&mut self, controls: &Controls) -> bool {
        let density = controls.target(Parameter::Density);
        let rate = if density < 0.02 {
            0.0
        } else {
            0.5 * (5.0 * density).exp2()
        };
        self.frame(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strewer_keeps_its_rate() {
        let mut strewer = Strewer::new(48_000.0, 3);
        let ticks = (0..75_000).filter(|_| strewer.frame(8.0)).count();
        assert!((780..=820).contains(&ticks), "{ticks}");
        assert!(!strewer.frame(0.0));
    }

    #[test]
    fn the_beat_is_followed() {
        for bpm in [50.0, 112.0, 170.0, 214.0] {
            let mut beat = Beat::new(48_000.0);
            let mut ons = Vec::new();
            let mut last = 0.0;
            for frame in 0..7_500 {
                let seconds = frame as f32 * 64.0 / 48_000.0;
                if frame % 15 == 0 {
                    beat.follow(bpm, (seconds * bpm / 60.0 + 0.3).fract());
                }
                let line = beat.frame();
                assert!((line.to - line.from).abs() < 0.25);
                if beat.phase < last {
                    ons.push((seconds * bpm / 60.0 + 0.3, beat.stroke));
                }
                last = beat.phase;
            }
            let settled: Vec<_> = ons.iter().filter(|(at, _)| *at > 0.06 * bpm).collect();
            assert!(settled.len() > 8, "{bpm}: {ons:?}");
            for (at, stroke) in settled {
                let off = (at * 4.0 - (at * 4.0).round()).abs();
                assert!(off < 0.06, "{bpm}: stroke {stroke} at beat {at}");
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
