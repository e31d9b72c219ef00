//! Glass: a cloud of short high grains, each a sine under a Hann window (Gabor 1947; Roads 1978).

use super::{Controls, Instrument, scale};
use crate::clock::Strewer;
use crate::control::FRAME;
use crate::params::{Event, Parameter, Settings};
use crate::tone::{Body, Tone};

const LEVEL: f32 = 2.55;
/// Thin walls; they follow the root half of the way, for grains lie far above it.
const RESONANCE: Body = [[7_600.0, 0.7, 0.0], [1_300.0, 0.6, -8.0], [450.0, 0.6, -9.0]];
const POOL: usize = 40;

/// A sine and its window, as phases in turns.
#[derive(Clone, Copy, Default)]
struct Grain {
    tone: [f32; 2],
    tone_turn: [f32; 2],
    window: [f32; 2],
    window_turn: [f32; 2],
    left: usize,
    weights: [f32; 2],
}

pub(crate) struct Glass {
    pool: [Grain; POOL],
    tone: Tone,
    strewer: Strewer,
    sample_rate: f32,
}

impl Glass {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            pool: [Grain::default(); POOL],
            tone: Tone::raised(sample_rate, &RESONANCE, 0.5 * settings.harmony.raised()),
            strewer: Strewer::new(sample_rate, settings.seed ^ 0x61a5),
            sample_rate: sample_rate as f32,
        }
    }

    fn grain(&mut self, frequency: f32, seconds: f32, amplitude: f32, side: f32) {
        if frequency > 0.42 * self.sample_rate {
            return;
        }
        let Some(grain) = self.pool.iter_mut().find(|grain| grain.left == 0) else {
            return;
        };
        let samples = (seconds * self.sample_rate).max(64.0);
        let turn = |angle: f32| [angle.cos(), angle.sin()];
        *grain = Grain {
            tone: [1.0, 0.0],
            tone_turn: turn(core::f32::consts::TAU * frequency / self.sample_rate),
            window: [1.0, 0.0],
            window_turn: turn(core::f32::consts::TAU / samples),
            left: samples as usize,
            weights: [amplitude * (1.5 - side), amplitude * (0.5 + side)],
        };
    }

    /// A grain on a note of the chord; higher the wider the posture and the higher the hand of its side is held, and the
    /// rougher and brighter the movement, the more of them an octave above.
    fn strew(&mut self, controls: &Controls, seconds: f32, amplitude: f32) {
        let octave = controls.harmony.octave();
        let voice = (self.strewer.chance.next() * 3.0) as usize % 3;
        let lift = 0.74
            + 0.25 * controls.brightness.to
            + 1.6 * controls.target(Parameter::Space)
            + (self.strewer.chance.next()
                * (0.6 + 0.8 * controls.roughness.to + 0.5 * controls.brightness.to))
                .floor();
        let out = 1.0 + 0.05 * controls.roughness.to * (self.strewer.chance.next() - 0.5);
        let side = self.strewer.chance.next();
        let height = controls.limbs[usize::from(side > 0.5)][1].to;
        let above = ((lift + 2.4 * height) * octave).round();
        let degree = controls.note() + controls.chord[voice].to.round() + above;
        self.grain(controls.harmony.frequency(degree) * out, seconds, amplitude, side);
    }
}

fn turned(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

impl Instrument for Glass {
    fn reset(&mut self) {
        self.pool = [Grain::default(); POOL];
        self.tone.reset();
        self.strewer.reset();
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        let (count, seconds) = match event {
            Event::Onset => (6, 0.09),
            Event::Phrase => (10, 0.9),
        };
        for _ in 0..count {
            self.strew(controls, seconds, 0.1 * strength);
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        let density = controls.target(Parameter::Density);
        // Sparse and long to dense and short, of about the same energy.
        let rate = 12.0 * (2.5 * density).exp2();
        if self.strewer.frame(rate) {
            self.strew(controls, 0.28 - 0.21 * density, 0.07);
        }
        *output = [[0.0; 2]; FRAME];
        for grain in self.pool.iter_mut().filter(|grain| grain.left > 0) {
            let count = grain.left.min(FRAME);
            for y in output.iter_mut().take(count) {
                grain.tone = turned(grain.tone, grain.tone_turn);
                grain.window = turned(grain.window, grain.window_turn);
                let x = grain.tone[1] * (0.5 - 0.5 * grain.window[0]);
                y[0] += x * grain.weights[0];
                y[1] += x * grain.weights[1];
            }
            grain.left -= count;
        }
        controls.swing(output);
        self.tone
            .sized(output, controls, controls.tracked(4.3, 2.7), controls.open(1.8));
        scale(output, LEVEL);
    }
}
