//! What a voice is made with.

use std::sync::Arc;

use crate::harmony::Harmony;
use crate::samples::Samples;

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
