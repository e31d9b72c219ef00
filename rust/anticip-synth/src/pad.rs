//! The pad: three voices of two detuned saws over a sine, with roughness and a low-pass.

use fundsp::audionode::AudioNode;
use fundsp::buffer::BufferVec;
use fundsp::oscillator::{PolySaw, Sine};

use crate::control::{FRAME, Line};
use crate::harmony::Harmony;
use crate::tone::{BEATING_HZ, LowPass, saturate, with_sample_rate};

const VOICES: usize = 3;
/// Detuning of the two saws of a voice: 5 cents either way, beating about once per second.
const DETUNE: [f32; 2] = [0.997_116, 1.002_892];
/// Level of each voice; the root is the loudest.
const LEVELS: [f32; VOICES] = [0.18, 0.14, 0.11];
/// Level of the sine an octave below the root.
const SUB_LEVEL: f32 = 0.09;
/// Frequency of the FM modulator relative to the root: inharmonic.
const FM_RATIO: f32 = core::f32::consts::SQRT_2;

/// Controls of the pad over one frame.
pub(crate) struct PadControls {
    /// Scale step of the root.
    pub(crate) degree: Line,
    /// Scale steps of the three voices above the root.
    pub(crate) chord: [Line; VOICES],
    pub(crate) roughness: Line,
    /// Cutoff of the low-pass in octaves above its lowest.
    pub(crate) octaves: Line,
}

pub(crate) struct Pad {
    saws: [[PolySaw<f32>; 2]; VOICES],
    sub: Sine<f32>,
    modulator: Sine<f32>,
    beating: Sine<f32>,
    low: LowPass,
    input: BufferVec,
    output: BufferVec,
}

impl Pad {
    pub(crate) fn new(sample_rate: f64) -> Self {
        let saw = |phase: f32| with_sample_rate(PolySaw::with_phase(phase), sample_rate);
        let sine = || with_sample_rate(Sine::with_phase(0.0), sample_rate);
        Self {
            saws: core::array::from_fn(|v| {
                core::array::from_fn(|k| saw((0.13 + 0.31 * v as f32 + 0.47 * k as f32) % 1.0))
            }),
            sub: sine(),
            modulator: sine(),
            beating: sine(),
            low: LowPass::new(sample_rate),
            input: BufferVec::new(3),
            output: BufferVec::new(3),
        }
    }

    pub(crate) fn reset(&mut self) {
        for saw in self.saws.iter_mut().flatten() {
            saw.reset();
        }
        self.sub.reset();
        self.modulator.reset();
        self.beating.reset();
        self.low.reset();
    }

    /// Writes a stereo frame.
    pub(crate) fn render(
        &mut self,
        controls: &PadControls,
        harmony: &Harmony,
        output: &mut [[f32; 2]; FRAME],
    ) {
        let frequency = |degree| harmony.frequency(degree);
        let root = controls.degree.map(frequency);
        let pitches = controls
            .chord
            .map(|above| (controls.degree + above).map(frequency));
        self.render_sines(root);
        let sines = self.output.buffer_mut();
        let (sub, modulator, beating) = (sines.channel_f32(0), sines.channel_f32(1), sines.channel_f32(2));
        // The cutoff follows the square root of the note, so that high notes are not muffled.
        let base_cutoff = root.map(|f| 180.0 * (f / 110.0).sqrt());
        for i in 0..FRAME {
            let rough = controls.roughness.at(i);
            // Harshness comes late: up to the middle the pad beats and gets warmer, beyond it becomes
            // inharmonic.
            let rough_squared = rough * rough;
            let modulation = 1.0 + 0.35 * rough_squared * rough_squared * modulator[i];
            let mut sides = [SUB_LEVEL * sub[i]; 2];
            for (v, saws) in self.saws.iter_mut().enumerate() {
                let f = pitches[v].at(i) * modulation;
                for (k, saw) in saws.iter_mut().enumerate() {
                    let x = LEVELS[v] * saw.filter_mono(f * DETUNE[k]);
                    sides[k] += 0.75 * x;
                    sides[1 - k] += 0.25 * x;
                }
            }
            // Drive makes quiet sound louder; compensated, so that roughness does not act as loudness.
            let drive = 1.0 + 7.0 * rough_squared;
            let level = 1.0 / (0.22 * drive + 0.78);
            let beat = 1.0 - 0.45 * rough * rough.sqrt() * (1.0 + beating[i]);
            self.low
                .update_cutoff(i, || base_cutoff.at(i) * controls.octaves.at(i).exp2());
            for k in 0..2 {
                let x = saturate(sides[k] * drive) * level * beat;
                output[i][k] = self.low.tick(k, x);
            }
        }
    }

    /// The three sines of a frame: sub-octave, modulator, beating.
    fn render_sines(&mut self, root: Line) {
        let mut input = self.input.buffer_mut();
        for i in 0..FRAME {
            let f = root.at(i);
            input.set_f32(0, i, 0.5 * f);
            input.set_f32(1, i, FM_RATIO * f);
            input.set_f32(2, i, BEATING_HZ);
        }
        let input = self.input.buffer_ref();
        let mut output = self.output.buffer_mut();
        let nodes = [&mut self.sub, &mut self.modulator, &mut self.beating];
        for (channel, node) in nodes.into_iter().enumerate() {
            node.process(FRAME, &input.subset(channel, 1), &mut output.subset(channel, 1));
        }
    }
}
