//! A duo: a reed on the left and a flute-like voice on the right, each played by its half of the body.

use fundsp::audionode::AudioNode;
use fundsp::oscillator::PolySaw;

use super::{Controls, Instrument, scale};
use crate::clock::Strewer;
use crate::control::{FRAME, Line, Smoother};
use crate::params::{Event, Settings};
use crate::stroke::Stroke;
use crate::tone::{Body, Tone, White, running};

const LEVEL: f32 = 0.63;
/// What is made up for a root an octave higher, in octaves of level.
const BY_ROOT: f32 = -0.2;
/// A bore; it moves with the root, or a dip of it would fall on the notes.
const RESONANCE: Body = [[2_060.0, 0.65, -18.0], [2_430.0, 0.85, -18.0], [690.0, 2.4, 18.0]];
/// Partials by which the level of a note behind the body is known, and the most that is made up for it.
const PARTIALS: usize = 12;
const MOST: f32 = 12.0;
/// What is heard of a half that rests, and of each voice on the other side.
const REST: f32 = 0.1;
const ACROSS: f32 = 0.15;

/// One of the two: its saws, the glide to its note, its breath and its level.
struct Voice {
    saws: [PolySaw<f32>; 2],
    degree: Smoother,
    breath: Stroke,
    level: Smoother,
    /// What makes its note as loud as any other behind the body.
    even: f32,
}

pub(crate) struct Duo {
    voices: [Voice; 2],
    white: White,
    tone: Tone,
    level: f32,
    strewer: Strewer,
    begun: bool,
}

impl Duo {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        let saw = |phase: f32| running(PolySaw::with_phase(phase), sample_rate);
        let mut duo = Self {
            voices: core::array::from_fn(|side| Voice {
                // Two saws half a turn apart are a square: what the right one plays.
                saws: [saw(0.1), saw(0.1 + 0.5 * side as f32)],
                degree: Smoother::new(0.015, sample_rate),
                breath: Stroke::new(0.7, sample_rate),
                level: Smoother::new(0.03, sample_rate),
                even: 1.0,
            }),
            white: White::new(settings.seed ^ 0xd0),
            level: LEVEL * (BY_ROOT * settings.harmony.raised()).exp2(),
            tone: Tone::raised(sample_rate, &RESONANCE, settings.harmony.raised()),
            strewer: Strewer::new(sample_rate, settings.seed ^ 0xd00),
            begun: false,
        };
        duo.reset();
        duo
    }

    /// Steps above the note, and level, of a side: by its hand's height and the speed of its hand and foot.
    fn played(side: usize, controls: &Controls) -> (f32, f32) {
        let octave = controls.harmony.octave();
        let apart = [0.0, octave][side];
        if !controls.moved {
            return (apart + [0.0, controls.chord[1].to.round()][side], 0.7);
        }
        let (hand, foot) = (controls.limbs[side], controls.limbs[side + 2]);
        let speed = hand[0].to.max(0.7 * foot[0].to);
        let lifted = ((hand[1].to - 0.3) * octave).round();
        (apart + lifted, REST + 1.3 * speed)
    }
}

/// Hz and power of the partials of a note: a saw's of the reed, the odd ones of them of the flute.
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
        self.strewer.reset();
        self.begun = false;
    }

    fn event(&mut self, _: Event, _: f32, _: &Controls) {
        for voice in &mut self.voices {
            voice.breath.begin();
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        if self.strewer.note(controls) {
            let side = usize::from(self.strewer.chance.next() > 0.5);
            self.voices[side].breath.begin();
        }
        *output = [[0.0; 2]; FRAME];
        let octaves = controls.octaves(3.6, 3.4);
        let mut evened = [Line::flat(0.0); 2];
        let air = 0.01 + 0.1 * controls.roughness.to;
        for (side, voice) in self.voices.iter_mut().enumerate() {
            if controls.struck[side] > 0.0 || controls.struck[side + 2] > 0.0 {
                voice.breath.begin();
            }
            let (steps, loud) = Self::played(side, controls);
            let goal = controls.note() + steps + controls.harmony.octave();
            if !self.begun {
                voice.degree.jump(goal);
            }
            let pitch = voice.degree.step(goal).map(|d| controls.harmony.frequency(d));
            let level = voice.level.step(loud);
            let breath = voice.breath.frame();
            let square = [0.6, -0.95][side];
            let detuned = [1.004, 1.0][side];
            for (i, y) in output.iter_mut().enumerate() {
                let f = pitch.at(i);
                let x = voice.saws[0].filter_mono(f) + square * voice.saws[1].filter_mono(detuned * f);
                let x = ([0.45, 0.3][side] * x + air * self.white.next())
                    * level.at(i)
                    * breath.at(i)
                    * controls.level(i);
                y[side] = x;
            }
            let passed = self.tone.passed(controls, octaves, partials(side, pitch.to));
            let even = (1.0 / passed.sqrt()).min(MOST);
            evened[side] = Line {
                from: if self.begun { voice.even } else { even },
                to: even,
            };
            voice.even = even;
        }
        self.begun = true;
        self.tone.render(output, controls, octaves);
        for (i, y) in output.iter_mut().enumerate() {
            let [reed, flute] = [y[0] * evened[0].at(i), y[1] * evened[1].at(i)];
            *y = [reed + ACROSS * flute, flute + ACROSS * reed];
        }
        scale(output, self.level);
    }
}
