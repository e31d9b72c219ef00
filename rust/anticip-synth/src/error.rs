//! Errors of this crate.

/// Errors of this crate. Every message states what was expected and what was received.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SynthError {
    /// The sample rate is out of range.
    #[error("sample rate: expected 8000 to 192000 Hz, got {0}")]
    SampleRate(f64),
    /// No parameter has this index.
    #[error("parameter index: expected 0 to 7, got {0}")]
    Parameter(usize),
    /// No limb has this index.
    #[error("limb index: expected 0 (left hand) to 3 (right foot), got {0}")]
    Limb(usize),
    /// No event has this index.
    #[error("event index: expected 0 (onset) or 1 (phrase), got {0}")]
    Event(usize),
    /// Interleaved stereo needs an even number of samples.
    #[error("stereo block: expected an even number of samples, got {0}")]
    Block(usize),
    /// The delay of an event or the duration of a fade is out of range.
    #[error("seconds: expected 0 to 60, got {0}")]
    Seconds(f64),
    /// The event queue is full.
    #[error("event queue: {0} events are waiting already, this one was dropped")]
    QueueFull(usize),
    /// Key, scale, tuning or chords are out of range.
    #[error("{0}")]
    Harmony(&'static str),
    /// No preset has this name.
    #[error("preset: expected one of {known}, got {got:?}")]
    Preset {
        /// The requested name.
        got: String,
        /// The existing names.
        known: String,
    },
    /// The samples cannot be used.
    #[error("samples: {0}")]
    Samples(String),
    /// The preset plays samples, and there are none.
    #[error("preset granular: it needs a folder of sounds ([synth] samples in the rig, or --samples FOLDER)")]
    NoSamples,
}
