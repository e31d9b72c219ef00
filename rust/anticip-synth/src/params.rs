//! What a voice is told: names of the parameters and the events, and what it is made with.

use std::sync::Arc;

use crate::harmony::Harmony;
use crate::samples::Samples;

/// The eight parameters, in order; each is linear 0..1.
pub const PARAMETERS: [&str; 8] = [
    "pitch",
    "loudness",
    "brightness",
    "roughness",
    "density",
    "space",
    "pan",
    "pulse",
];

/// The two events, in order.
pub const EVENTS: [&str; 2] = ["onset", "phrase"];

/// The four limbs, in order.
pub const LIMBS: [&str; 4] = ["left_hand", "right_hand", "left_foot", "right_foot"];

/// Index of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Parameter {
    /// Height in the scale, three octaves from its tonic.
    Pitch,
    /// Level; 0 is silence.
    Loudness,
    /// Cut-off of the low-pass, six octaves.
    Brightness,
    /// Beating at 47 Hz, frequency modulation and drive.
    Roughness,
    /// Bells a second, none to 16.
    Density,
    /// Amount and length of reverberation.
    Space,
    /// 0 left, 1 right, equal power.
    Pan,
    /// Depth of the rhythm, eight strokes in two seconds.
    Pulse,
}

/// Index of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// A struck accent.
    Onset,
    /// A new chord and a swell.
    Phrase,
}

/// What a voice is made with.
#[derive(Clone, Default)]
pub struct Settings {
    /// Seed of all chance.
    pub seed: u64,
    /// Name of the preset that plays first; none: the first of the presets.
    pub preset: Option<String>,
    /// What the notes are.
    pub harmony: Harmony,
    /// What the presets that play recorded sound play, at the voice's sample rate.
    pub samples: Option<Arc<Samples>>,
}
