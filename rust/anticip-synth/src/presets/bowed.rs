//! A bowed string: saws with vibrato and bow noise, through the resonances of a wooden body.

use fundsp::audionode::AudioNode;
use fundsp::oscillator::PolySaw;

use super::{Controls, Instrument, scale};
use crate::clock::RandomTicks;
use crate::control::{FRAME, Line, frame_seconds};
use crate::params::{Event, Settings};
use crate::stroke::Stroke;
use crate::tone::{Band, Body, Tone, White, band, with_sample_rate};

/// Output gain.
const LEVEL: f32 = 0.47;
/// The bridge hill, the air resonance below, and a dip between.
const RESONANCE: Body = [[560.0, 0.8, -14.0], [3_200.0, 0.6, 14.0], [160.0, 0.7, 6.0]];
/// Air mode, two plate modes and bridge hill of a violin: Hz, Q, gain.
const BODY: [[f32; 3]; 5] = [
    [285.0, 6.0, 0.8],
    [460.0, 7.0, 1.2],
    [560.0, 7.0, 1.2],
    [1_050.0, 2.5, 0.8],
    [2_500.0, 1.4, 1.6],
];
/// Vibrato: Hz and fraction of the frequency.
const VIBRATO: [f32; 2] = [5.4, 0.006];
/// Levels of the saws: the string twice, slightly detuned, and the string below.
const SAW_LEVELS: [f32; 3] = [0.2, 0.2, 0.2];

pub(crate) struct Bowed {
    saws: [PolySaw<f32>; 3],
    body: [[Band; BODY.len()]; 2],
    tone: Tone,
    white: White,
    ticks: RandomTicks,
    bow: Stroke,
    vibrato: f32,
    shift: f32,
    dt: f32,
    max_frequency: f32,
}

impl Bowed {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        let mut bowed = Self {
            saws: core::array::from_fn(|k| {
                with_sample_rate(PolySaw::with_phase(0.29 * k as f32), sample_rate)
            }),
            body: core::array::from_fn(|_| {
                BODY.map(|[centre, q, _]| band(sample_rate, centre.min(0.4 * sample_rate as f32), q))
            }),
            tone: Tone::new(sample_rate, &RESONANCE),
            white: White::new(settings.seed ^ 0xb0),
            ticks: RandomTicks::new(sample_rate, settings.seed ^ 0xb0ed),
            bow: Stroke::new(0.8, sample_rate),
            vibrato: 0.0,
            shift: 0.0,
            dt: frame_seconds(sample_rate),
            max_frequency: 0.42 * sample_rate as f32,
        };
        bowed.reset();
        bowed
    }
}

impl Instrument for Bowed {
    fn reset(&mut self) {
        for saw in &mut self.saws {
            saw.reset();
        }
        for node in self.body.iter_mut().flatten() {
            node.reset();
        }
        self.tone.reset();
        self.white.reset();
        self.ticks.reset();
        self.bow.reset();
        // NaN forces an update in the next frame.
        self.shift = f32::NAN;
        self.vibrato = 0.0;
    }

    fn event(&mut self, event: Event, _: f32, _: &Controls) {
        // An onset starts a new stroke of the bow; the boost does the rest.
        if matches!(event, Event::Onset) {
            self.bow.begin();
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        if self.ticks.note(controls) {
            self.bow.begin();
        }
        let bow = self.bow.frame();
        self.vibrato =
            (self.vibrato + core::f32::consts::TAU * VIBRATO[0] * self.dt) % core::f32::consts::TAU;
        let vibrato = 1.0 + VIBRATO[1] * self.vibrato.sin();
        let octave = controls.harmony.octave();
        let string = controls.frequency(Line::flat(octave));
        let [root, fifth, _] = controls.chord;
        let lower_string = controls.frequency(root + fifth);
        let noise = 0.02 + 0.16 * controls.roughness.to;
        let shift = controls.resonance_shift();
        if shift != self.shift {
            self.shift = shift;
            for node in &mut self.body {
                for (band, [centre, ..]) in node.iter_mut().zip(BODY) {
                    band.set_center((centre * shift.exp2()).min(self.max_frequency));
                }
            }
        }
        for (i, y) in output.iter_mut().enumerate() {
            let f = string.at(i) * vibrato;
            let a = self.saws[0].filter_mono(f);
            let b = self.saws[1].filter_mono(1.003 * f);
            let c = self.saws[2].filter_mono(lower_string.at(i));
            let level = bow.at(i) * controls.level(i);
            let bow_noise = noise * self.white.next();
            let middle = SAW_LEVELS[2] * c + bow_noise;
            let sides = [
                SAW_LEVELS[0] * (0.7 * a + 0.3 * b),
                SAW_LEVELS[1] * (0.3 * a + 0.7 * b),
            ];
            for (k, v) in y.iter_mut().enumerate() {
                let x = (sides[k] + middle) * level;
                let wood: f32 = self.body[k]
                    .iter_mut()
                    .zip(BODY)
                    .map(|(node, [_, _, gain])| gain * node.filter_mono(x))
                    .sum();
                *v = 0.05 * x + wood;
            }
        }
        self.tone.render(output, controls, controls.octaves(1.4, 6.2));
        scale(output, LEVEL);
    }
}
