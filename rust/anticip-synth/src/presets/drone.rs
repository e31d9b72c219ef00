//! A drone: partials of a low note and its fifth, each a pair that beats slowly.

use super::{Controls, Instrument, scale};
use crate::clock::Strewer;
use crate::control::{FRAME, Line};
use crate::modes::{Modes, Partial};
use crate::params::{Event, Parameter, Settings};
use crate::tone::{Body, Tone};

const LEVEL: f32 = 0.95;
/// A chest, and a throat that sings overtones.
const RESONANCE: Body = [[550.0, 0.6, -20.0], [2_200.0, 0.9, 10.0], [120.0, 0.8, 3.0]];
const PARTIALS: usize = 20;

pub(crate) struct Drone {
    /// Phases of the pairs of partials, in turns.
    phases: [[f32; 2]; 2 * PARTIALS],
    modes: Modes,
    tone: Tone,
    strewer: Strewer,
    turn: f32,
}

impl Drone {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        let mut drone = Self {
            phases: [[0.0; 2]; 2 * PARTIALS],
            modes: Modes::new(sample_rate),
            tone: Tone::new(sample_rate, &RESONANCE),
            strewer: Strewer::new(sample_rate, settings.seed ^ 0xd209e),
            turn: (1.0 / sample_rate) as f32,
        };
        drone.reset();
        drone
    }

    /// A high partial of the drone that rings for a moment.
    fn glint(&mut self, strength: f32, controls: &Controls) {
        let partial = 6.0 + (self.strewer.chance.next() * 11.0).floor();
        let root = controls
            .harmony
            .frequency(controls.note() - controls.harmony.octave());
        let side = self.strewer.chance.next();
        let decay = 0.7 - 0.55 * controls.target(Parameter::Density);
        for (above, amplitude) in [(1.0, 0.1), (2.0, 0.05), (3.0, 0.03)] {
            let partial = Partial {
                frequency: root * partial * above,
                amplitude: amplitude * strength,
                decay: decay / above,
            };
            self.modes.strike(partial, [1.5 - side, 0.5 + side]);
        }
    }
}

/// Sine of a phase in turns, -0.5..0.5 (Bhaskara's parabola, corrected: within 0.001).
#[inline]
fn sine(turns: f32) -> f32 {
    let x = 8.0 * turns - 16.0 * turns * turns.abs();
    0.225 * (x * x.abs() - x) + x
}

impl Instrument for Drone {
    fn reset(&mut self) {
        for (n, pair) in self.phases.iter_mut().enumerate() {
            *pair = [0.618 * n as f32, 0.618 * n as f32 + 0.37].map(|p| p - p.round());
        }
        self.modes.reset();
        self.tone.reset();
        self.strewer.reset();
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        let glints = match event {
            Event::Onset => 3,
            Event::Phrase => 5,
        };
        for _ in 0..glints {
            self.glint(1.6 * strength, controls);
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        if self.strewer.note(controls) {
            self.glint(0.9, controls);
        }
        *output = [[0.0; 2]; FRAME];
        let octave = controls.harmony.octave();
        let [_, fifth, _] = controls.chord;
        let notes = [
            controls.frequency(Line::flat(-octave)),
            controls.frequency(fifth + Line::flat(-octave)),
        ];
        // Roughness draws the pairs apart, brightness says which partial sings.
        let apart = 0.12 + 3.0 * controls.roughness.to * controls.roughness.to;
        // The partial that the throat sings out: from the sixth to the last but one.
        let sung = controls.brightness.map(|b| 6.0 + (PARTIALS as f32 - 7.0) * b);
        for (n, pair) in self.phases.iter_mut().enumerate() {
            let k = (n % PARTIALS + 1) as f32;
            let note = notes[n / PARTIALS];
            let weight = if n < PARTIALS { 0.16 } else { 0.09 };
            let amplitude = sung.map(|sung| {
                let near = 1.0 / (1.0 + (k - sung) * (k - sung));
                weight * (k.powf(-3.2) + 0.25 * near)
            });
            let beat = apart * (0.5 + 0.21 * k);
            for (i, y) in output.iter_mut().enumerate() {
                let f = k * note.at(i);
                let a = amplitude.at(i);
                pair[0] += (f - beat) * self.turn;
                pair[1] += (f + beat) * self.turn;
                let (left, right) = (sine(pair[0] - pair[0].round()), sine(pair[1] - pair[1].round()));
                y[0] += a * (0.8 * left + 0.3 * right);
                y[1] += a * (0.3 * left + 0.8 * right);
            }
            *pair = pair.map(|p| p - p.round());
        }
        controls.swing(output);
        self.modes.render(output);
        self.tone.render(output, controls, controls.octaves(2.5, 5.0));
        scale(output, LEVEL);
    }
}
