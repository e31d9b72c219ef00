//! Inputs of a voice: parameters, events, limbs, and the settings it is created with.

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
    /// Cutoff of the low-pass, over six octaves.
    Brightness,
    /// Beating at 47 Hz, frequency modulation and drive.
    Roughness,
    /// Random notes or grains per second; in most presets none at 0 and 16 at 1.
    Density,
    /// Amount and length of reverberation.
    Space,
    /// 0 left, 1 right, equal power.
    Pan,
    /// Depth of the rhythm: eight strokes in two seconds, or in time with the tempo.
    Pulse,
}

/// Index of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// An accent.
    Onset,
    /// A new chord and a swell.
    Phrase,
}

/// Settings that a voice is created with.
#[derive(Clone, Default)]
pub struct Settings {
    /// Seed of all randomness.
    pub seed: u64,
    /// Name of the first preset; `None` for the first in the list.
    pub preset: Option<String>,
    /// Key, scale, tuning and chords.
    pub harmony: Harmony,
    /// Recorded sounds for the presets that play them, at the voice's sample rate.
    pub samples: Option<Arc<Samples>>,
}
