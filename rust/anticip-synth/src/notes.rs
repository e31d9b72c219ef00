//! When the struck presets play a note, and which: at random by density, with the melody, on the beat.

use crate::clock::RandomTicks;
use crate::control::frame_seconds;
use crate::params::Parameter;
use crate::presets::Controls;

/// Minimum time between two notes of the melody, seconds.
const MIN_INTERVAL_S: f32 = 0.09;

/// A note to be played.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    /// Step in the scale.
    pub(crate) degree: f32,
    /// 0..1.
    pub(crate) strength: f32,
    /// Gains of left and right.
    pub(crate) weights: [f32; 2],
}

/// Generates the notes of a struck preset.
pub(crate) struct Notes {
    ticks: RandomTicks,
    last_root: f32,
    since_last_s: f32,
    dt: f32,
}

impl Notes {
    pub(crate) fn new(sample_rate: f64, seed: u64) -> Self {
        Self {
            ticks: RandomTicks::new(sample_rate, seed),
            last_root: f32::NAN,
            since_last_s: 0.0,
            dt: frame_seconds(sample_rate),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.ticks.reset();
        self.last_root = f32::NAN;
        self.since_last_s = 0.0;
    }

    /// Calls `strike` with each note of a frame.
    pub(crate) fn frame(&mut self, controls: &Controls, mut strike: impl FnMut(Note)) {
        let root = controls.note();
        let octave = controls.harmony.octave();
        // The wider the posture, the more octaves above the pitch the notes extend.
        let space = controls.target(Parameter::Space);
        let chord = controls.chord.map(|line| line.to.round());
        self.since_last_s += self.dt;
        if root != self.last_root && self.since_last_s > MIN_INTERVAL_S {
            if !self.last_root.is_nan() {
                let weights = self.ticks.random_pan(controls, 0.4);
                strike(Note {
                    degree: root + (1.6 * space).round() * octave,
                    strength: 0.7,
                    weights,
                });
            }
            (self.last_root, self.since_last_s) = (root, 0.0);
        }
        // The level lies between the extremes: a struck voice without notes falls silent.
        if self.ticks.note(controls) {
            let voice = (self.ticks.random.next() * 3.0) as usize % 3;
            let octave_offset = (1.6 * space + 1.2 * self.ticks.random.next() - 0.2).floor() * octave;
            let strength = 0.35 + 0.4 * self.ticks.random.next();
            let weights = self.ticks.random_pan(controls, 1.0);
            strike(Note {
                degree: root + chord[voice] + octave_offset,
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
}
