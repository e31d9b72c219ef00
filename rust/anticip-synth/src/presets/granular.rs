//! Grains of recorded sounds, selected by how they sound (Schwarz 2006).

use std::sync::Arc;

use super::{Controls, Instrument, scale};
use crate::clock::RandomTicks;
use crate::control::FRAME;
use crate::error::SynthError;
use crate::params::{Event, Parameter, Settings};
use crate::samples::{Piece, Samples, transposition};
use crate::tone::{Body, Tone};

/// Output gain.
const LEVEL: f32 = 0.57;
/// Flat: the sounds have resonances of their own.
const RESONANCE: Body = [[200.0, 0.7, 0.0], [1_000.0, 0.7, 0.0], [5_000.0, 0.7, 0.0]];
/// Grains that can sound at once.
const MAX_GRAINS: usize = 40;
/// Rise time of a struck grain, seconds.
const ATTACK_S: f32 = 0.003;

/// A grain.
#[derive(Clone, Copy, Default)]
struct Grain {
    /// Samples since its start; counted, because summing small steps far into a long sound loses precision.
    elapsed: f32,
    /// First sample in the folder's sound; too large for an exact `f32`.
    start: usize,
    speed: f32,
    /// Position in the window, 0..1.
    window_phase: f32,
    /// Window phase per sample.
    window_step: f32,
    /// Fraction of the window that rises.
    rise: f32,
    weights: [f32; 2],
    remaining: usize,
}

pub(crate) struct Granular {
    samples: Option<Arc<Samples>>,
    pool: [Grain; MAX_GRAINS],
    tone: Tone,
    ticks: RandomTicks,
    sample_rate: f32,
}

impl Granular {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            samples: settings.samples.clone(),
            pool: [Grain::default(); MAX_GRAINS],
            tone: Tone::new(sample_rate, &RESONANCE),
            ticks: RandomTicks::new(sample_rate, settings.seed ^ 0x6_2a1),
            sample_rate: sample_rate as f32,
        }
    }

    /// Starts a grain; dropped if none is free.
    fn start_grain(&mut self, piece: Piece, start: usize, speed: f32, window: [f32; 2], weights: [f32; 2]) {
        let Some(grain) = self.pool.iter_mut().find(|grain| grain.remaining == 0) else {
            return;
        };
        let [seconds, rise] = window;
        // All four points of the interpolation must lie inside the sound.
        let available = (piece.end - start).saturating_sub(4) as f32 / speed;
        let samples = (seconds * self.sample_rate).min(available);
        if samples < 64.0 {
            return;
        }
        *grain = Grain {
            elapsed: 0.0,
            start,
            speed,
            window_phase: 0.0,
            window_step: 1.0 / samples,
            rise,
            weights: weights.map(|w| w * piece.gain),
            remaining: samples as usize,
        };
    }

    /// Plays a random grain on a note of the chord.
    fn play_grain(&mut self, controls: &Controls, seconds: f32, amplitude: f32) {
        let Some(samples) = self.samples.clone() else {
            return;
        };
        let voice = (self.ticks.random.next() * 3.0) as usize % 3;
        let octave_up = (self.ticks.random.next() * 2.0).floor() * controls.harmony.octave();
        let frequency = controls
            .harmony
            .frequency(controls.note() + controls.chord[voice].to.round() + octave_up);
        let (bright, rough) = (controls.brightness.to, controls.roughness.to);
        let (piece, speed) = samples.find(bright, rough, frequency, &mut self.ticks.random);
        let speed = speed * (1.0 + 0.02 * rough * (self.ticks.random.next() - 0.5));
        let side = self.ticks.random.next();
        let weights = [1.4 - 0.8 * side, 0.6 + 0.8 * side].map(|w| w * amplitude);
        self.start_grain(piece, piece.start, speed, [seconds, 0.5], weights);
    }

    /// Plays a grain from the strongest onset of its sound.
    fn strike(&mut self, controls: &Controls, strength: f32, seconds: f32, steps: f32) {
        let Some(samples) = self.samples.clone() else {
            return;
        };
        let piece = samples.find_onset(controls.brightness.to, &mut self.ticks.random);
        let speed = transposition(piece, controls.harmony.frequency(controls.note() + steps));
        self.start_grain(
            piece,
            piece.onset,
            speed,
            [seconds, ATTACK_S / seconds],
            [strength; 2],
        );
    }
}

/// Catmull-Rom interpolation of four points, between the middle two.
#[inline]
fn interpolate([a, b, c, d]: [f32; 4], fraction: f32) -> f32 {
    let slopes = [0.5 * (c - a), 0.5 * (d - b)];
    let cube = 2.0 * (b - c) + slopes[0] + slopes[1];
    let square = 3.0 * (c - b) - 2.0 * slopes[0] - slopes[1];
    ((cube * fraction + square) * fraction + slopes[0]) * fraction + b
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
        self.pool = [Grain::default(); MAX_GRAINS];
        self.tone.reset();
        self.ticks.reset();
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
                    self.play_grain(controls, 0.9, 0.5 * strength);
                }
            }
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        let density = controls.target(Parameter::Density);
        // From sparse and long to dense and short; uncorrelated grains add up by power, so the level falls
        // with its root.
        let rate = 8.0 * (3.0 * density).exp2();
        let seconds = 0.26 - 0.17 * density;
        if self.ticks.frame(rate) {
            self.play_grain(controls, seconds, (0.375 * rate * seconds).sqrt().recip());
        }
        let pulse = controls.target(Parameter::Pulse);
        if let Some(weight) = controls.stroke
            && pulse > 0.02
        {
            self.strike(controls, 1.2 * pulse * weight, 0.14, 0.0);
        }
        *output = [[0.0; 2]; FRAME];
        if let Some(samples) = &self.samples {
            for grain in self.pool.iter_mut().filter(|grain| grain.remaining > 0) {
                let count = grain.remaining.min(FRAME);
                for y in output.iter_mut().take(count) {
                    let position = grain.elapsed * grain.speed;
                    let index = position as usize;
                    let points = &samples.sound[grain.start + index..grain.start + index + 4];
                    let x = interpolate(
                        [points[0], points[1], points[2], points[3]],
                        position - index as f32,
                    );
                    let window_phase = grain.window_phase;
                    let x = x * if window_phase < grain.rise {
                        smooth(window_phase / grain.rise)
                    } else {
                        smooth((1.0 - window_phase) / (1.0 - grain.rise))
                    };
                    y[0] += x * grain.weights[0];
                    y[1] += x * grain.weights[1];
                    grain.elapsed += 1.0;
                    grain.window_phase = (grain.window_phase + grain.window_step).min(1.0);
                }
                grain.remaining -= count;
            }
        }
        controls.apply_level(output);
        self.tone.render(output, controls, controls.octaves(3.5, 4.0));
        scale(output, LEVEL);
    }
}
