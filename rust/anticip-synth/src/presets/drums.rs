//! Drums: membranes (the modes of a circular one, Rossing 2000) and brushed noise.

use fundsp::audionode::AudioNode;

use super::{Controls, Instrument, scale};
use crate::clock::{Chance, Strewer, bell_rate};
use crate::control::FRAME;
use crate::modes::{Modes, Partial};
use crate::params::{Event, Parameter};
use crate::tone::{Band, Body, Tone, White, band};
use crate::voice::Settings;

const LEVEL: f32 = 0.97;
/// A shell, and skins that hiss.
const RESONANCE: Body = [[1_800.0, 0.5, -16.0], [9_000.0, 0.7, 14.0], [110.0, 0.8, 3.0]];
/// Modes of an ideal membrane over its lowest: ratio, amplitude, decay.
const MEMBRANE: [[f32; 3]; 6] = [
    [1.0, 1.0, 1.0],
    [1.59, 0.5, 0.6],
    [2.14, 0.4, 0.45],
    [2.3, 0.3, 0.4],
    [2.65, 0.25, 0.35],
    [2.92, 0.2, 0.3],
];
const BURSTS: usize = 8;

/// A burst of filtered noise.
struct Burst {
    band: Band,
    level: f32,
    rise: f32,
    fall: f32,
    weights: [f32; 2],
}

pub(crate) struct Drums {
    modes: Modes,
    bursts: [Burst; BURSTS],
    white: White,
    tone: Tone,
    strewer: Strewer,
    chance: Chance,
    last: f32,
    stroke: usize,
    sample_rate: f32,
}

impl Drums {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        let seed = settings.seed;
        Self {
            modes: Modes::new(sample_rate),
            bursts: core::array::from_fn(|_| Burst {
                band: band(sample_rate, 1_000.0, 1.0),
                level: 0.0,
                rise: 0.0,
                fall: 0.0,
                weights: [1.0; 2],
            }),
            white: White::new(seed ^ 0xd0),
            tone: Tone::new(sample_rate, &RESONANCE),
            strewer: Strewer::new(sample_rate),
            chance: Chance::new(seed ^ 0xd2),
            last: f32::NAN,
            stroke: 0,
            sample_rate: sample_rate as f32,
        }
    }

    fn drum(&mut self, frequency: f32, strength: f32, decay: f32, weights: [f32; 2]) {
        for [ratio, amplitude, share] in MEMBRANE {
            let partial = Partial {
                frequency: frequency * ratio,
                amplitude: 0.4 * strength * amplitude,
                decay: decay * share,
            };
            self.modes.strike(partial, weights);
        }
    }

    /// With none free it is not heard.
    fn noise(&mut self, centre: f32, q: f32, strength: f32, decay: f32, weights: [f32; 2]) {
        let Some(burst) = self.bursts.iter_mut().find(|burst| burst.level <= 0.0) else {
            return;
        };
        burst.band.reset();
        burst.band.set_center_q(centre.min(0.4 * self.sample_rate), q);
        burst.level = strength;
        burst.rise = 0.0;
        burst.fall = (-1.0 / (decay * self.sample_rate)).exp();
        burst.weights = weights;
    }

    /// The head of the drum that the pitch tunes, Hz.
    fn head(controls: &Controls) -> f32 {
        controls.harmony.frequency(controls.note())
    }

    fn side(&mut self) -> [f32; 2] {
        let side = self.chance.next();
        [1.4 - 0.8 * side, 0.6 + 0.8 * side]
    }
}

impl Instrument for Drums {
    fn reset(&mut self) {
        self.modes.reset();
        for burst in &mut self.bursts {
            burst.level = 0.0;
        }
        self.white.reset();
        self.tone.reset();
        self.strewer.reset();
        self.chance.reset();
        self.last = f32::NAN;
        self.stroke = 0;
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        let head = Self::head(controls);
        match event {
            Event::Onset => {
                self.drum(0.5 * head, 1.2 * strength, 0.28, [1.0; 2]);
                self.noise(1_400.0, 0.7, 0.9 * strength, 0.07, [1.0; 2]);
            }
            Event::Phrase => {
                self.drum(0.35 * head, 1.3 * strength, 0.6, [1.0; 2]);
                self.noise(5_200.0, 0.6, 0.8 * strength, 0.5, [1.0; 2]);
            }
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        let head = Self::head(controls);
        let bright = controls.brightness.to;
        let note = controls.note();
        if note != self.last {
            if !self.last.is_nan() {
                let side = self.side();
                self.drum(1.5 * head, 0.45, 0.14, side);
            }
            self.last = note;
        }
        let density = controls.target(Parameter::Density);
        if self.strewer.frame(bell_rate(density), &mut self.chance) {
            let side = self.side();
            let strength = 0.4 + 0.5 * self.chance.next();
            if self.chance.next() < 0.35 {
                self.drum(2.0 * head, 0.5 * strength, 0.1, side);
            }
            self.noise(3_000.0 * (1.7 * bright).exp2(), 1.2, strength, 0.035, side);
        }
        let pulse = controls.target(Parameter::Pulse);
        if let Some(weight) = controls.stroke {
            self.stroke += 1;
            if pulse > 0.02 {
                // Low on the first and third, a brush between.
                if self.stroke % 2 == 1 {
                    self.drum(0.75 * head, 1.1 * pulse * weight, 0.2, [1.0; 2]);
                } else {
                    self.noise(1_100.0, 0.8, pulse * weight, 0.06, [1.0; 2]);
                    self.drum(1.5 * head, 0.6 * pulse * weight, 0.1, [1.0; 2]);
                }
            }
        }
        *output = [[0.0; 2]; FRAME];
        self.modes.render(output);
        let rise = 1.0 / (0.001 * self.sample_rate);
        for y in output.iter_mut() {
            let white = self.white.next();
            for burst in self.bursts.iter_mut().filter(|burst| burst.level > 0.0) {
                burst.rise = (burst.rise + rise).min(1.0);
                let x = burst.band.filter_mono(white * burst.rise * burst.level);
                burst.level *= burst.fall;
                if burst.level < 1e-4 {
                    burst.level = 0.0;
                }
                y[0] += x * burst.weights[0];
                y[1] += x * burst.weights[1];
            }
        }
        self.tone.render(output, controls, controls.octaves(3.0, 4.5));
        scale(output, LEVEL);
    }
}
