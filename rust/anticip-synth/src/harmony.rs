//! Key, scale, tuning and chords: from a pitch parameter to a frequency.

use fundsp::math::smooth3;

use crate::error::SynthError;

/// Maximum number of notes per octave.
const MAX_NOTES: usize = 12;
/// Maximum number of chords.
const MAX_CHORDS: usize = 8;
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

/// Default lowest note, as a MIDI number: D2.
const DEFAULT_TONIC: f32 = 38.0;

/// Scales by name, in semitones above the tonic.
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

/// Default chords: steps of a seven-note scale above the note, for three voices; each phrase moves to the
/// next.
const DEFAULT_CHORDS: [[f32; 3]; 5] = [
    [0.0, 4.0, 7.0],
    [0.0, 2.0, 4.0],
    [0.0, 3.0, 7.0],
    [0.0, 4.0, 8.0],
    [0.0, 2.0, 6.0],
];

/// Key, scale, tuning and chords. The default is D dorian from D2 in equal temperament.
#[derive(Clone, Debug)]
pub struct Harmony {
    scale: [f32; MAX_NOTES],
    note_count: usize,
    tonic: f32,
    a4: f32,
    chords: [[f32; 3]; MAX_CHORDS],
    chord_count: usize,
}

impl Default for Harmony {
    fn default() -> Self {
        let mut scale = [0.0; MAX_NOTES];
        scale[..7].copy_from_slice(SCALES[0].1);
        let mut chords = [[0.0; 3]; MAX_CHORDS];
        chords[..DEFAULT_CHORDS.len()].copy_from_slice(&DEFAULT_CHORDS);
        Self {
            scale,
            note_count: 7,
            tonic: DEFAULT_TONIC,
            a4: 440.0,
            chords,
            chord_count: DEFAULT_CHORDS.len(),
        }
    }
}

impl Harmony {
    /// `tonic` is the MIDI number of the lowest note, `scale` the semitones above it within the octave
    /// (rising from 0, fractions allowed), `just` tunes whole semitones to five-limit ratios above the tonic,
    /// `a4` is in Hz, `chords` are steps of the scale above the note (empty for the default ones).
    ///
    /// # Errors
    /// [`SynthError::Harmony`] if an argument is out of range.
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
        let is_rising = scale.windows(2).all(|pair| pair[0] < pair[1]);
        let is_in_octave = scale.first() == Some(&0.0) && scale.last().is_some_and(|last| *last < 12.0);
        if scale.len() > MAX_NOTES || !is_rising || !is_in_octave {
            return Err(SynthError::Harmony(
                "scale: expected 1 to 12 semitones that rise from 0 and stay below 12",
            ));
        }
        if !(380.0..=500.0).contains(&a4) {
            return Err(SynthError::Harmony("a4: expected 380 to 500 Hz"));
        }
        if chords.len() > MAX_CHORDS || !chords.iter().flatten().all(|step| step.abs() <= 24.0) {
            return Err(SynthError::Harmony(
                "chords: expected at most 8 of three steps from -24 to 24",
            ));
        }
        let mut harmony = Self {
            note_count: scale.len(),
            tonic,
            a4,
            ..Self::default()
        };
        for (note, semitones) in harmony.scale.iter_mut().zip(scale) {
            let is_whole = semitones.fract() == 0.0;
            *note = if just && is_whole {
                12.0 * JUST[*semitones as usize].log2()
            } else {
                *semitones
            };
        }
        if chords.is_empty() {
            harmony.chords = harmony.chords.map(|chord| chord.map(|step| harmony.steps(step)));
        } else {
            harmony.chords[..chords.len()].copy_from_slice(chords);
            harmony.chord_count = chords.len();
        }
        Ok(harmony)
    }

    /// Octaves of the lowest note above the default one.
    pub(crate) fn octaves_above_default(&self) -> f32 {
        (self.tonic - DEFAULT_TONIC) / 12.0
    }

    /// Steps per octave.
    pub(crate) fn octave(&self) -> f32 {
        self.note_count as f32
    }

    /// The interval of this many steps of a seven-note scale in steps of this scale, rounded.
    pub(crate) fn steps(&self, sevenths: f32) -> f32 {
        (sevenths * (self.octave() / 7.0)).round()
    }

    /// The chord after this number of phrases.
    pub(crate) fn chord(&self, phrase: usize) -> [f32; 3] {
        self.chords[phrase % self.chord_count]
    }

    /// Scale step of a pitch in 0..1: flat at the notes, gliding between them, never falling as pitch rises.
    pub(crate) fn degree(&self, pitch: f32) -> f32 {
        let d = pitch * (OCTAVES * self.octave());
        let whole = d.floor();
        let fraction = ((d - whole - 0.25) * 2.0).clamp(0.0, 1.0);
        whole + smooth3(fraction)
    }

    /// Frequency of a (fractional) scale step, Hz.
    pub(crate) fn frequency(&self, degree: f32) -> f32 {
        let whole = degree.floor();
        let fraction = degree - whole;
        let count = self.note_count as i32;
        let note = |step: i32| {
            let octave = step.div_euclid(count);
            12.0 * octave as f32 + self.scale[step.rem_euclid(count) as usize]
        };
        let low = note(whole as i32);
        let high = note(whole as i32 + 1);
        self.a4 * ((self.tonic + low + fraction * (high - low) - 69.0) / 12.0).exp2()
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

    #[test]
    fn scales_are_what_their_names_say() {
        let scale = |name: &str| SCALES.iter().find(|(known, _)| *known == name).unwrap().1;
        // A mode is the scale starting on another of its notes.
        let mode = |of: &str, step: usize| -> Vec<f32> {
            let notes = scale(of);
            (0..notes.len())
                .map(|i| (notes[(i + step) % notes.len()] - notes[step]).rem_euclid(12.0))
                .collect()
        };
        let without = |of: &str, omitted: [usize; 2]| -> Vec<f32> {
            scale(of)
                .iter()
                .enumerate()
                .filter(|(i, _)| !omitted.contains(i))
                .map(|(_, note)| *note)
                .collect()
        };
        let steps: Vec<_> = scale("major").windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(steps, [2.0, 2.0, 1.0, 2.0, 2.0, 2.0]);
        for (name, step) in [
            ("dorian", 1),
            ("phrygian", 2),
            ("lydian", 3),
            ("mixolydian", 4),
            ("minor", 5),
        ] {
            assert_eq!(scale(name), mode("major", step), "{name}");
        }
        assert_eq!(scale("pentatonic"), without("major", [3, 6]));
        assert_eq!(scale("minor-pentatonic"), mode("pentatonic", 4));
        assert_eq!(scale("hirajoshi"), without("minor", [3, 6]));
        assert_eq!(scale("harmonic-minor")[..6], scale("minor")[..6]);
        assert_eq!(scale("harmonic-minor")[6], 11.0, "its leading note");
        assert!(
            scale("whole-tone")
                .iter()
                .enumerate()
                .all(|(i, note)| *note == 2.0 * i as f32)
        );
        assert!(
            scale("chromatic")
                .iter()
                .enumerate()
                .all(|(i, note)| *note == i as f32)
        );
        assert_eq!(scale("chromatic").len(), 12);
    }

    #[test]
    fn just_notes_are_near_the_tempered_ones_and_fractions_stay() {
        let just = Harmony::new(38.0, SCALES[11].1, true, 440.0, &[]).unwrap();
        for (semitone, note) in just.scale.iter().enumerate() {
            assert!((note - semitone as f32).abs() < 0.18, "{semitone}: {note}");
        }
        let quarter = [0.0, 1.5, 7.0];
        let found = Harmony::new(38.0, &quarter, true, 440.0, &[]).unwrap();
        assert_eq!(found.scale[1], 1.5);
        assert!(found.scale[2] > 7.0);
        assert_eq!(
            Harmony::new(38.0, &quarter, false, 440.0, &[]).unwrap().scale[..3],
            quarter
        );
    }

    #[test]
    fn a_pitch_rests_on_its_note_for_half_of_the_way_to_the_next() {
        let harmony = Harmony::default();
        for note in 0..21 {
            let degree = |part: f32| harmony.degree((note as f32 + part) / 21.0) - note as f32;
            assert!(degree(0.02).abs() < 1e-4 && degree(0.24).abs() < 1e-4);
            assert!((degree(0.5) - 0.5).abs() < 1e-3 && (degree(0.76) - 1.0).abs() < 1e-4);
            assert!(degree(0.3) > 0.0 && degree(0.7) < 1.0);
        }
    }

    #[test]
    fn chords_rise_from_the_note_and_come_round() {
        let default = Harmony::default();
        for phrase in 0..5 {
            let [root, middle, top] = default.chord(phrase);
            assert!(
                root == 0.0 && 2.0 <= middle && middle < top && top <= 8.0,
                "{phrase}"
            );
            assert!(
                (0..phrase).all(|other| default.chord(other) != default.chord(phrase)),
                "{phrase}"
            );
            assert_eq!(default.chord(phrase + 5), default.chord(phrase));
            // Rounded to the five notes.
            let five = Harmony::new(38.0, SCALES[7].1, false, 440.0, &[]).unwrap();
            let expected = default.chord(phrase).map(|step| (step * 5.0 / 7.0).round());
            assert_eq!(five.chord(phrase), expected);
        }
        let chords = [[0.0, 1.0, 24.0], [-24.0, 2.0, 3.0]];
        let own = Harmony::new(38.0, SCALES[7].1, false, 440.0, &chords).unwrap();
        assert_eq!(
            [own.chord(0), own.chord(1), own.chord(2)],
            [chords[0], chords[1], chords[0]]
        );
    }

    #[test]
    fn the_ends_of_what_is_allowed_are_allowed() {
        let of = |tonic, a4, chords: usize| {
            Harmony::new(tonic, SCALES[11].1, false, a4, &vec![[0.0; 3]; chords]).is_ok()
        };
        assert!(of(24.0, 380.0, 8) && of(60.0, 500.0, 1));
        assert!(!of(23.9, 440.0, 1) && !of(60.1, 440.0, 1) && !of(38.0, 379.0, 1) && !of(38.0, 501.0, 1));
        assert!(!of(38.0, 440.0, 9));
        let thirteen: Vec<f32> = (0..13).map(|i| i as f32 * 0.9).collect();
        assert!(Harmony::new(38.0, &thirteen[..12], false, 440.0, &[]).is_ok());
        assert!(Harmony::new(38.0, &thirteen, false, 440.0, &[]).is_err());
        assert!(
            Harmony::new(38.0, &[0.0, 2.0, 2.0], false, 440.0, &[]).is_err(),
            "two the same"
        );
    }
}
