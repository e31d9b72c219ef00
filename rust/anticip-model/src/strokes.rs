//! Strokes: rises and falls of the speed of the body's ends, and the beats that they make.
//!
//! The speed curve is tracked, with whether a stroke is under way; a small network computes evidence of the next
//! arrival from it, the features of the last frames and the control head's hidden units.

use anticip_motion::kinematics::MEASURE_COUNT;

use crate::activations::gelu;
use crate::linear::{Linear, Precision};
use crate::smoothed::CARRIED_COUNT;
use crate::{ModelError, Tensors};

const FULL: Precision = Precision::Full;
const ENDS: f64 = 5.0;
/// m/s added to the speed before its logarithm.
const FLOOR: f64 = 0.1;
/// Octaves by which the speed must fall for a stroke to arrive, and rise for the next one to begin.
const FALL: f64 = 0.3;
/// Minimum speed of a stroke, m/s.
const MIN_STROKE_SPEED: f64 = 0.6;
/// Maximum age of a rise or fall, in frames; it is counted up to here.
const MAX_AGE: u32 = 50;
/// Number of past frames at which the curve is reported: 1 to 12, then every other one to 48.
const LAG_COUNT: usize = 30;
/// Past frames of the curve that are kept.
const PAST: usize = 48;
/// Gains of the two low-passes, of two poles each: of the reported curve and of the tracked one.
const GAINS: [f64; 2] = [2.0 / 3.0, 0.5];
/// Number of outputs: the current curve, its past, and the state of the stroke.
pub(crate) const STROKE_COUNT: usize = 1 + LAG_COUNT + 6;
/// Bins of a beat's hazard.
const BINS: usize = 25;
const NARROW: usize = 16;
const UNITS: usize = 64;

fn lag(i: usize) -> usize {
    if i < 12 { i + 1 } else { 2 * i - 10 }
}

/// State of the stroke after a frame.
#[derive(Debug, Clone, Copy)]
struct StrokeState {
    poles: [[f64; 2]; 2],
    rising: bool,
    /// Maximum of the tracked speed since it rose, or minimum since it fell.
    turn: f64,
    age: u32,
}

/// The strokes of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Strokes {
    before: Option<StrokeState>,
    now: Option<StrokeState>,
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
    /// Starts a new stream.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Computes, with this frame as the newest: the speed curve in octaves; its past relative to that; 1 while it
    /// rises; how far it is below its maximum while it rises, and above its minimum while it falls; while it rises, its
    /// maximum, and 1 if that is enough for a stroke; the age of the rise or fall, in seconds. Until [`Self::advance`]
    /// the frame can be replaced by another.
    pub(crate) fn run(&mut self, carried: &[f32; CARRIED_COUNT]) -> [f32; STROKE_COUNT] {
        let velocities = &carried[..CARRIED_COUNT - MEASURE_COUNT];
        let power = velocities.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / ENDS;
        let mut poles = [[0.0; 2]; 2];
        let mut filtered = [power; 2];
        for (pole, pole_values) in poles.iter_mut().enumerate() {
            for i in 0..2 {
                let before = self.before.map_or(filtered[i], |b| b.poles[pole][i]);
                filtered[i] = before + GAINS[i] * (filtered[i] - before);
                pole_values[i] = filtered[i];
            }
        }
        let [curve, tracked] = filtered.map(|p| (p.max(0.0).sqrt() + FLOOR).log2());
        let mut stroke = match self.before {
            None => StrokeState {
                poles,
                rising: true,
                turn: tracked,
                age: 0,
            },
            Some(b) => StrokeState {
                poles,
                rising: b.rising,
                turn: if b.rising {
                    b.turn.max(tracked)
                } else {
                    b.turn.min(tracked)
                },
                age: (b.age + 1).min(MAX_AGE),
            },
        };
        let below = stroke.turn - tracked;
        if (stroke.rising && below > FALL) || (!stroke.rising && -below > FALL) {
            stroke = StrokeState {
                rising: !stroke.rising,
                turn: tracked,
                age: 0,
                ..stroke
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
        let extent = (stroke.turn - tracked).abs() as f32;
        let stroke_out = &mut out[1 + LAG_COUNT..];
        if stroke.rising {
            let is_stroke = stroke.turn >= (MIN_STROKE_SPEED + FLOOR).log2();
            stroke_out[0] = 1.0;
            stroke_out[1] = extent;
            stroke_out[3] = stroke.turn as f32;
            stroke_out[4] = if is_stroke { 1.0 } else { 0.0 };
        } else {
            stroke_out[2] = extent;
        }
        stroke_out[5] = stroke.age as f32 / MAX_AGE as f32;
        self.now = Some(stroke);
        self.curve = curve;
        out
    }

    /// Commits the newest frame to the past; does nothing without one.
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

    /// Everything that the next frame's output depends on.
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

/// Whether a model has strokes and a head that uses them.
pub(crate) fn has_strokes(tensors: &Tensors) -> bool {
    tensors.contains_key("kinematics.offsets") && tensors.contains_key("control.beats.first.weight")
}

/// Evidence of the next beat.
#[derive(Debug, Clone)]
pub(crate) struct BeatHead {
    narrow: Linear,
    first: Linear,
    last: Linear,
    skip: Linear,
    skip_inputs: Vec<f32>,
    first_inputs: Vec<f32>,
    units: [f32; UNITS],
    evidence: [f32; BINS],
}

impl BeatHead {
    /// Reads `control.beats.*`; `None` for a model without them.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(crate) fn read(tensors: &Tensors, recent: usize, units: usize) -> Result<Option<Self>, ModelError> {
        if !has_strokes(tensors) {
            return Ok(None);
        }
        let inputs = STROKE_COUNT + recent;
        Ok(Some(Self {
            narrow: Linear::unbiased(tensors, "control.beats.narrow", NARROW, units, FULL)?,
            first: Linear::new(tensors, "control.beats.first", UNITS, inputs + NARROW, FULL)?,
            last: Linear::new(tensors, "control.beats.last", BINS, UNITS, FULL)?,
            skip: Linear::unbiased(tensors, "control.beats.skip", BINS, inputs + units, FULL)?,
            skip_inputs: vec![0.0; inputs + units],
            first_inputs: vec![0.0; inputs + NARROW],
            units: [0.0; UNITS],
            evidence: [0.0; BINS],
        }))
    }

    /// Adds to the hazard logits of beats the evidence from strokes, features of the last frames and hidden units.
    pub(crate) fn add(&mut self, strokes: &[f32], recent: &[f32], units: &[f32], hazards: &mut [f32]) {
        let inputs = STROKE_COUNT + recent.len();
        for skip_inputs in [&mut self.skip_inputs, &mut self.first_inputs] {
            skip_inputs[..STROKE_COUNT].copy_from_slice(strokes);
            skip_inputs[STROKE_COUNT..inputs].copy_from_slice(recent);
        }
        self.skip_inputs[inputs..].copy_from_slice(units);
        self.narrow.apply(units, &mut self.first_inputs[inputs..]);
        self.first.apply(&self.first_inputs, &mut self.units);
        gelu(&mut self.units);
        self.last.apply(&self.units, &mut self.evidence);
        self.skip.add(&self.skip_inputs, &mut self.evidence);
        for (hazard, evidence) in hazards.iter_mut().zip(self.evidence) {
            *hazard += evidence;
        }
    }
}
