//! Glass: a cloud of short high grains, each a sine under a Hann window (Gabor 1947; Roads 1978).

use super::{Controls, Instrument, scale};
use crate::clock::RandomTicks;
use crate::control::FRAME;
use crate::params::{Event, Parameter, Settings};
use crate::tone::{Body, Tone};

/// Output gain.
const LEVEL: f32 = 2.55;
/// Thin walls; transposed with half of the root's change, because the grains lie far above it.
const RESONANCE: Body = [[7_600.0, 0.7, 0.0], [1_300.0, 0.6, -8.0], [450.0, 0.6, -9.0]];
/// Grains that can sound at once.
const MAX_GRAINS: usize = 40;

/// A windowed sine: phases of both as unit vectors, with their rotation per sample.
#[derive(Clone, Copy, Default)]
struct Grain {
    tone: [f32; 2],
    tone_step: [f32; 2],
    window: [f32; 2],
    window_step: [f32; 2],
    remaining: usize,
    weights: [f32; 2],
}

pub(crate) struct Glass {
    pool: [Grain; MAX_GRAINS],
    tone: Tone,
    ticks: RandomTicks,
    sample_rate: f32,
}

impl Glass {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            pool: [Grain::default(); MAX_GRAINS],
            tone: Tone::transposed(
                sample_rate,
                &RESONANCE,
                0.5 * settings.harmony.octaves_above_default(),
            ),
            ticks: RandomTicks::new(sample_rate, settings.seed ^ 0x61a5),
            sample_rate: sample_rate as f32,
        }
    }

    /// Starts a grain; dropped if none is free.
    fn start_grain(&mut self, frequency: f32, seconds: f32, amplitude: f32, side: f32) {
        if frequency > 0.42 * self.sample_rate {
            return;
        }
        let Some(grain) = self.pool.iter_mut().find(|grain| grain.remaining == 0) else {
            return;
        };
        let samples = (seconds * self.sample_rate).max(64.0);
        let unit_vector = |angle: f32| [angle.cos(), angle.sin()];
        *grain = Grain {
            tone: [1.0, 0.0],
            tone_step: unit_vector(core::f32::consts::TAU * frequency / self.sample_rate),
            window: [1.0, 0.0],
            window_step: unit_vector(core::f32::consts::TAU / samples),
            remaining: samples as usize,
            weights: [amplitude * (1.5 - side), amplitude * (0.5 + side)],
        };
    }

    /// Plays a grain on a note of the chord; higher for a wide posture and a raised hand on its side, and
    /// more often an octave up for rough and bright movement.
    fn play_grain(&mut self, controls: &Controls, seconds: f32, amplitude: f32) {
        let octave = controls.harmony.octave();
        let voice = (self.ticks.random.next() * 3.0) as usize % 3;
        let octaves_up = 0.74
            + 0.25 * controls.brightness.to
            + 1.6 * controls.target(Parameter::Space)
            + (self.ticks.random.next() * (0.6 + 0.8 * controls.roughness.to + 0.5 * controls.brightness.to))
                .floor();
        let detune = 1.0 + 0.05 * controls.roughness.to * (self.ticks.random.next() - 0.5);
        let side = self.ticks.random.next();
        let height = controls.limbs[usize::from(side > 0.5)][1].to;
        let steps = ((octaves_up + 2.4 * height) * octave).round();
        let degree = controls.note() + controls.chord[voice].to.round() + steps;
        self.start_grain(
            controls.harmony.frequency(degree) * detune,
            seconds,
            amplitude,
            side,
        );
    }
}

fn rotated(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

impl Instrument for Glass {
    fn reset(&mut self) {
        self.pool = [Grain::default(); MAX_GRAINS];
        self.tone.reset();
        self.ticks.reset();
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        let (count, seconds) = match event {
            Event::Onset => (6, 0.09),
            Event::Phrase => (10, 0.9),
        };
        for _ in 0..count {
            self.play_grain(controls, seconds, 0.1 * strength);
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        let density = controls.target(Parameter::Density);
        // From sparse and long to dense and short, at about the same energy.
        let rate = 12.0 * (2.5 * density).exp2();
        if self.ticks.frame(rate) {
            self.play_grain(controls, 0.28 - 0.21 * density, 0.07);
        }
        *output = [[0.0; 2]; FRAME];
        for grain in self.pool.iter_mut().filter(|grain| grain.remaining > 0) {
            let count = grain.remaining.min(FRAME);
            for y in output.iter_mut().take(count) {
                grain.tone = rotated(grain.tone, grain.tone_step);
                grain.window = rotated(grain.window, grain.window_step);
                let x = grain.tone[1] * (0.5 - 0.5 * grain.window[0]);
                y[0] += x * grain.weights[0];
                y[1] += x * grain.weights[1];
            }
            grain.remaining -= count;
        }
        controls.apply_level(output);
        self.tone.render_shifted(
            output,
            controls,
            controls.tracked_octaves(4.3, 2.7),
            controls.open_resonance_shift(1.8),
        );
        scale(output, LEVEL);
    }
}
