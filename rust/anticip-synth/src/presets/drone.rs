//! A drone: partials of a low note and its fifth, each a slowly beating pair.

use super::{Controls, Instrument, scale};
use crate::clock::RandomTicks;
use crate::control::{FRAME, Line};
use crate::modes::{Modes, Partial};
use crate::params::{Event, Parameter, Settings};
use crate::tone::{Body, Tone};

/// Output gain.
const LEVEL: f32 = 0.95;
/// A chest, and a throat that amplifies overtones.
const RESONANCE: Body = [[550.0, 0.6, -20.0], [2_200.0, 0.9, 10.0], [120.0, 0.8, 3.0]];
const PARTIALS: usize = 20;

pub(crate) struct Drone {
    /// Phases of the pairs of partials, in turns.
    phases: [[f32; 2]; 2 * PARTIALS],
    modes: Modes,
    tone: Tone,
    ticks: RandomTicks,
    sample_s: f32,
}

impl Drone {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        let mut drone = Self {
            phases: [[0.0; 2]; 2 * PARTIALS],
            modes: Modes::new(sample_rate),
            tone: Tone::new(sample_rate, &RESONANCE),
            ticks: RandomTicks::new(sample_rate, settings.seed ^ 0xd209e),
            sample_s: (1.0 / sample_rate) as f32,
        };
        drone.reset();
        drone
    }

    /// Plays a high partial of the drone that rings for a moment.
    fn play_glint(&mut self, strength: f32, controls: &Controls) {
        let partial = 6.0 + (self.ticks.random.next() * 11.0).floor();
        let root = controls
            .harmony
            .frequency(controls.note() - controls.harmony.octave());
        let side = self.ticks.random.next();
        let decay = 0.7 - 0.55 * controls.target(Parameter::Density);
        for (multiple, amplitude) in [(1.0, 0.1), (2.0, 0.05), (3.0, 0.03)] {
            let partial = Partial {
                frequency: root * partial * multiple,
                amplitude: amplitude * strength,
                decay: decay / multiple,
            };
            self.modes.strike(partial, [1.5 - side, 0.5 + side]);
        }
    }
}

/// Sine of a phase in turns, -0.5..0.5 (Bhaskara's parabola with a correction, within 0.001).
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
        self.ticks.reset();
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        let glints = match event {
            Event::Onset => 3,
            Event::Phrase => 5,
        };
        for _ in 0..glints {
            self.play_glint(1.6 * strength, controls);
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        if self.ticks.note(controls) {
            self.play_glint(0.9, controls);
        }
        *output = [[0.0; 2]; FRAME];
        let octave = controls.harmony.octave();
        let [_, fifth, _] = controls.chord;
        let notes = [
            controls.frequency(Line::flat(-octave)),
            controls.frequency(fifth + Line::flat(-octave)),
        ];
        // Roughness increases the beating of the pairs.
        let beating = 0.12 + 3.0 * controls.roughness.to * controls.roughness.to;
        // The emphasised partial, by brightness: from the sixth to the last but one.
        let emphasised = controls.brightness.map(|b| 6.0 + (PARTIALS as f32 - 7.0) * b);
        for (n, pair) in self.phases.iter_mut().enumerate() {
            let k = (n % PARTIALS + 1) as f32;
            let note = notes[n / PARTIALS];
            let weight = if n < PARTIALS { 0.16 } else { 0.09 };
            let amplitude = emphasised.map(|emphasised| {
                let emphasis = 1.0 / (1.0 + (k - emphasised) * (k - emphasised));
                weight * (k.powf(-3.2) + 0.25 * emphasis)
            });
            let beat = beating * (0.5 + 0.21 * k);
            for (i, y) in output.iter_mut().enumerate() {
                let f = k * note.at(i);
                let a = amplitude.at(i);
                pair[0] += (f - beat) * self.sample_s;
                pair[1] += (f + beat) * self.sample_s;
                let (left, right) = (sine(pair[0] - pair[0].round()), sine(pair[1] - pair[1].round()));
                y[0] += a * (0.8 * left + 0.3 * right);
                y[1] += a * (0.3 * left + 0.8 * right);
            }
            *pair = pair.map(|p| p - p.round());
        }
        controls.apply_level(output);
        self.modes.render(output);
        self.tone.render(output, controls, controls.octaves(2.5, 5.0));
        scale(output, LEVEL);
    }
}
