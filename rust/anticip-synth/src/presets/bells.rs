//! Cast bells: struck with the partials of a church bell (Rossing 2000) and left to ring.

use super::{Controls, Instrument, scale};
use crate::control::FRAME;
use crate::manner::Following;
use crate::modes::{Modes, Partial};
use crate::notes::{Note, Notes};
use crate::params::{Event, Settings};
use crate::tone::{Body, Tone};

/// Output gain.
const LEVEL: f32 = 1.69;
/// Bronze: without lows or hiss.
const RESONANCE: Body = [[1_550.0, 1.35, 19.0], [230.0, 0.45, -27.0], [7_000.0, 0.6, -9.0]];
/// A steady pulse and fast hands ring the middle partials, an open posture the hum, a closed one and fast
/// hands the upper partials.
const FOLLOWING: Following = Following {
    octaves: [0.25, 0.2, -0.35, -0.3, 0.0],
    lifts: [
        [-2.0, 0.0, 0.0, 7.5, 4.0],
        [0.0, 4.0, 8.0, 0.0, 0.0],
        [-3.5, 0.0, -6.5, 0.0, 8.0],
    ],
    octave_gain: -4.9,
    lift_gains: [0.6, 0.47, 0.19],
};
/// Hum, prime, tierce, quint, nominal and upper partials: frequency ratio, amplitude, decay.
const PARTIALS: [[f32; 3]; 10] = [
    [0.5, 0.45, 1.6],
    [1.0, 0.7, 1.3],
    [1.2, 0.5, 1.0],
    [1.5, 0.3, 0.8],
    [2.0, 1.0, 0.9],
    [2.66, 0.5, 0.6],
    [3.0, 0.5, 0.5],
    [4.16, 0.6, 0.4],
    [5.43, 0.5, 0.25],
    [6.79, 0.4, 0.18],
];

pub(crate) struct Bells {
    notes: Notes,
    modes: Modes,
    tone: Tone,
}

impl Bells {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            notes: Notes::new(sample_rate, settings.seed ^ 0xbe11),
            modes: Modes::new(sample_rate),
            tone: Tone::new(sample_rate, &RESONANCE).following(FOLLOWING),
        }
    }
}

/// Strikes a bell; rough movement uses a harder mallet, which excites the upper partials.
fn strike(modes: &mut Modes, controls: &Controls, note: Note) {
    let prime = controls
        .harmony
        .frequency(note.degree + 1.0 * controls.harmony.octave());
    let hardness = (0.3 * controls.brightness.to + 0.2 * note.strength + 0.8 * controls.roughness.to - 0.1)
        .clamp(0.0, 1.0);
    let decay_factor = 1.0 / (1.0 + 0.002 * prime);
    let excitation = |ratio: f32| (-1.4 * (1.0 - hardness) * ratio).exp();
    // A soft mallet is about as loud as a hard one; small bells are quieter.
    let loudness_compensation = excitation(1.6).powf(-0.65) * (500.0 / prime).powf(0.22);
    for [ratio, amplitude, decay] in PARTIALS {
        let partial = Partial {
            frequency: prime * ratio * (1.0 + 0.03 * controls.roughness.to * (ratio - 1.0)),
            amplitude: 0.11 * loudness_compensation * note.strength * amplitude * excitation(ratio),
            decay: 2.2 * decay * decay_factor,
        };
        modes.strike(partial, note.weights);
    }
}

impl Instrument for Bells {
    fn reset(&mut self) {
        self.notes.reset();
        self.modes.reset();
        self.tone.reset();
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        let octave_down = match event {
            Event::Onset => 0.0,
            Event::Phrase => controls.harmony.octave(),
        };
        let note = Note {
            degree: controls.note() - octave_down,
            strength: 1.3 * strength,
            weights: [1.0; 2],
        };
        strike(&mut self.modes, controls, note);
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        let modes = &mut self.modes;
        self.notes.frame(controls, |note| strike(modes, controls, note));
        *output = [[0.0; 2]; FRAME];
        self.modes.render(output);
        // The beat modulates the level of ringing bells, like the motor of a vibraphone.
        controls.apply_level(output);
        self.tone
            .render(output, controls, controls.tracked_octaves(3.4, 4.0));
        scale(output, LEVEL);
    }
}
