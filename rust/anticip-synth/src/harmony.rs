//! Key, scale, tuning and chords: from a parameter to a frequency.

use fundsp::math::smooth3;

use crate::error::SynthError;

/// Most notes in an octave, and most chords.
const NOTES: usize = 12;
const CHORDS: usize = 8;
/// Octaves from pitch 0 to pitch 1.
const OCTAVES: f32 = 3.0;
/// Five-limit ratios of the twelve semitones.
const JUST: [f32; 12] = [
    1.0,
    16.0 / 15.0,
    9.0 / 8.0,
    6.0 / 5.0,
    5.0 / 4.0,
    4.0 / 3.0,
    45.0 / 32.0,
    3.0 / 2.0,
    8.0 / 5.0,
    5.0 / 3.0,
    9.0 / 5.0,
    15.0 / 8.0,
];

/// Scales by name, semitones above the tonic.
pub const SCALES: [(&str, &[f32]); 12] = [
    ("dorian", &[0.0, 2.0, 3.0, 5.0, 7.0, 9.0, 10.0]),
    ("major", &[0.0, 2.0, 4.0, 5.0, 7.0, 9.0, 11.0]),
    ("minor", &[0.0, 2.0, 3.0, 5.0, 7.0, 8.0, 10.0]),
    ("harmonic-minor", &[0.0, 2.0, 3.0, 5.0, 7.0, 8.0, 11.0]),
    ("phrygian", &[0.0, 1.0, 3.0, 5.0, 7.0, 8.0, 10.0]),
    ("lydian", &[0.0, 2.0, 4.0, 6.0, 7.0, 9.0, 11.0]),
    ("mixolydian", &[0.0, 2.0, 4.0, 5.0, 7.0, 9.0, 10.0]),
    ("pentatonic", &[0.0, 2.0, 4.0, 7.0, 9.0]),
    ("minor-pentatonic", &[0.0, 3.0, 5.0, 7.0, 10.0]),
    ("hirajoshi", &[0.0, 2.0, 3.0, 7.0, 8.0]),
    ("whole-tone", &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
    (
        "chromatic",
        &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0],
    ),
];

/// Steps of a seven-note scale above the note, for three voices; phrases walk through them.
const USUAL: [[f32; 3]; 5] = [
    [0.0, 4.0, 7.0],
    [0.0, 2.0, 4.0],
    [0.0, 3.0, 7.0],
    [0.0, 4.0, 8.0],
    [0.0, 2.0, 6.0],
];

/// What the notes are; D dorian from D2 in equal temperament unless told otherwise.
#[derive(Clone, Debug)]
pub struct Harmony {
    scale: [f32; NOTES],
    notes: usize,
    tonic: f32,
    a4: f32,
    chords: [[f32; 3]; CHORDS],
    count: usize,
}

impl Default for Harmony {
    fn default() -> Self {
        let mut scale = [0.0; NOTES];
        scale[..7].copy_from_slice(SCALES[0].1);
        let mut chords = [[0.0; 3]; CHORDS];
        chords[..USUAL.len()].copy_from_slice(&USUAL);
        Self {
            scale,
            notes: 7,
            tonic: 38.0,
            a4: 440.0,
            chords,
            count: USUAL.len(),
        }
    }
}

impl Harmony {
    /// `tonic` is the MIDI number of the lowest note, `scale` the semitones above it within the octave (rising
    /// from 0, fractions allowed), `just` tunes whole semitones to five-limit ratios above the tonic, `a4` is in
    /// Hz, `chords` are steps of the scale above the note (empty: the usual ones).
    ///
    /// # Errors
    /// [`SynthError::Harmony`] names what is out of range.
    pub fn new(
        tonic: f32,
        scale: &[f32],
        just: bool,
        a4: f32,
        chords: &[[f32; 3]],
    ) -> Result<Self, SynthError> {
        if !(24.0..=60.0).contains(&tonic) {
            return Err(SynthError::Harmony("tonic: expected MIDI number 24 to 60"));
        }
        let rising = scale.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = scale.first() == Some(&0.0) && scale.last().is_some_and(|last| *last < 12.0);
        if scale.len() > NOTES || !rising || !inside {
            return Err(SynthError::Harmony(
                "scale: expected 1 to 12 semitones that rise from 0 and stay below 12",
            ));
        }
        if !(380.0..=500.0).contains(&a4) {
            return Err(SynthError::Harmony("a4: expected 380 to 500 Hz"));
        }
        if chords.len() > CHORDS || !chords.iter().flatten().all(|step| step.abs() <= 24.0) {
            return Err(SynthError::Harmony(
                "chords: expected at most 8 of three steps from -24 to 24",
            ));
        }
        let mut harmony = Self {
            notes: scale.len(),
            tonic,
            a4,
            ..Self::default()
        };
        for (note, semitones) in harmony.scale.iter_mut().zip(scale) {
            let whole = semitones.fract() == 0.0;
            *note = if just && whole {
                12.0 * JUST[*semitones as usize].log2()
            } else {
                *semitones
            };
        }
        if chords.is_empty() {
            // The same intervals, as near as the scale has them.
            let share = harmony.octave() / 7.0;
            for step in harmony.chords.iter_mut().flatten() {
                *step = (*step * share).round();
            }
        } else {
            harmony.chords[..chords.len()].copy_from_slice(chords);
            harmony.count = chords.len();
        }
        Ok(harmony)
    }

    /// Steps in an octave.
    pub(crate) fn octave(&self) -> f32 {
        self.notes as f32
    }

    /// The chord of a phrase, counted from the beginning.
    pub(crate) fn chord(&self, phrase: usize) -> [f32; 3] {
        self.chords[phrase % self.count]
    }

    /// Scale step of a pitch in 0..1: rests on the notes, glides between them, never falls as pitch rises.
    pub(crate) fn degree(&self, pitch: f32) -> f32 {
        let d = pitch * (OCTAVES * self.octave());
        let whole = d.floor();
        let part = ((d - whole - 0.25) * 2.0).clamp(0.0, 1.0);
        whole + smooth3(part)
    }

    /// Frequency of a (fractional) scale step, Hz.
    pub(crate) fn frequency(&self, degree: f32) -> f32 {
        let whole = degree.floor();
        let part = degree - whole;
        let notes = self.notes as i32;
        let note = |step: i32| {
            let octave = step.div_euclid(notes);
            12.0 * octave as f32 + self.scale[step.rem_euclid(notes) as usize]
        };
        let low = note(whole as i32);
        let high = note(whole as i32 + 1);
        self.a4 * ((self.tonic + low + part * (high - low) - 69.0) / 12.0).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitch_rises_through_three_octaves_of_every_scale() {
        for (name, scale) in SCALES {
            for just in [false, true] {
                let harmony = Harmony::new(38.0, scale, just, 440.0, &[]).unwrap();
                let low = harmony.frequency(harmony.degree(0.0));
                let high = harmony.frequency(harmony.degree(1.0));
                assert!((low - 73.416).abs() < 0.01, "{name}");
                assert!((high / low - 8.0).abs() < 1e-4, "{name}");
                let mut last = 0.0;
                for i in 0..=2000 {
                    let f = harmony.frequency(harmony.degree(i as f32 / 2000.0));
                    assert!(f >= last, "{name}");
                    last = f;
                }
            }
        }
    }

    #[test]
    fn frequencies_go_on_below_the_tonic() {
        let harmony = Harmony::default();
        assert!((harmony.frequency(-7.0) * 2.0 - harmony.frequency(0.0)).abs() < 1e-3);
    }

    #[test]
    fn a_just_fifth_is_three_to_two_and_a4_tunes_all() {
        let harmony = Harmony::new(33.0, SCALES[1].1, true, 432.0, &[]).unwrap();
        assert!((harmony.frequency(4.0) / harmony.frequency(0.0) - 1.5).abs() < 1e-5);
        assert!((harmony.frequency(21.0) - 432.0).abs() < 1e-3);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (tonic, scale, a4) in [
            (12.0, [0.0, 2.0], 440.0),
            (38.0, [2.0, 4.0], 440.0),
            (38.0, [0.0, f32::NAN], 440.0),
            (38.0, [0.0, 12.0], 440.0),
            (f32::NAN, [0.0, 2.0], 440.0),
            (38.0, [0.0, 2.0], 0.0),
        ] {
            assert!(matches!(
                Harmony::new(tonic, &scale, false, a4, &[]),
                Err(SynthError::Harmony(_))
            ));
        }
        assert!(Harmony::new(38.0, &[], false, 440.0, &[]).is_err());
        assert!(Harmony::new(38.0, &[0.0], false, 440.0, &[[0.0, 99.0, 0.0]]).is_err());
    }
}
