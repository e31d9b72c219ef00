//! When the struck presets play a note, and which: strewn by density, with the melody, on the beat.

use crate::clock::Strewer;
use crate::control::FRAME;
use crate::params::Parameter;
use crate::presets::Controls;

/// Two notes of the melody are no nearer than this, seconds.
const APART: f32 = 0.09;

/// A note to be struck.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    /// Scale step.
    pub(crate) degree: f32,
    /// 0..1.
    pub(crate) strength: f32,
    /// Weights of left and right.
    pub(crate) weights: [f32; 2],
}

pub(crate) struct Notes {
    strewer: Strewer,
    last: f32,
    since: f32,
    dt: f32,
}

impl Notes {
    pub(crate) fn new(sample_rate: f64, seed: u64) -> Self {
        Self {
            strewer: Strewer::new(sample_rate, seed),
            last: f32::NAN,
            since: 0.0,
            dt: (FRAME as f64 / sample_rate) as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.strewer.reset();
        self.last = f32::NAN;
        self.since = 0.0;
    }

    /// The notes of a frame.
    pub(crate) fn frame(&mut self, controls: &Controls, mut strike: impl FnMut(Note)) {
        let root = controls.note();
        let octave = controls.harmony.octave();
        // How many octaves the notes reach above the pitch follows how open the posture is.
        let space = controls.target(Parameter::Space);
        let chord = controls.chord.map(|line| line.to.round());
        self.since += self.dt;
        if root != self.last && self.since > APART {
            if !self.last.is_nan() {
                let weights = self.around(controls, 0.4);
                strike(Note {
                    degree: root + (1.6 * space).round() * octave,
                    strength: 0.7,
                    weights,
                });
            }
            (self.last, self.since) = (root, 0.0);
        }
        // Their middle between the fewest and the most: a struck voice that is left alone falls silent.
        if self.strewer.note(controls) {
            let voice = (self.strewer.chance.next() * 3.0) as usize % 3;
            let lift = (1.6 * space + 1.2 * self.strewer.chance.next() - 0.2).floor() * octave;
            let strength = 0.35 + 0.4 * self.strewer.chance.next();
            let weights = self.around(controls, 1.0);
            strike(Note {
                degree: root + chord[voice] + lift,
                strength,
                weights,
            });
        }
        let pulse = controls.target(Parameter::Pulse);
        if let Some(weight) = controls.stroke
            && pulse > 0.02
        {
            strike(Note {
                degree: root,
                strength: pulse * weight,
                weights: [1.0; 2],
            });
        }
    }

    /// A place `wide` about the middle; the wider the room on either side, the farther it may stray.
    pub(crate) fn around(&mut self, controls: &Controls, wide: f32) -> [f32; 2] {
        let pan = controls.pan.to;
        let stray = wide * (self.strewer.chance.next() - 0.5) * (1.0 - (2.0 * pan - 1.0).abs());
        let angle = (0.5 + stray) * core::f32::consts::FRAC_PI_2;
        [angle.cos(), angle.sin()].map(|w| w * core::f32::consts::SQRT_2)
    }
}
