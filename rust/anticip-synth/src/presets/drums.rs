//! Drums: tuned membranes and brushed noise.

use super::{Controls, Instrument, scale};
use crate::clock::Strewer;
use crate::control::FRAME;
use crate::kit::Kit;
use crate::params::{Event, Parameter, Settings};
use crate::tone::{Body, Tone};

const LEVEL: f32 = 0.85;
/// A shell, and skins that hiss.
const RESONANCE: Body = [[1_800.0, 0.5, -16.0], [9_000.0, 0.7, 14.0], [110.0, 0.8, 3.0]];
/// What is made up in octaves of level: of a drum for an octave of its head above the usual one, Hz, and of what is brushed
/// for all of the pitch, with which the shell's dip moves up into it.
const BY_HEAD: f32 = 0.3;
const USUAL: f32 = 165.0;
const BRUSHED: f32 = 2.5;

pub(crate) struct Drums {
    kit: Kit,
    tone: Tone,
    strewer: Strewer,
    last: f32,
    stroke: usize,
}

impl Drums {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            kit: Kit::new(sample_rate, settings.seed ^ 0xd0),
            tone: Tone::new(sample_rate, &RESONANCE),
            strewer: Strewer::new(sample_rate, settings.seed ^ 0xd2),
            last: f32::NAN,
            stroke: 0,
        }
    }

    /// Strikes a drum tuned to `ratio` of what the pitch tunes.
    fn drum(&mut self, controls: &Controls, ratio: f32, strength: f32, decay: f32, weights: [f32; 2]) {
        let head = controls.harmony.frequency(controls.note());
        let even = (head / USUAL).powf(BY_HEAD);
        self.kit.drum(ratio * head, even * strength, decay, weights);
    }

    fn brush(&mut self, controls: &Controls, band: [f32; 2], strength: f32, decay: f32, weights: [f32; 2]) {
        let even = (BRUSHED * (controls.target(Parameter::Pitch) - 0.4)).exp2();
        self.kit.noise(band[0], band[1], even * strength, decay, weights);
    }

    fn side(&mut self) -> [f32; 2] {
        let side = self.strewer.chance.next();
        [1.4 - 0.8 * side, 0.6 + 0.8 * side]
    }
}

impl Instrument for Drums {
    fn reset(&mut self) {
        self.kit.reset();
        self.tone.reset();
        self.strewer.reset();
        self.last = f32::NAN;
        self.stroke = 0;
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        match event {
            Event::Onset => {
                self.drum(controls, 0.5, 1.2 * strength, 0.28, [1.0; 2]);
                self.brush(controls, [1_400.0, 0.7], 0.9 * strength, 0.07, [1.0; 2]);
            }
            Event::Phrase => {
                self.drum(controls, 0.35, 1.3 * strength, 0.6, [1.0; 2]);
                self.brush(controls, [5_200.0, 0.6], 0.8 * strength, 0.5, [1.0; 2]);
            }
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        let bright = controls.brightness.to;
        let note = controls.note();
        if note != self.last {
            if !self.last.is_nan() {
                let side = self.side();
                self.drum(controls, 1.5, 0.45, 0.14, side);
            }
            self.last = note;
        }
        if self.strewer.note(controls) {
            let side = self.side();
            let strength = 0.4 + 0.5 * self.strewer.chance.next();
            if self.strewer.chance.next() < 0.35 {
                self.drum(controls, 2.0, 0.5 * strength, 0.1, side);
            }
            self.brush(
                controls,
                [3_000.0 * (1.7 * bright).exp2(), 1.2],
                strength,
                0.035,
                side,
            );
        }
        let pulse = controls.target(Parameter::Pulse);
        if let Some(weight) = controls.stroke {
            self.stroke += 1;
            if pulse > 0.02 {
                // Low on the first and third, a brush between.
                if self.stroke % 2 == 1 {
                    self.drum(controls, 0.75, 1.1 * pulse * weight, 0.2, [1.0; 2]);
                } else {
                    self.brush(controls, [1_100.0, 0.8], pulse * weight, 0.06, [1.0; 2]);
                    self.drum(controls, 1.5, 0.6 * pulse * weight, 0.1, [1.0; 2]);
                }
            }
        }
        self.kit.render(output);
        self.tone.render(output, controls, controls.octaves(3.0, 4.5));
        scale(output, LEVEL);
    }
}
