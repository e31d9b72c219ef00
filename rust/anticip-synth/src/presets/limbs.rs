//! Percussion per limb: each hand and foot has a drum of its own and strikes it by its own strokes.

use super::{Controls, Instrument, scale};
use crate::clock::Strewer;
use crate::control::FRAME;
use crate::kit::Kit;
use crate::params::{Event, Parameter, Settings};
use crate::tone::{Body, Tone};

const LEVEL: f32 = 0.32;
/// Wood and calfskin.
const RESONANCE: Body = [[300.0, 0.7, 14.0], [2_500.0, 0.6, -16.0], [7_650.0, 0.7, 6.0]];

/// Speed at which a stick is neither soft nor sharp, taken for a limb of which nothing is told.
const STEADY: f32 = 0.4;

pub(crate) struct Limbs {
    kit: Kit,
    tone: Tone,
    strewer: Strewer,
    last: f32,
    turn: usize,
}

impl Limbs {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            kit: Kit::new(sample_rate, settings.seed ^ 0x11b5),
            tone: Tone::new(sample_rate, &RESONANCE),
            strewer: Strewer::new(sample_rate, settings.seed ^ 0x11b6),
            last: f32::NAN,
            turn: 0,
        }
    }

    /// The drum of a limb: higher the higher the limb is held, through two octaves of the scale; its skin and stick are
    /// brighter with height and sharper with speed and roughness; an open posture lets it ring.
    fn strike(&mut self, limb: usize, strength: f32, controls: &Controls) {
        let octave = controls.harmony.octave();
        let [speed, height] = controls.limbs[limb].map(|line| line.to);
        let speed = if controls.moved { speed } else { STEADY };
        let lifted = (2.0 * height * octave).round();
        let open = (2.0 * (height - 0.3) + 1.5 * (controls.brightness.to - 0.7)).exp2();
        let sharp = (5.0 * (controls.roughness.to - 0.65) + 3.0 * (speed - STEADY)).exp2();
        let ring = (1.4 * (controls.target(Parameter::Space) - 0.5)).exp2();
        let note = controls.note();
        let tuned = |steps: f32| controls.harmony.frequency(note + steps);
        match limb {
            0 => {
                self.kit
                    .drum(tuned(octave + lifted), 0.8 * strength, 0.16 * ring, [1.3, 0.5]);
                self.kit
                    .noise(2_600.0 * open, 1.5, 0.25 * sharp * strength, 0.02, [1.3, 0.5]);
            }
            1 => {
                self.kit.drum(
                    tuned(octave + lifted + 2.0),
                    0.6 * strength,
                    0.1 * ring,
                    [0.5, 1.3],
                );
                self.kit
                    .noise(4_200.0 * open, 0.9, 0.5 * sharp * strength, 0.05, [0.5, 1.3]);
            }
            2 => {
                self.kit
                    .drum(tuned(lifted - octave), 1.2 * strength, 0.3 * ring, [1.1, 0.9]);
                self.kit
                    .noise(700.0 * open, 0.8, 0.4 * sharp * strength, 0.03, [1.1, 0.9]);
            }
            _ => {
                self.kit
                    .drum(tuned(lifted), 0.9 * strength, 0.22 * ring, [0.9, 1.1]);
                self.kit
                    .noise(1_300.0 * open, 0.8, 0.4 * sharp * strength, 0.03, [0.9, 1.1]);
            }
        }
    }

    /// A limb by chance, the likelier the faster it moves; a hand where that is not known.
    fn moving(&mut self, controls: &Controls) -> usize {
        let speeds = controls.limbs.map(|[speed, _]| speed.to * speed.to);
        let speeds = if controls.moved {
            speeds
        } else {
            [1.0, 1.0, 0.0, 0.0]
        };
        let mut left = self.strewer.chance.next() * speeds.iter().sum::<f32>();
        let found = speeds.iter().position(|speed| {
            left -= speed;
            left <= 0.0
        });
        found.unwrap_or(0)
    }

    /// The limbs in turn, hands and feet by turns.
    fn next(&mut self, strength: f32, controls: &Controls) {
        self.strike([0, 2, 1, 3][self.turn % 4], strength, controls);
        self.turn += 1;
    }
}

impl Instrument for Limbs {
    fn reset(&mut self) {
        self.kit.reset();
        self.tone.reset();
        self.strewer.reset();
        self.last = f32::NAN;
        self.turn = 0;
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        match event {
            Event::Onset => {
                // The limb that moves most, where that is known.
                let speed = |limb: &usize| controls.limbs[*limb][0].to;
                let fastest = (0..4).max_by(|a, b| speed(a).total_cmp(&speed(b)));
                match fastest.filter(|limb| speed(limb) > 0.0) {
                    Some(limb) => self.strike(limb, strength, controls),
                    None => self.next(strength, controls),
                }
            }
            Event::Phrase => {
                self.strike(2, 1.2 * strength, controls);
                self.strike(3, 1.2 * strength, controls);
            }
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        for (limb, strength) in controls.struck.into_iter().enumerate() {
            if strength > 0.0 {
                self.strike(limb, 0.4 + 0.8 * strength, controls);
            }
        }
        let note = controls.note();
        if note != self.last {
            if !self.last.is_nan() {
                self.next(0.35, controls);
            }
            self.last = note;
        }
        if self.strewer.note(controls) {
            // Between the strokes those limbs tap that move.
            let limb = self.moving(controls);
            let strength = 0.25 + 0.35 * self.strewer.chance.next();
            self.strike(limb, strength, controls);
        }
        let pulse = controls.target(Parameter::Pulse);
        if let Some(weight) = controls.stroke
            && pulse > 0.02
        {
            self.next(pulse * weight, controls);
        }
        self.kit.render(output);
        // Who moves smoothly sounds dark.
        let cut = controls.tracked(2.7, 4.5) + controls.roughness.map(|r| 3.0 * (r - 0.55));
        self.tone.sized(output, controls, cut, controls.open(1.8));
        scale(output, LEVEL);
    }
}
