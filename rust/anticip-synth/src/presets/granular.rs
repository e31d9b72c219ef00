//! Grains of recorded sounds, chosen by how they sound (Schwarz 2006).

use std::sync::Arc;

use super::{Controls, Instrument, scale};
use crate::clock::Strewer;
use crate::control::FRAME;
use crate::error::SynthError;
use crate::params::{Event, Parameter, Settings};
use crate::samples::{Piece, Samples, transposed};
use crate::tone::{Body, Tone};

const LEVEL: f32 = 0.57;
/// The sounds have bodies of their own.
const RESONANCE: Body = [[200.0, 0.7, 0.0], [1_000.0, 0.7, 0.0], [5_000.0, 0.7, 0.0]];
const POOL: usize = 40;
/// Time in which a struck grain rises, seconds.
const ATTACK: f32 = 0.003;

/// A grain: where it reads, how fast, and how far it is through its window.
#[derive(Clone, Copy, Default)]
struct Grain {
    /// Samples that it has sounded for: counted, for small steps in a long sound add up to another place.
    passed: f32,
    /// A position in the whole folder is no exact `f32`.
    start: usize,
    speed: f32,
    done: f32,
    step: f32,
    /// Share of the window that rises.
    rise: f32,
    weights: [f32; 2],
    left: usize,
}

pub(crate) struct Granular {
    samples: Option<Arc<Samples>>,
    pool: [Grain; POOL],
    tone: Tone,
    strewer: Strewer,
    sample_rate: f32,
}

impl Granular {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            samples: settings.samples.clone(),
            pool: [Grain::default(); POOL],
            tone: Tone::new(sample_rate, &RESONANCE),
            strewer: Strewer::new(sample_rate, settings.seed ^ 0x6_2a1),
            sample_rate: sample_rate as f32,
        }
    }

    /// With none free it is not heard.
    fn grain(&mut self, piece: Piece, start: usize, speed: f32, window: [f32; 2], weights: [f32; 2]) {
        let Some(grain) = self.pool.iter_mut().find(|grain| grain.left == 0) else {
            return;
        };
        let [seconds, rise] = window;
        // The four points of the interpolation lie inside the sound.
        let room = (piece.end - start).saturating_sub(4) as f32 / speed;
        let samples = (seconds * self.sample_rate).min(room);
        if samples < 64.0 {
            return;
        }
        *grain = Grain {
            passed: 0.0,
            start,
            speed,
            done: 0.0,
            step: 1.0 / samples,
            rise,
            weights: weights.map(|w| w * piece.gain),
            left: samples as usize,
        };
    }

    /// A grain of the cloud, on a note of the chord.
    fn strew(&mut self, controls: &Controls, seconds: f32, amplitude: f32) {
        let Some(samples) = self.samples.clone() else {
            return;
        };
        let voice = (self.strewer.chance.next() * 3.0) as usize % 3;
        let lift = (self.strewer.chance.next() * 2.0).floor() * controls.harmony.octave();
        let frequency = controls
            .harmony
            .frequency(controls.note() + controls.chord[voice].to.round() + lift);
        let (bright, rough) = (controls.brightness.to, controls.roughness.to);
        let (piece, speed) = samples.find(bright, rough, frequency, &mut self.strewer.chance);
        let speed = speed * (1.0 + 0.02 * rough * (self.strewer.chance.next() - 0.5));
        let side = self.strewer.chance.next();
        let weights = [1.4 - 0.8 * side, 0.6 + 0.8 * side].map(|w| w * amplitude);
        self.grain(piece, piece.start, speed, [seconds, 0.5], weights);
    }

    /// A grain that begins where its sound does, most suddenly.
    fn strike(&mut self, controls: &Controls, strength: f32, seconds: f32, steps: f32) {
        let Some(samples) = self.samples.clone() else {
            return;
        };
        let piece = samples.find_strike(controls.brightness.to, &mut self.strewer.chance);
        let speed = transposed(piece, controls.harmony.frequency(controls.note() + steps));
        self.grain(
            piece,
            piece.strike,
            speed,
            [seconds, ATTACK / seconds],
            [strength; 2],
        );
    }
}

/// The cubic through four points that is smooth at the middle two (Catmull & Rom 1974).
#[inline]
fn between([a, b, c, d]: [f32; 4], part: f32) -> f32 {
    let slopes = [0.5 * (c - a), 0.5 * (d - b)];
    let cube = 2.0 * (b - c) + slopes[0] + slopes[1];
    let square = 3.0 * (c - b) - 2.0 * slopes[0] - slopes[1];
    ((cube * part + square) * part + slopes[0]) * part + b
}

#[inline]
fn smooth(x: f32) -> f32 {
    x * x * (3.0 - 2.0 * x)
}

impl Instrument for Granular {
    fn ready(&self) -> Result<(), SynthError> {
        self.samples.as_ref().map(|_| ()).ok_or(SynthError::NoSamples)
    }

    fn reset(&mut self) {
        self.pool = [Grain::default(); POOL];
        self.tone.reset();
        self.strewer.reset();
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        match event {
            Event::Onset => {
                self.strike(controls, 1.5 * strength, 0.3, 0.0);
                self.strike(controls, 1.0 * strength, 0.2, controls.harmony.octave());
            }
            Event::Phrase => {
                self.strike(controls, 1.2 * strength, 0.6, -controls.harmony.octave());
                for _ in 0..4 {
                    self.strew(controls, 0.9, 0.5 * strength);
                }
            }
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        let density = controls.target(Parameter::Density);
        // Sparse and long to dense and short; the level is that of what overlaps, which adds up by its power.
        let rate = 8.0 * (3.0 * density).exp2();
        let seconds = 0.26 - 0.17 * density;
        if self.strewer.frame(rate) {
            self.strew(controls, seconds, (0.375 * rate * seconds).sqrt().recip());
        }
        let pulse = controls.target(Parameter::Pulse);
        if let Some(weight) = controls.stroke
            && pulse > 0.02
        {
            self.strike(controls, 1.2 * pulse * weight, 0.14, 0.0);
        }
        *output = [[0.0; 2]; FRAME];
        if let Some(samples) = &self.samples {
            for grain in self.pool.iter_mut().filter(|grain| grain.left > 0) {
                let count = grain.left.min(FRAME);
                for y in output.iter_mut().take(count) {
                    let at = grain.passed * grain.speed;
                    let whole = at as usize;
                    let points = &samples.sound[grain.start + whole..grain.start + whole + 4];
                    let x = between([points[0], points[1], points[2], points[3]], at - whole as f32);
                    let done = grain.done;
                    let x = x * if done < grain.rise {
                        smooth(done / grain.rise)
                    } else {
                        smooth((1.0 - done) / (1.0 - grain.rise))
                    };
                    y[0] += x * grain.weights[0];
                    y[1] += x * grain.weights[1];
                    grain.passed += 1.0;
                    grain.done = (grain.done + grain.step).min(1.0);
                }
                grain.left -= count;
            }
        }
        controls.swing(output);
        self.tone.render(output, controls, controls.octaves(3.5, 4.0));
        scale(output, LEVEL);
    }
}
