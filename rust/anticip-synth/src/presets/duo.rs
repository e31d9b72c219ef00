//! A duo: a reed on the left and a flute on the right, each played by its half of the body.

use fundsp::audionode::AudioNode;
use fundsp::oscillator::PolySaw;

use super::{Controls, Instrument, scale};
use crate::clock::RandomTicks;
use crate::control::{FRAME, Line, Smoother};
use crate::params::{Event, Settings};
use crate::stroke::Stroke;
use crate::tone::{Body, Tone, White, with_sample_rate};

/// Output gain.
const LEVEL: f32 = 0.63;
/// Gain for a root an octave higher, in octaves of level.
const LEVEL_PER_OCTAVE: f32 = -0.2;
/// A bore; transposed with the root, so that its dip does not fall on the notes.
const RESONANCE: Body = [[2_060.0, 0.65, -18.0], [2_430.0, 0.85, -18.0], [690.0, 2.4, 18.0]];
/// Partials from which the level of a note after the body is estimated.
const PARTIALS: usize = 12;
/// Maximum gain that compensates for it.
const MAX_COMPENSATION: f32 = 12.0;
/// Level of a resting half.
const REST_LEVEL: f32 = 0.1;
/// Level of each voice on the other side.
const CROSSTALK: f32 = 0.15;

/// One of the two voices.
struct Voice {
    saws: [PolySaw<f32>; 2],
    degree: Smoother,
    breath: Stroke,
    level: Smoother,
    /// Gain that makes its note as loud as any other after the body.
    compensation: f32,
}

pub(crate) struct Duo {
    voices: [Voice; 2],
    white: White,
    tone: Tone,
    level: f32,
    ticks: RandomTicks,
    is_running: bool,
}

impl Duo {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        let saw = |phase: f32| with_sample_rate(PolySaw::with_phase(phase), sample_rate);
        let mut duo = Self {
            voices: core::array::from_fn(|side| Voice {
                // Two saws half a turn apart make a square wave, which the right voice plays.
                saws: [saw(0.1), saw(0.1 + 0.5 * side as f32)],
                degree: Smoother::new(0.015, sample_rate),
                breath: Stroke::new(0.7, sample_rate),
                level: Smoother::new(0.03, sample_rate),
                compensation: 1.0,
            }),
            white: White::new(settings.seed ^ 0xd0),
            level: LEVEL * (LEVEL_PER_OCTAVE * settings.harmony.octaves_above_default()).exp2(),
            tone: Tone::transposed(sample_rate, &RESONANCE, settings.harmony.octaves_above_default()),
            ticks: RandomTicks::new(sample_rate, settings.seed ^ 0xd00),
            is_running: false,
        };
        duo.reset();
        duo
    }

    /// Scale steps above the note, and level, of a side: from the height of its hand and the speed of its
    /// hand and foot.
    fn steps_and_level(side: usize, controls: &Controls) -> (f32, f32) {
        let octave = controls.harmony.octave();
        let interval = [0.0, octave][side];
        if !controls.has_limbs {
            return (interval + [0.0, controls.chord[1].to.round()][side], 0.7);
        }
        let (hand, foot) = (controls.limbs[side], controls.limbs[side + 2]);
        let speed = hand[0].to.max(0.7 * foot[0].to);
        let height_steps = ((hand[1].to - 0.3) * octave).round();
        (interval + height_steps, REST_LEVEL + 1.3 * speed)
    }
}

/// Hz and power of the partials of a note: of a saw for the reed, only the odd ones for the flute.
fn partials(side: usize, hz: f32) -> impl Iterator<Item = [f32; 2]> {
    (1..=PARTIALS).step_by([1, 2][side]).map(move |k| {
        let k = k as f32;
        [k * hz, 1.0 / (k * k)]
    })
}

impl Instrument for Duo {
    fn reset(&mut self) {
        for voice in &mut self.voices {
            voice.saws.iter_mut().for_each(AudioNode::reset);
            voice.breath.reset();
            voice.level.jump(0.0);
        }
        self.white.reset();
        self.tone.reset();
        self.ticks.reset();
        self.is_running = false;
    }

    fn event(&mut self, _: Event, _: f32, _: &Controls) {
        for voice in &mut self.voices {
            voice.breath.begin();
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        if self.ticks.note(controls) {
            let side = usize::from(self.ticks.random.next() > 0.5);
            self.voices[side].breath.begin();
        }
        *output = [[0.0; 2]; FRAME];
        let octaves = controls.octaves(3.6, 3.4);
        let mut compensations = [Line::flat(0.0); 2];
        let breath_level = 0.01 + 0.1 * controls.roughness.to;
        for (side, voice) in self.voices.iter_mut().enumerate() {
            if controls.limb_strokes[side] > 0.0 || controls.limb_strokes[side + 2] > 0.0 {
                voice.breath.begin();
            }
            let (steps, level) = Self::steps_and_level(side, controls);
            let degree = controls.note() + steps + controls.harmony.octave();
            if !self.is_running {
                voice.degree.jump(degree);
            }
            let pitch = voice.degree.step(degree).map(|d| controls.harmony.frequency(d));
            let level = voice.level.step(level);
            let breath = voice.breath.frame();
            let square = [0.6, -0.95][side];
            let detuned = [1.004, 1.0][side];
            for (i, y) in output.iter_mut().enumerate() {
                let f = pitch.at(i);
                let x = voice.saws[0].filter_mono(f) + square * voice.saws[1].filter_mono(detuned * f);
                let x = ([0.45, 0.3][side] * x + breath_level * self.white.next())
                    * level.at(i)
                    * breath.at(i)
                    * controls.level(i);
                y[side] = x;
            }
            let power = self
                .tone
                .output_power(controls, octaves, partials(side, pitch.to));
            let compensation = (1.0 / power.sqrt()).min(MAX_COMPENSATION);
            compensations[side] = Line {
                from: if self.is_running {
                    voice.compensation
                } else {
                    compensation
                },
                to: compensation,
            };
            voice.compensation = compensation;
        }
        self.is_running = true;
        self.tone.render(output, controls, octaves);
        for (i, y) in output.iter_mut().enumerate() {
            let [reed, flute] = [y[0] * compensations[0].at(i), y[1] * compensations[1].at(i)];
            *y = [reed + CROSSTALK * flute, flute + CROSSTALK * reed];
        }
        scale(output, self.level);
    }
}
