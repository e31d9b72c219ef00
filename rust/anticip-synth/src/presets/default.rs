//! A pad with bells over it.

use fundsp::audionode::AudioNode;
use fundsp::filter::DCBlock;

use super::{Controls, Instrument};
use crate::bells::{Bells, Stroke};
use crate::clock::RandomTicks;
use crate::control::FRAME;
use crate::pad::{Pad, PadControls};
use crate::params::{Event, Parameter, Settings};
use crate::strike::Strike;
use crate::tone::with_sample_rate;

pub(crate) struct PadAndBells {
    ticks: RandomTicks,
    pad: Pad,
    bells: Bells,
    strike: Strike,
    blockers: [DCBlock<f32>; 2],
}

impl PadAndBells {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            ticks: RandomTicks::new(sample_rate, settings.seed),
            pad: Pad::new(sample_rate),
            bells: Bells::new(sample_rate),
            strike: Strike::new(sample_rate, settings.seed ^ 0x5eed),
            blockers: core::array::from_fn(|_| with_sample_rate(DCBlock::new(8.0), sample_rate)),
        }
    }

    /// Plays a random bell if one is due.
    fn play_random_bell(&mut self, controls: &Controls) {
        let density = controls.target(Parameter::Density);
        if !self.ticks.note(controls) {
            return;
        }
        const STEPS: [f32; 6] = [0.0, 2.0, 4.0, 6.0, 7.0, 9.0];
        let step = STEPS[(self.ticks.random.next() * STEPS.len() as f32) as usize % STEPS.len()];
        let (brightness, roughness) = (controls.brightness.to, controls.roughness.to);
        let weights = self.ticks.random_pan(controls, 1.0);
        let strength = 0.55 + 0.45 * self.ticks.random.next();
        let harmony = controls.harmony;
        self.bells.strike(Stroke {
            frequency: harmony.frequency(controls.note() + harmony.octave() + harmony.steps(step)),
            ratio: 2.0 + 0.37 * roughness,
            index: 0.3 + 2.4 * brightness + roughness,
            amplitude: 0.26 * strength,
            decay: 0.26 - 0.18 * density,
            weights,
        });
    }
}

impl Instrument for PadAndBells {
    fn reset(&mut self) {
        self.ticks.reset();
        self.pad.reset();
        self.bells.reset();
        self.strike.reset();
        for node in &mut self.blockers {
            node.reset();
        }
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        let harmony = controls.harmony;
        let root = harmony.degree(controls.target(Parameter::Pitch));
        match event {
            Event::Onset => {
                self.strike.strike(0.55 * strength);
                self.bells.strike(Stroke {
                    frequency: harmony.frequency(root + harmony.octave()),
                    ratio: 3.5,
                    index: 1.0 + 2.0 * strength,
                    amplitude: 0.34 * strength,
                    decay: 0.32,
                    weights: [1.0; 2],
                });
            }
            Event::Phrase => self.bells.strike(Stroke {
                frequency: harmony.frequency(root - harmony.octave()),
                ratio: 1.41,
                index: 1.2,
                amplitude: 0.26 * strength,
                decay: 1.1,
                weights: [1.0; 2],
            }),
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        self.play_random_bell(controls);
        let octaves = controls.brightness.map(|b| 6.0 * b) + controls.boost.map(|b| 1.5 * b);
        let pad = PadControls {
            degree: controls.degree,
            chord: controls.chord,
            roughness: controls.roughness,
            octaves: octaves + controls.swell + controls.pulse * controls.beat,
        };
        self.pad.render(&pad, controls.harmony, output);
        for (i, x) in output.iter_mut().enumerate() {
            let level = controls.level(i);
            // Here the pad never stops, so that the DC blockers cannot run into denormal numbers.
            for (v, node) in x.iter_mut().zip(&mut self.blockers) {
                *v = node.filter_mono(*v) * level;
            }
        }
        self.bells.render(output);
        self.strike.render(output);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Harmony, SCALES, Settings, Voice};

    #[test]
    fn bells_lie_within_two_octaves_in_every_scale() {
        for scale in [SCALES[0].1, SCALES[7].1, &[0.0]] {
            let settings = Settings {
                harmony: Harmony::new(38.0, scale, false, 440.0, &[]).unwrap(),
                ..Settings::default()
            };
            let mut voice = Voice::with(48_000.0, &settings).unwrap();
            voice.params(&[0.0, 0.7, 0.0, 0.0, 1.0, 0.0, 0.5, 0.0]);
            let mut sound = vec![0.0; 8 * 48_000];
            voice.render(&mut sound).unwrap();
            let energy = |sound: Vec<f32>| sound.iter().map(|x| x * x).sum::<f32>();
            // The second difference raises highs by 12 dB an octave.
            let left: Vec<f32> = sound.into_iter().step_by(2).collect();
            let highs = left.windows(3).map(|x| x[0] - 2.0 * x[1] + x[2]).collect();
            assert!(energy(highs) < 1e-3 * energy(left), "{scale:?}");
        }
    }
}
