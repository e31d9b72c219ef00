//! The presets: their names, descriptions and instruments.
//!
//! A preset turns the controls of a frame into dry stereo sound. Loudness, panning, room, limiter and the
//! crossfade between presets are part of [`crate::Voice`] and the same for all.

mod bells;
mod bowed;
mod choir;
mod default;
mod drone;
mod drums;
mod duo;
mod glass;
mod granular;
mod limbs;
mod plucked;

use crate::control::{FRAME, Line};
use crate::error::SynthError;
use crate::harmony::Harmony;
use crate::manner::Traits;
use crate::params::{Event, Parameter, Settings};

/// A preset.
#[derive(Clone, Copy)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Description, one line.
    pub description: &'static str,
    /// Creates an instrument from sample rate and settings; allocates all memory it will ever need.
    pub(crate) build: fn(f64, &Settings) -> Box<dyn Instrument>,
}

macro_rules! presets {
    ($($module:ident $kind:ident: $description:literal,)*) => {
        /// Every preset; the default comes first.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: stringify!($module),
            description: $description,
            build: |sample_rate, settings| Box::new($module::$kind::new(sample_rate, settings)),
        },)*];
    };
}

presets! {
    default PadAndBells: "a pad of six saws, with bells strewn over it",
    plucked Plucked: "plucked strings: the melody, arpeggios and the beat",
    bowed Bowed: "a bowed string over its fifth, in a wooden body",
    choir Choir: "eight singers whose vowel opens with brightness",
    drone Drone: "slowly beating partials on a low fifth",
    bells Bells: "cast bells, struck and left to ring",
    drums Drums: "drums, tuned and brushed, on the beat and on onsets",
    glass Glass: "a cloud of short high grains",
    limbs Limbs: "a drum for each hand and foot, struck by its own strokes",
    duo Duo: "a reed and a flute, left and right, each played by its half of the body",
    granular Granular: "grains of your own folder of samples, found by how they sound",
}

/// The index of a preset.
pub(crate) fn position(name: &str) -> Result<usize, SynthError> {
    let found = PRESETS.iter().position(|preset| preset.name == name);
    found.ok_or_else(|| SynthError::Preset {
        got: name.to_owned(),
        known: PRESETS
            .iter()
            .map(|preset| preset.name)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Controls of a frame.
pub(crate) struct Controls<'a> {
    pub(crate) harmony: &'a Harmony,
    /// The eight parameters as last set, unsmoothed.
    pub(crate) targets: &'a [f32; 8],
    pub(crate) pitch: Line,
    /// Scale step of the pitch.
    pub(crate) degree: Line,
    pub(crate) brightness: Line,
    pub(crate) roughness: Line,
    pub(crate) space: Line,
    pub(crate) pan: Line,
    pub(crate) pulse: Line,
    /// Scale steps of the chord above the pitch, gliding.
    pub(crate) chord: [Line; 3],
    /// Boost by an onset, 0..1, decaying.
    pub(crate) boost: Line,
    /// Swell by a phrase, 0..1, decaying.
    pub(crate) swell: Line,
    /// Envelope of the rhythm, 0..1.
    pub(crate) beat: Line,
    /// Weight of the stroke of the rhythm that begins in this frame, if any.
    pub(crate) stroke: Option<f32>,
    /// Speed and height of each limb.
    pub(crate) limbs: [[Line; 2]; 4],
    /// Whether limbs have ever been set.
    pub(crate) has_limbs: bool,
    /// Strength of each limb's stroke in this frame; 0 for none.
    pub(crate) limb_strokes: [f32; 4],
    /// How the performer moved over the last seconds.
    pub(crate) manner: Traits,
}

impl Controls<'_> {
    pub(crate) fn target(&self, parameter: Parameter) -> f32 {
        self.targets[parameter as usize]
    }

    /// The scale step on which the pitch rests, or the nearest one.
    pub(crate) fn note(&self) -> f32 {
        self.harmony.degree(self.target(Parameter::Pitch)).round()
    }

    /// Octaves by which the body's resonances are shifted up: high and bright notes come from a smaller body,
    /// as in a family of instruments.
    pub(crate) fn resonance_shift(&self) -> f32 {
        1.6 * (self.pitch.to - 0.5) + 0.8 * (self.brightness.to - 0.5)
    }

    /// The same for a body that changes by `octaves` from the most closed posture to the widest.
    pub(crate) fn open_resonance_shift(&self, octaves: f32) -> f32 {
        self.resonance_shift() + octaves * (self.space.to - 0.5)
    }

    /// Level of a sustained sound, from rhythm, onset and phrase. Strokes exceed the steady level by as much
    /// as keeps a pulsed sound about as loud.
    #[inline]
    pub(crate) fn level(&self, i: usize) -> f32 {
        let rhythm = 1.0 - self.pulse.at(i) * (1.0 - 1.9 * self.beat.at(i));
        rhythm * (1.0 + 0.5 * self.boost.at(i) + 0.6 * self.swell.at(i))
    }

    /// Applies [`Self::level`] to a frame.
    pub(crate) fn apply_level(&self, output: &mut [[f32; 2]; FRAME]) {
        for (i, y) in output.iter_mut().enumerate() {
            let level = self.level(i);
            *y = y.map(|v| v * level);
        }
    }

    /// Cutoff in octaves above 110 Hz: from `lowest` by brightness over `span`, raised by events and beat.
    pub(crate) fn octaves(&self, lowest: f32, span: f32) -> Line {
        let bright = self.brightness.map(|b| lowest + span * b);
        bright + self.boost + self.swell.map(|s| 0.7 * s) + self.pulse * self.beat
    }

    /// The same for a low-pass that follows the register.
    pub(crate) fn tracked_octaves(&self, lowest: f32, span: f32) -> Line {
        let register = self.pitch.map(|p| 1.5 * (p - 0.6)) + self.space.map(|s| 1.2 * (s - 0.5));
        self.octaves(lowest, span) + register
    }

    /// Frequency of `steps` above the pitch, Hz.
    pub(crate) fn frequency(&self, steps: Line) -> Line {
        (self.degree + steps).map(|degree| self.harmony.frequency(degree))
    }
}

/// An instrument; renders frames.
pub(crate) trait Instrument: Send {
    /// Returns an error if it lacks the samples it plays.
    fn ready(&self) -> Result<(), SynthError> {
        Ok(())
    }

    /// Resets to the state of a new instrument; allocates nothing.
    fn reset(&mut self);

    /// Handles an event that falls into the next frame.
    fn event(&mut self, event: Event, strength: f32, controls: &Controls);

    /// Writes a frame, dry and at the level of `loudness` 1.
    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]);
}

/// Multiplies a frame by `level`.
pub(crate) fn scale(output: &mut [[f32; 2]; FRAME], level: f32) {
    for y in output.iter_mut().flatten() {
        *y *= level;
    }
}
