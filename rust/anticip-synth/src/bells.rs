//! A pool of two-operator FM bells (Chowning 1973): random notes by `density`, and the ring of an onset.

use fundsp::audionode::AudioNode;
use fundsp::buffer::BufferVec;
use fundsp::oscillator::Sine;

use crate::control::FRAME;
use crate::tone::with_sample_rate;

/// Number of bells that can sound at once.
const MAX_BELLS: usize = 12;
/// Rise time of a bell, seconds.
const ATTACK_S: f32 = 0.003;
/// Envelope below which a bell has ended (-50 dB); subtracted, so that the end is not a step.
const END_LEVEL: f32 = 0.003;
/// Modulation index below which a bell is rendered as a sine.
const MIN_INDEX: f32 = 0.002;

/// Parameters of a bell stroke.
#[derive(Clone, Copy)]
pub(crate) struct Stroke {
    /// Hz.
    pub(crate) frequency: f32,
    /// Modulator frequency relative to the carrier.
    pub(crate) ratio: f32,
    /// Modulation index at the start.
    pub(crate) index: f32,
    /// Peak amplitude.
    pub(crate) amplitude: f32,
    /// Time constant of the decay, seconds.
    pub(crate) decay: f32,
    /// Gains of the left and right channel.
    pub(crate) weights: [f32; 2],
}

#[derive(Clone)]
struct Bell {
    carrier: Sine<f32>,
    modulator: Sine<f32>,
    stroke: Stroke,
    envelope: f32,
    fall: f32,
    rise: f32,
    is_active: bool,
}

/// A pool of bells.
#[derive(Clone)]
pub(crate) struct Bells {
    bells: [Bell; MAX_BELLS],
    input: BufferVec,
    output: BufferVec,
    sample_rate: f32,
}

impl Bells {
    pub(crate) fn new(sample_rate: f64) -> Self {
        let sine = || with_sample_rate(Sine::with_phase(0.0), sample_rate);
        Self {
            bells: core::array::from_fn(|_| Bell {
                carrier: sine(),
                modulator: sine(),
                stroke: Stroke {
                    frequency: 0.0,
                    ratio: 1.0,
                    index: 0.0,
                    amplitude: 0.0,
                    decay: 1.0,
                    weights: [0.0; 2],
                },
                envelope: 0.0,
                fall: 0.0,
                rise: 0.0,
                is_active: false,
            }),
            input: BufferVec::new(1),
            output: BufferVec::new(1),
            sample_rate: sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        for bell in &mut self.bells {
            bell.is_active = false;
        }
    }

    /// Starts a free bell; dropped if none is free (reusing a sounding one would click).
    pub(crate) fn strike(&mut self, stroke: Stroke) {
        let nyquist = 0.5 * self.sample_rate;
        if stroke.frequency > 0.8 * nyquist {
            return;
        }
        let Some(bell) = self.bells.iter_mut().find(|bell| !bell.is_active) else {
            return;
        };
        bell.carrier.reset();
        bell.modulator.reset();
        bell.stroke = stroke;
        bell.envelope = 1.0;
        bell.fall = (-1.0 / (stroke.decay * self.sample_rate)).exp();
        bell.rise = 0.0;
        bell.is_active = true;
    }

    /// Adds a frame of every sounding bell to `output`.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME]) {
        let rise = 1.0 / (ATTACK_S * self.sample_rate);
        for bell in self.bells.iter_mut().filter(|bell| bell.is_active) {
            let Stroke {
                frequency,
                ratio,
                index,
                amplitude,
                weights,
                ..
            } = bell.stroke;
            let modulator = frequency * ratio;
            let depth = |envelope: f32| index * envelope * envelope * envelope;
            if depth(bell.envelope) > MIN_INDEX {
                self.input.buffer_mut().channel_f32_mut(0).fill(modulator);
                bell.modulator
                    .process(FRAME, &self.input.buffer_ref(), &mut self.output.buffer_mut());
                // The modulation decays with the cube of the envelope: bright at first, a sine at the end.
                let mut envelope = bell.envelope;
                let modulation = self.output.buffer_mut().channel_f32_mut(0);
                let frequencies = self.input.buffer_mut().channel_f32_mut(0);
                for (f, m) in frequencies.iter_mut().zip(modulation.iter()) {
                    *f = frequency + modulator * depth(envelope) * *m;
                    envelope *= bell.fall;
                }
            } else {
                self.input.buffer_mut().channel_f32_mut(0).fill(frequency);
            }
            bell.carrier
                .process(FRAME, &self.input.buffer_ref(), &mut self.output.buffer_mut());
            let tone = self.output.buffer_mut().channel_f32_mut(0);
            for (y, x) in output.iter_mut().zip(tone.iter()) {
                let level = (bell.envelope - END_LEVEL).max(0.0) * bell.rise * amplitude;
                y[0] += x * level * weights[0];
                y[1] += x * level * weights[1];
                bell.envelope *= bell.fall;
                bell.rise = (bell.rise + rise).min(1.0);
            }
            bell.is_active = bell.envelope > END_LEVEL;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_would_fold_over_is_not_struck() {
        let rate = 48_000.0;
        let is_heard = |frequency: f32| {
            let mut bells = Bells::new(rate);
            let mut output = [[0.0; 2]; FRAME];
            bells.strike(Stroke {
                frequency,
                ratio: 1.0,
                index: 0.0,
                amplitude: 1.0,
                decay: 1.0,
                weights: [1.0, 0.5],
            });
            bells.render(&mut output);
            output
                .iter()
                .any(|[left, right]| *left != 0.0 && *right == 0.5 * left)
        };
        assert!(is_heard(440.0));
        assert!(is_heard(0.79 * 24_000.0));
        assert!(!is_heard(0.81 * 24_000.0));
    }
}
