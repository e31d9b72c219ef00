//! Strokes: how the speed of the body's ends has come and gone, and what is heard of beats in it.
//!
//! The curve of speed is kept itself, with whether a stroke is under way; a small network makes evidence of the next
//! arrival out of it, the numbers of the last frames and the control head's hidden units.

use anticip_motion::kinematics::MEASURE_COUNT;

use crate::activations::gelu;
use crate::linear::{Linear, Precision};
use crate::smoothed::CARRIED_COUNT;
use crate::{ModelError, Tensors};

const FULL: Precision = Precision::Full;
const ENDS: f64 = 5.0;
/// m/s added to the speed before octaves are counted.
const FLOOR: f64 = 0.1;
/// Octaves that a stroke has lost when it has arrived, and that the next one must gain.
const FALL: f64 = 0.3;
/// m/s that make a stroke of a movement.
const ENOUGH: f64 = 0.6;
/// Frames up to which the age of a rise or fall is counted.
const LONGEST: u32 = 50;
/// Frames before now at which the curve is told: 1 to 12, then every other one to 48.
const LAG_COUNT: usize = 30;
const PAST: usize = 48;
/// Of the low-passes, two poles each: of the curve that is told and of the one that is followed.
const GAINS: [f64; 2] = [2.0 / 3.0, 0.5];
/// Numbers that are told: the curve now, before now, and how the stroke stands.
pub(crate) const STROKE_COUNT: usize = 1 + LAG_COUNT + 6;
/// Bins of the hazard of a beat.
const BINS: usize = 25;
const NARROW: usize = 16;
const UNITS: usize = 64;

fn lag(i: usize) -> usize {
    if i < 12 { i + 1 } else { 2 * i - 10 }
}

/// How the stroke stands after a frame.
#[derive(Debug, Clone, Copy)]
struct Standing {
    poles: [[f64; 2]; 2],
    rising: bool,
    /// The highest since it rose, or the lowest since it fell.
    turn: f64,
    age: u32,
}

/// The strokes of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Strokes {
    before: Option<Standing>,
    now: Option<Standing>,
    /// The curve, a ring whose next entry is `next`.
    past: [f64; PAST],
    next: usize,
    curve: f64,
}

impl Default for Strokes {
    fn default() -> Self {
        Self {
            before: None,
            now: None,
            past: [0.0; PAST],
            next: 0,
            curve: 0.0,
        }
    }
}

impl Strokes {
    /// Begin a new stream.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// What holds with this frame as the newest: the curve of speed in octaves; its past relative to that; 1 while it
    /// rises; how far it is below its highest, if it rises, and above its lowest, if not; its highest, and 1 if that
    /// makes a stroke, while it rises; the age of the rise or fall, seconds. Until [`Self::advance`] the frame can be
    /// replaced by another.
    pub(crate) fn look(&mut self, carried: &[f32; CARRIED_COUNT]) -> [f32; STROKE_COUNT] {
        let velocities = &carried[..CARRIED_COUNT - MEASURE_COUNT];
        let power = velocities.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / ENDS;
        let mut poles = [[0.0; 2]; 2];
        let mut came = [power; 2];
        for (pole, kept) in poles.iter_mut().enumerate() {
            for i in 0..2 {
                let before = self.before.map_or(came[i], |b| b.poles[pole][i]);
                came[i] = before + GAINS[i] * (came[i] - before);
                kept[i] = came[i];
            }
        }
        let [curve, followed] = came.map(|p| (p.max(0.0).sqrt() + FLOOR).log2());
        let mut standing = match self.before {
            None => Standing {
                poles,
                rising: true,
                turn: followed,
                age: 0,
            },
            Some(b) => Standing {
                poles,
                rising: b.rising,
                turn: if b.rising {
                    b.turn.max(followed)
                } else {
                    b.turn.min(followed)
                },
                age: (b.age + 1).min(LONGEST),
            },
        };
        let below = standing.turn - followed;
        if (standing.rising && below > FALL) || (!standing.rising && -below > FALL) {
            standing = Standing {
                rising: !standing.rising,
                turn: followed,
                age: 0,
                ..standing
            };
        }
        let mut out = [0.0; STROKE_COUNT];
        out[0] = curve as f32;
        for (i, out) in out[1..=LAG_COUNT].iter_mut().enumerate() {
            let past = match self.before {
                None => curve,
                Some(_) => self.past[(self.next + PAST - lag(i)) % PAST],
            };
            *out = (past - curve) as f32;
        }
        let apart = (standing.turn - followed).abs() as f32;
        let stands = &mut out[1 + LAG_COUNT..];
        if standing.rising {
            let enough = standing.turn >= (ENOUGH + FLOOR).log2();
            stands[0] = 1.0;
            stands[1] = apart;
            stands[3] = standing.turn as f32;
            stands[4] = if enough { 1.0 } else { 0.0 };
        } else {
            stands[2] = apart;
        }
        stands[5] = standing.age as f32 / LONGEST as f32;
        self.now = Some(standing);
        self.curve = curve;
        out
    }

    /// The frame that was last looked at is part of the past; nothing happens where none was.
    pub(crate) fn advance(&mut self) {
        if self.now.is_none() {
            return;
        }
        if self.before.is_none() {
            self.past.fill(self.curve);
        }
        self.past[self.next] = self.curve;
        self.next = (self.next + 1) % PAST;
        self.before = self.now;
    }

    /// Everything that the next frame's numbers depend on.
    pub(crate) fn snapshot(&self) -> Vec<f32> {
        let mut out: Vec<f32> = (0..PAST)
            .map(|i| self.past[(self.next + i) % PAST] as f32)
            .collect();
        if let Some(b) = self.before {
            out.extend(b.poles.as_flattened().iter().map(|&p| p as f32));
            out.extend([f32::from(u8::from(b.rising)), b.turn as f32, b.age as f32]);
        }
        out
    }
}

/// Whether a model follows the strokes: it has a head that hears them.
pub(crate) fn follows(tensors: &Tensors) -> bool {
    tensors.contains_key("kinematics.offsets") && tensors.contains_key("control.beats.first.weight")
}

/// Evidence of the next beat.
#[derive(Debug, Clone)]
pub(crate) struct BeatHead {
    narrow: Linear,
    first: Linear,
    last: Linear,
    skip: Linear,
    seen: Vec<f32>,
    close: Vec<f32>,
    units: [f32; UNITS],
    evidence: [f32; BINS],
}

impl BeatHead {
    /// Reads `control.beats.*`, where there are such.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(crate) fn of(tensors: &Tensors, recent: usize, units: usize) -> Result<Option<Self>, ModelError> {
        if !follows(tensors) {
            return Ok(None);
        }
        let inputs = STROKE_COUNT + recent;
        Ok(Some(Self {
            narrow: Linear::unbiased(tensors, "control.beats.narrow", NARROW, units, FULL)?,
            first: Linear::new(tensors, "control.beats.first", UNITS, inputs + NARROW, FULL)?,
            last: Linear::new(tensors, "control.beats.last", BINS, UNITS, FULL)?,
            skip: Linear::unbiased(tensors, "control.beats.skip", BINS, inputs + units, FULL)?,
            seen: vec![0.0; inputs + units],
            close: vec![0.0; inputs + NARROW],
            units: [0.0; UNITS],
            evidence: [0.0; BINS],
        }))
    }

    /// Adds to the hazard logits of beats what the strokes, the numbers of the last frames and the hidden units say.
    pub(crate) fn add(&mut self, strokes: &[f32], recent: &[f32], units: &[f32], hazards: &mut [f32]) {
        let inputs = STROKE_COUNT + recent.len();
        for seen in [&mut self.seen, &mut self.close] {
            seen[..STROKE_COUNT].copy_from_slice(strokes);
            seen[STROKE_COUNT..inputs].copy_from_slice(recent);
        }
        self.seen[inputs..].copy_from_slice(units);
        self.narrow.apply(units, &mut self.close[inputs..]);
        self.first.apply(&self.close, &mut self.units);
        gelu(&mut self.units);
        self.last.apply(&self.units, &mut self.evidence);
        self.skip.add(&self.seen, &mut self.evidence);
        for (hazard, evidence) in hazards.iter_mut().zip(self.evidence) {
            *hazard += evidence;
        }
    }
}
