//! Plucked strings.

use super::{Controls, Instrument, scale};
use crate::control::FRAME;
use crate::notes::{Note, Notes};
use crate::params::{Event, Parameter, Settings};
use crate::strings::{Pluck, Strings};
use crate::tone::{Body, Tone};

/// Output gain.
const LEVEL: f32 = 0.85;
/// Gain for a root an octave higher, in octaves of level.
const LEVEL_PER_OCTAVE: f32 = 0.35;
/// A small box, and the nail on the string; transposed with the root, so that its dip does not fall on the
/// notes.
const RESONANCE: Body = [[140.0, 0.4, 15.0], [1_570.0, 0.41, -17.0], [6_400.0, 1.44, 11.0]];

pub(crate) struct Plucked {
    notes: Notes,
    strings: Strings,
    tone: Tone,
    level: f32,
}

impl Plucked {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            notes: Notes::new(sample_rate, settings.seed ^ 0x9_1ec),
            strings: Strings::new(sample_rate, settings.seed),
            level: LEVEL * (LEVEL_PER_OCTAVE * settings.harmony.octaves_above_default()).exp2(),
            tone: Tone::transposed(sample_rate, &RESONANCE, settings.harmony.octaves_above_default()),
        }
    }
}

/// Plucks a string: rough movement with a harder pick, an open posture nearer the middle of the string.
fn pluck(strings: &mut Strings, controls: &Controls, note: Note) {
    let (brightness, roughness) = (controls.brightness.to, controls.roughness.to);
    strings.pluck(Pluck {
        frequency: controls.harmony.frequency(note.degree),
        // The box amplifies high notes less.
        amplitude: note.strength * (0.22 + 0.24 * controls.target(Parameter::Pitch)),
        ring: 1.0 + 2.6 * (1.0 - controls.target(Parameter::Density)),
        hardness: (0.15 * brightness + 0.2 * note.strength.min(1.0) + 0.9 * roughness - 0.2).clamp(0.02, 1.0),
        position: 0.08 + 0.3 * controls.target(Parameter::Space),
        weights: note.weights,
    });
}

impl Instrument for Plucked {
    fn reset(&mut self) {
        self.notes.reset();
        self.strings.reset();
        self.tone.reset();
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        let (root, octave) = (controls.note(), controls.harmony.octave());
        for (voice, line) in controls.chord.into_iter().enumerate() {
            // An onset plays a chord, a phrase the same with its root an octave lower.
            let is_lower = matches!(event, Event::Phrase) && voice == 0;
            let note = Note {
                degree: root + line.to.round() + if is_lower { -octave } else { 0.0 },
                strength,
                weights: [1.15 - 0.15 * voice as f32, 0.85 + 0.15 * voice as f32],
            };
            pluck(&mut self.strings, controls, note);
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        let strings = &mut self.strings;
        self.notes.frame(controls, |note| pluck(strings, controls, note));
        *output = [[0.0; 2]; FRAME];
        self.strings.render(output);
        self.tone.render_shifted(
            output,
            controls,
            controls.tracked_octaves(4.0, 4.7),
            controls.open_resonance_shift(1.2),
        );
        scale(output, self.level);
    }
}
