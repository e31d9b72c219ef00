//! Names of the parameters and the events.

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
