//! Drums: tuned membranes and brushed noise.

use super::{Controls, Instrument, scale};
use crate::clock::RandomTicks;
use crate::control::FRAME;
use crate::kit::Kit;
use crate::manner::Following;
use crate::params::{Event, Parameter, Settings};
use crate::tone::{Body, Tone};

/// Output gain.
const LEVEL: f32 = 0.88;
/// A shell, and bright skins.
const RESONANCE: Body = [[1_800.0, 0.5, -16.0], [9_000.0, 0.7, 14.0], [110.0, 0.8, 3.0]];
/// Fast hands fill the middle, an open posture the lows; a steady pulse and smooth movement tune the shell
/// higher.
const FOLLOWING: Following = Following {
    octaves: [0.0, -0.3, 0.0, 0.35, 0.0],
    lifts: [
        [0.0, 0.0, 0.0, 0.0, 9.0],
        [0.0, 1.5, -2.0, 0.0, 2.0],
        [0.0, 0.0, 3.0, 0.0, 0.0],
    ],
    octave_gain: -1.25,
    lift_gains: [0.4, 0.18, 0.08],
};
/// Gain of a drum per octave of its pitch above the usual one, in octaves of level.
const DRUM_LEVEL_PER_OCTAVE: f32 = 0.3;
/// The usual pitch of a drum, Hz.
const USUAL_HZ: f32 = 165.0;
/// Gain of brushes over the range of the pitch, in octaves of level: the shell's dip moves up into their
/// band.
const BRUSH_LEVEL_SLOPE: f32 = 2.5;

pub(crate) struct Drums {
    kit: Kit,
    tone: Tone,
    ticks: RandomTicks,
    last_note: f32,
    stroke: usize,
}

impl Drums {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            kit: Kit::new(sample_rate, settings.seed ^ 0xd0),
            tone: Tone::new(sample_rate, &RESONANCE).following(FOLLOWING),
            ticks: RandomTicks::new(sample_rate, settings.seed ^ 0xd2),
            last_note: f32::NAN,
            stroke: 0,
        }
    }

    /// Strikes a drum tuned to `ratio` times the pitch.
    fn drum(&mut self, controls: &Controls, ratio: f32, strength: f32, decay: f32, weights: [f32; 2]) {
        let head = controls.harmony.frequency(controls.note());
        let compensation = (head / USUAL_HZ).powf(DRUM_LEVEL_PER_OCTAVE);
        self.kit
            .drum(ratio * head, compensation * strength, decay, weights);
    }

    /// Plays a brush: `band` is centre (Hz) and Q.
    fn brush(&mut self, controls: &Controls, band: [f32; 2], strength: f32, decay: f32, weights: [f32; 2]) {
        let compensation = (BRUSH_LEVEL_SLOPE * (controls.target(Parameter::Pitch) - 0.4)).exp2();
        self.kit
            .noise(band[0], band[1], compensation * strength, decay, weights);
    }

    fn random_pan(&mut self) -> [f32; 2] {
        let side = self.ticks.random.next();
        [1.4 - 0.8 * side, 0.6 + 0.8 * side]
    }
}

impl Instrument for Drums {
    fn reset(&mut self) {
        self.kit.reset();
        self.tone.reset();
        self.ticks.reset();
        self.last_note = f32::NAN;
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
        if note != self.last_note {
            if !self.last_note.is_nan() {
                let pan = self.random_pan();
                self.drum(controls, 1.5, 0.45, 0.14, pan);
            }
            self.last_note = note;
        }
        if self.ticks.note(controls) {
            let pan = self.random_pan();
            let strength = 0.4 + 0.5 * self.ticks.random.next();
            if self.ticks.random.next() < 0.35 {
                self.drum(controls, 2.0, 0.5 * strength, 0.1, pan);
            }
            self.brush(
                controls,
                [3_000.0 * (1.7 * bright).exp2(), 1.2],
                strength,
                0.035,
                pan,
            );
        }
        let pulse = controls.target(Parameter::Pulse);
        if let Some(weight) = controls.stroke {
            self.stroke += 1;
            if pulse > 0.02 {
                // Drum on the odd strokes, brush and high drum between.
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
