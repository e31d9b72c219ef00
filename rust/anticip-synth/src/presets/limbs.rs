//! Percussion per limb: each hand and foot has its own drum and plays it with its own strokes.

use super::{Controls, Instrument, scale};
use crate::clock::RandomTicks;
use crate::control::FRAME;
use crate::kit::Kit;
use crate::params::{Event, Parameter, Settings};
use crate::tone::{Body, Tone};

/// Output gain.
const LEVEL: f32 = 0.32;
/// Wood and calfskin.
const RESONANCE: Body = [[300.0, 0.7, 14.0], [2_500.0, 0.6, -16.0], [7_650.0, 0.7, 6.0]];

/// Neutral speed of a stroke; used for limbs whose speed is unknown.
const NEUTRAL_SPEED: f32 = 0.4;

/// A limb's drum.
struct Drum {
    /// Octaves and steps above the note.
    octaves: f32,
    steps: f32,
    /// Level, and decay in seconds.
    skin: [f32; 2],
    /// Noise: centre in Hz, Q, level, decay in seconds.
    brush: [f32; 4],
    weights: [f32; 2],
}

/// The drums of left hand, right hand, left foot and right foot.
const DRUMS: [Drum; 4] = [
    Drum {
        octaves: 1.0,
        steps: 0.0,
        skin: [0.8, 0.16],
        brush: [2_600.0, 1.5, 0.25, 0.02],
        weights: [1.3, 0.5],
    },
    Drum {
        octaves: 1.0,
        steps: 2.0,
        skin: [0.6, 0.1],
        brush: [4_200.0, 0.9, 0.5, 0.05],
        weights: [0.5, 1.3],
    },
    Drum {
        octaves: -1.0,
        steps: 0.0,
        skin: [1.2, 0.3],
        brush: [700.0, 0.8, 0.4, 0.03],
        weights: [1.1, 0.9],
    },
    Drum {
        octaves: 0.0,
        steps: 0.0,
        skin: [0.9, 0.22],
        brush: [1_300.0, 0.8, 0.4, 0.03],
        weights: [0.9, 1.1],
    },
];

pub(crate) struct Limbs {
    kit: Kit,
    tone: Tone,
    ticks: RandomTicks,
    last_note: f32,
    next_limb: usize,
}

impl Limbs {
    pub(crate) fn new(sample_rate: f64, settings: &Settings) -> Self {
        Self {
            kit: Kit::new(sample_rate, settings.seed ^ 0x11b5),
            tone: Tone::new(sample_rate, &RESONANCE),
            ticks: RandomTicks::new(sample_rate, settings.seed ^ 0x11b6),
            last_note: f32::NAN,
            next_limb: 0,
        }
    }

    /// Strikes a limb's drum: tuned higher with the height of the limb, over two octaves of the scale;
    /// brighter with height, sharper with speed and roughness, longer with an open posture.
    fn strike(&mut self, limb: usize, strength: f32, controls: &Controls) {
        let octave = controls.harmony.octave();
        let [speed, height] = controls.limbs[limb].map(|line| line.to);
        let speed = if controls.has_limbs { speed } else { NEUTRAL_SPEED };
        let height_steps = (2.0 * height * octave).round();
        let brightness = (2.0 * (height - 0.3) + 1.5 * (controls.brightness.to - 0.7)).exp2();
        let sharpness = (5.0 * (controls.roughness.to - 0.65) + 3.0 * (speed - NEUTRAL_SPEED)).exp2();
        let ring = (1.4 * (controls.target(Parameter::Space) - 0.5)).exp2();
        let drum = &DRUMS[limb];
        let steps = drum.octaves * octave + height_steps + drum.steps;
        let frequency = controls.harmony.frequency(controls.note() + steps);
        let [level, decay] = drum.skin;
        self.kit
            .drum(frequency, level * strength, decay * ring, drum.weights);
        let [centre, q, level, decay] = drum.brush;
        let level = level * sharpness * strength;
        self.kit.noise(centre * brightness, q, level, decay, drum.weights);
    }

    /// A random limb, more likely the faster it moves; a hand if speeds are unknown.
    fn random_moving_limb(&mut self, controls: &Controls) -> usize {
        let speeds = controls.limbs.map(|[speed, _]| speed.to * speed.to);
        let speeds = if controls.has_limbs {
            speeds
        } else {
            [1.0, 1.0, 0.0, 0.0]
        };
        let mut remaining = self.ticks.random.next() * speeds.iter().sum::<f32>();
        let limb = speeds.iter().position(|speed| {
            remaining -= speed;
            remaining <= 0.0
        });
        limb.unwrap_or(0)
    }

    /// Strikes the limbs in turn, alternating hands and feet.
    fn strike_next(&mut self, strength: f32, controls: &Controls) {
        self.strike([0, 2, 1, 3][self.next_limb % 4], strength, controls);
        self.next_limb += 1;
    }
}

impl Instrument for Limbs {
    fn reset(&mut self) {
        self.kit.reset();
        self.tone.reset();
        self.ticks.reset();
        self.last_note = f32::NAN;
        self.next_limb = 0;
    }

    fn event(&mut self, event: Event, strength: f32, controls: &Controls) {
        match event {
            Event::Onset => {
                // The fastest limb, if speeds are known.
                let speed = |limb: &usize| controls.limbs[*limb][0].to;
                let fastest = (0..4).max_by(|a, b| speed(a).total_cmp(&speed(b)));
                match fastest.filter(|limb| speed(limb) > 0.0) {
                    Some(limb) => self.strike(limb, strength, controls),
                    None => self.strike_next(strength, controls),
                }
            }
            Event::Phrase => {
                self.strike(2, 1.2 * strength, controls);
                self.strike(3, 1.2 * strength, controls);
            }
        }
    }

    fn render(&mut self, controls: &Controls, output: &mut [[f32; 2]; FRAME]) {
        for (limb, strength) in controls.limb_strokes.into_iter().enumerate() {
            if strength > 0.0 {
                self.strike(limb, 0.4 + 0.8 * strength, controls);
            }
        }
        let note = controls.note();
        if note != self.last_note {
            if !self.last_note.is_nan() {
                self.strike_next(0.35, controls);
            }
            self.last_note = note;
        }
        if self.ticks.note(controls) {
            // Moving limbs tap between their strokes.
            let limb = self.random_moving_limb(controls);
            let strength = 0.25 + 0.35 * self.ticks.random.next();
            self.strike(limb, strength, controls);
        }
        let pulse = controls.target(Parameter::Pulse);
        if let Some(weight) = controls.stroke
            && pulse > 0.02
        {
            self.strike_next(pulse * weight, controls);
        }
        self.kit.render(output);
        // Smooth movement sounds dark.
        let octaves = controls.tracked_octaves(2.7, 4.5) + controls.roughness.map(|r| 3.0 * (r - 0.55));
        self.tone
            .render_shifted(output, controls, octaves, controls.open_resonance_shift(1.8));
        scale(output, LEVEL);
    }
}
