//! The rhythm of `pulse` and the strewing of bells: both advance once a frame.

use fundsp::math::{rnd1, smooth3};

use crate::control::{FRAME, Line};

/// Strokes a second.
pub(crate) const STROKES: f32 = 4.0;
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
    step: f32,
    value: f32,
    begun: bool,
}

impl Beat {
    pub(crate) fn new(sample_rate: f64) -> Self {
        Self {
            phase: ATTACK,
            stroke: 0,
            step: STROKES * FRAME as f32 / sample_rate as f32,
            value: 1.0,
            begun: false,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.begun = false;
        self.phase = ATTACK;
        self.stroke = 0;
        self.value = 1.0;
    }

    pub(crate) fn frame(&mut self) -> Line {
        let from = self.value;
        self.phase += self.step;
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
    left: f32,
    dt: f32,
}

impl Strewer {
    pub(crate) fn new(sample_rate: f64) -> Self {
        Self {
            left: 0.5,
            dt: (FRAME as f64 / sample_rate) as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.left = 0.5;
    }

    /// Whether a tick falls into this frame at `rate` ticks a second; gaps vary between 0.4 and 1.6 of the mean.
    pub(crate) fn frame(&mut self, rate: f32, chance: &mut Chance) -> bool {
        self.left -= rate * self.dt;
        if self.left > 0.0 {
            return false;
        }
        self.left += 0.4 + 1.2 * chance.next();
        true
    }
}

/// Strewn notes a second at a density in 0..1; none below 0.02.
pub(crate) fn bell_rate(density: f32) -> f32 {
    if density < 0.02 {
        0.0
    } else {
        0.5 * (5.0 * density).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strewer_keeps_its_rate() {
        let mut strewer = Strewer::new(48_000.0);
        let mut chance = Chance::new(3);
        let ticks = (0..75_000).filter(|_| strewer.frame(8.0, &mut chance)).count();
        assert!((780..=820).contains(&ticks), "{ticks}");
        assert!(!strewer.frame(0.0, &mut chance));
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
