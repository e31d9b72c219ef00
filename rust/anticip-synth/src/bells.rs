//! A pool of two-operator FM bells (Chowning 1973): the grains of `density` and the ring of an onset.

use fundsp::audionode::AudioNode;
use fundsp::buffer::BufferVec;
use fundsp::oscillator::Sine;

use crate::control::FRAME;
use crate::tone::running;

/// Bells that can sound at once.
const POOL: usize = 12;
/// Rise of a bell, seconds.
const ATTACK: f32 = 0.003;
/// Envelope below which a bell has ended (-50 dB); it is subtracted, so the end is no step.
const END: f32 = 0.003;
/// Modulation index below which a bell is a sine.
const PURE: f32 = 0.002;

/// What a bell is struck with.
#[derive(Clone, Copy)]
pub(crate) struct Stroke {
    /// Hz.
    pub(crate) frequency: f32,
    /// Modulator to carrier.
    pub(crate) ratio: f32,
    /// Modulation index at the stroke.
    pub(crate) index: f32,
    /// Peak amplitude.
    pub(crate) amplitude: f32,
    /// Time constant of the decay, seconds.
    pub(crate) decay: f32,
    /// Weights of the left and right channel.
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
    sounding: bool,
}

/// The pool.
#[derive(Clone)]
pub(crate) struct Bells {
    bells: [Bell; POOL],
    input: BufferVec,
    output: BufferVec,
    sample_rate: f32,
}

impl Bells {
    pub(crate) fn new(sample_rate: f64) -> Self {
        let sine = || running(Sine::with_phase(0.0), sample_rate);
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
                sounding: false,
            }),
            input: BufferVec::new(1),
            output: BufferVec::new(1),
            sample_rate: sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        for bell in &mut self.bells {
            bell.sounding = false;
        }
    }

    /// Strikes a free bell; with none free the stroke is not heard (taking one that sounds would click).
    pub(crate) fn strike(&mut self, stroke: Stroke) {
        let nyquist = 0.5 * self.sample_rate;
        if stroke.frequency > 0.8 * nyquist {
            return;
        }
        let Some(bell) = self.bells.iter_mut().find(|bell| !bell.sounding) else {
            return;
        };
        bell.carrier.reset();
        bell.modulator.reset();
        bell.stroke = stroke;
        bell.envelope = 1.0;
        bell.fall = (-1.0 / (stroke.decay * self.sample_rate)).exp();
        bell.rise = 0.0;
        bell.sounding = true;
    }

    /// Adds a frame of every sounding bell to `output`.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME]) {
        let rise = 1.0 / (ATTACK * self.sample_rate);
        for bell in self.bells.iter_mut().filter(|bell| bell.sounding) {
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
            if depth(bell.envelope) > PURE {
                self.input.buffer_mut().channel_f32_mut(0).fill(modulator);
                bell.modulator
                    .process(FRAME, &self.input.buffer_ref(), &mut self.output.buffer_mut());
                // The modulation fades with the cube of the envelope: bright at the stroke, a sine in the end.
                let mut envelope = bell.envelope;
                let swing = self.output.buffer_mut().channel_f32_mut(0);
                let bent = self.input.buffer_mut().channel_f32_mut(0);
                for (f, m) in bent.iter_mut().zip(swing.iter()) {
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
                let level = (bell.envelope - END).max(0.0) * bell.rise * amplitude;
                y[0] += x * level * weights[0];
                y[1] += x * level * weights[1];
                bell.envelope *= bell.fall;
                bell.rise = (bell.rise + rise).min(1.0);
            }
            bell.sounding = bell.envelope > END;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_would_fold_over_is_not_struck() {
        let rate = 48_000.0;
        let heard = |frequency: f32| {
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
        assert!(heard(440.0));
        assert!(heard(0.79 * 24_000.0));
        assert!(!heard(0.81 * 24_000.0));
    }
}
