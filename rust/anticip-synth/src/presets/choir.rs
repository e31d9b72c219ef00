//! A choir: eight singers through the formants of a vowel (Peterson & Barney 1952; Sundberg 1987).

use fundsp::audionode::AudioNode;
use fundsp::oscillator::PolySaw;

use super::{Controls, Instrument, scale};
use crate::clock::RandomTicks;
use crate::control::{FRAME, Line, frame_seconds};
use crate::manner::Following;
use crate::params::{Event, Settings};
use crate::stroke::Stroke;
use crate::tone::{Band, Body, Tone, White, band, with_sample_rate};

/// Output gain.
const LEVEL: f32 = 1.96;
/// Attenuates where a choir is weak: between the first formants and the singers' formant, and slightly at and
/// below the latter. Energy there sounds like strings.
const RESONANCE: Body = [[1_180.0, 0.48, -17.0], [310.0, 0.66, -2.5], [2_800.0, 1.5, -0.6]];
/// A steady pulse and smooth movement fill the middle, a closed posture the lows; fast hands bring out the
/// highs.
const FOLLOWING: Following = Following {
    octaves: [0.54, -0.51, -0.19, 0.16, -0.17],
    lifts: [
        [-0.3, -7.5, -2.3, 12.5, 0.6],
        [-0.4, 6.9, -9.5, 0.4, 3.7],
        [5.3, 2.6, 2.4, 3.1, 8.0],
    ],
    octave_gain: 1.0,
    lift_gains: [0.45, 0.45, 0.16],
};
const SINGERS: usize = 8;
const FORMANTS: usize = 5;
/// Vowels from closed to open to front (u o a e i): frequencies of five formants in Hz, and their levels in
/// dB.
const VOWELS: [[[f32; FORMANTS]; 2]; 5] = [
    [
        [350.0, 600.0, 2_700.0, 2_900.0, 3_300.0],
        [0.0, -9.0, -24.0, -24.0, -30.0],
    ],
    [
        [450.0, 800.0, 2_830.0, 3_000.0, 3_500.0],
        [0.0, -5.0, -18.0, -18.0, -24.0],
    ],
    [
        [700.0, 1_150.0, 2_800.0, 3_200.0, 3_600.0],
        [0.0, -2.0, -10.0, -12.0, -18.0],
    ],
    [
        [500.0, 1_750.0, 2_550.0, 3_300.0, 3_700.0],
        [0.0, -4.0, -6.0, -8.0, -14.0],
    ],
    [
        [320.0, 2_150.0, 2_950.0, 3_500.0, 3_900.0],
        [0.0, -3.0, -2.0, -5.0, -10.0],
    ],
];
/// Bandwidths of the formants, Hz.
const BANDWIDTHS: [f32; FORMANTS] = [90.0, 110.0, 150.0, 170.0, 200.0];

#[derive(Clone)]
struct Singer {
    saw: PolySaw<f32>,
    /// State of a low-pass: a voice falls by 12 dB per octave, a saw only by 6.
    filtered: f32,
    /// Vibrato phase.
    vibrato_phase: f32,
    /// Vibrato rate, Hz.
    vibrato_hz: f32,
    /// Detuning factor.
    detune: f32,
    weights: [f32; 2],
}

pub(crate) struct Choir {
    singers: [Singer; SINGERS],
    formants: [[Band; FORMANTS]; 2],
    tone: Tone,
    white: White,
    ticks: RandomTicks,
    syllable: Stroke,
    dt: f32,
    softening: f32,
}

impl Choir {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        let mut choir = Self {
            singers: core::array::from_fn(|s| {
                let saw =
                    with_sample_rate(PolySaw::with_phase((0.137 + 0.311 * s as f32) % 1.0), sample_rate);
                let side = s as f32 / (SINGERS - 1) as f32;
                Singer {
                    saw,
                    filtered: 0.0,
                    vibrato_phase: 0.0,
                    vibrato_hz: 4.7 + 0.17 * ((3 * s) % SINGERS) as f32,
                    detune: 1.0 + 0.0035 * (((5 * s) % SINGERS) as f32 / 3.5 - 1.0),
                    weights: [1.2 - 0.9 * side, 0.3 + 0.9 * side],
                }
            }),
            formants: core::array::from_fn(|_| core::array::from_fn(|_| band(sample_rate, 500.0, 5.0))),
            tone: Tone::new(sample_rate, &RESONANCE).following(FOLLOWING),
            white: White::new(settings.seed ^ 0xc0),
            ticks: RandomTicks::new(sample_rate, settings.seed ^ 0xc401),
            syllable: Stroke::new(0.8, sample_rate),
            dt: frame_seconds(sample_rate),
            softening: 1.0 - (-core::f32::consts::TAU * 500.0 / sample_rate as f32).exp(),
        };
        choir.reset();
        choir
    }
}

impl Instrument for Choir {
    fn reset(&mut self) {
        for singer in &mut self.singers {
            singer.saw.reset();
            singer.filtered = 0.0;
            singer.vibrato_phase = 0.0;
        }
        for node in self.formants.iter_mut().flatten() {
            node.reset();
        }
        self.tone.reset();
        self.white.reset();
        self.ticks.reset();
        self.syllable.reset();
    }

    fn event(&mut self, event: Event, _: f32, _: &Controls) {
        if matches!(event, Event::Onset) {
            self.syllable.begin();
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        // A syllable: the mouth closes for a moment and opens with a breath.
        if self.ticks.note(controls) {
            self.syllable.begin();
        }
        let opening = self.syllable.frame();
        let vowel = (controls.brightness.to * 0.999 + 0.12 * controls.boost.to).clamp(0.0, 0.999) * 4.0;
        let (first, fraction) = (vowel as usize, vowel.fract());
        let mut gains = [0.0; FORMANTS];
        for f in 0..FORMANTS {
            let between = |row: usize| {
                VOWELS[first][row][f] + fraction * (VOWELS[first + 1][row][f] - VOWELS[first][row][f])
            };
            let centre = between(0);
            gains[f] = 10.0_f32.powf(between(1) / 20.0);
            for side in &mut self.formants {
                side[f].set_center_q(centre, centre / BANDWIDTHS[f]);
            }
        }
        let octave = controls.harmony.octave();
        let [one, two, three] = controls.chord;
        let parts = [Line::flat(0.0), one, two, three];
        let lines: [Line; 4] = core::array::from_fn(|p| {
            let lift = if p == 0 { 0.0 } else { octave };
            controls.frequency(parts[p] + Line::flat(lift))
        });
        let mut voices = [[0.0_f32; 2]; FRAME];
        for (s, singer) in self.singers.iter_mut().enumerate() {
            singer.vibrato_phase = (singer.vibrato_phase + singer.vibrato_hz * self.dt) % 1.0;
            let bend = singer.detune * (1.0 + 0.007 * (core::f32::consts::TAU * singer.vibrato_phase).sin());
            let line = lines[s % 4];
            for (i, y) in voices.iter_mut().enumerate() {
                let x = singer.saw.filter_mono(line.at(i) * bend);
                singer.filtered += self.softening * (x - singer.filtered);
                y[0] += singer.filtered * singer.weights[0];
                y[1] += singer.filtered * singer.weights[1];
            }
        }
        let breath_level = 0.05 + 0.3 * controls.roughness.to;
        for (i, y) in output.iter_mut().enumerate() {
            let level = opening.at(i) * controls.level(i);
            // A syllable starts with breath noise.
            let breath = breath_level * self.white.next() * (0.3 + 2.0 * (opening.at(i) - 1.0).abs());
            for (k, v) in y.iter_mut().enumerate() {
                let x = 0.2 * voices[i][k] * level + 0.2 * breath * level.min(1.0);
                *v = self.formants[k]
                    .iter_mut()
                    .zip(gains)
                    .map(|(node, gain)| gain * node.filter_mono(x))
                    .sum();
            }
        }
        self.tone.render(output, controls, controls.octaves(3.5, 3.5));
        scale(output, LEVEL);
    }
}
