//! Names and musical meaning of the parameters.

use fundsp::math::smooth3;

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

/// Index of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Parameter {
    /// Height in the scale, three octaves from D2.
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

/// D dorian, semitones above the tonic.
const SCALE: [f32; 7] = [0.0, 2.0, 3.0, 5.0, 7.0, 9.0, 10.0];
/// MIDI number of the tonic (D2, 73.4 Hz).
const TONIC: f32 = 38.0;
/// Scale steps from pitch 0 to pitch 1: three octaves.
const DEGREES: f32 = 21.0;

/// Chords, as scale steps above the note for the three voices of the pad; phrases walk through them.
pub(crate) const CHORDS: [[f32; 3]; 5] = [
    [0.0, 4.0, 7.0],
    [0.0, 2.0, 4.0],
    [0.0, 3.0, 7.0],
    [0.0, 4.0, 8.0],
    [0.0, 2.0, 6.0],
];

/// Scale step of a pitch in 0..1: rests on the notes, glides between them, never falls as pitch rises.
pub(crate) fn degree(pitch: f32) -> f32 {
    let d = pitch * DEGREES;
    let whole = d.floor();
    let part = ((d - whole - 0.25) * 2.0).clamp(0.0, 1.0);
    whole + smooth3(part)
}

/// Frequency of a (fractional) scale step, Hz.
pub(crate) fn frequency(degree: f32) -> f32 {
    let whole = degree.floor();
    let part = degree - whole;
    let note = |step: i32| {
        let octave = step.div_euclid(7);
        12.0 * octave as f32 + SCALE[step.rem_euclid(7) as usize]
    };
    let low = note(whole as i32);
    let high = note(whole as i32 + 1);
    440.0 * ((TONIC + low + part * (high - low) - 69.0) / 12.0).exp2()
}

/// Bells a second at a density in 0..1; none below 0.02.
pub(crate) fn bell_rate(density: f32) -> f32 {
    if density < 0.02 {
        0.0
    } else {
        0.5 * (5.0 * density).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitch_rises_through_three_octaves() {
        let low = frequency(degree(0.0));
        let high = frequency(degree(1.0));
        assert!((low - 73.416).abs() < 0.01);
        assert!((high / low - 8.0).abs() < 1e-4);
        let mut last = 0.0;
        for i in 0..=2000 {
            let f = frequency(degree(i as f32 / 2000.0));
            assert!(f >= last);
            last = f;
        }
    }

    #[test]
    fn frequencies_go_on_below_the_tonic() {
        assert!((frequency(-7.0) * 2.0 - frequency(0.0)).abs() < 1e-3);
    }
}
