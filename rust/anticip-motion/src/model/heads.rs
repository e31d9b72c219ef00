//! What follows the blocks of both pathways: their mixture, the final norm, gates and heads.

use super::activations::{gelu, sigmoid};
use super::strokes::BeatHead;
use super::{Linear, Tensors, tensor};
use crate::MotionError;

/// Sound parameters: eight at five horizons.
pub const PARAM_COUNT: usize = 40;
/// Hazards: two events in 25 bins.
pub const HAZARD_COUNT: usize = 50;
/// Scalars of the refined head.
pub const SCALAR_COUNT: usize = 7;
/// Where the transition pressure is among the scalars: `2 tanh z`, the others are `sigmoid z`.
const PRESSURE: usize = 2;
const EPSILON: f64 = 1e-5;

/// A row with zero mean and unit variance, then scaled and shifted.
#[derive(Debug, Clone)]
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Norm {
    fn new(tensors: &Tensors, names: [&'static str; 2], width: usize) -> Result<Self, MotionError> {
        Ok(Self {
            weight: tensor(tensors, names[0], &[width])?,
            bias: tensor(tensors, names[1], &[width])?,
        })
    }

    fn apply(&self, x: &[f32], out: &mut [f32]) {
        let count = x.len() as f64;
        let mean = x.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
        let spread = x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count;
        let (mean, gain) = (mean as f32, (1.0 / (spread + EPSILON).sqrt()) as f32);
        let scaled = x.iter().zip(&self.weight).zip(&self.bias);
        for (out, ((x, weight), bias)) in out.iter_mut().zip(scaled) {
            *out = (x - mean) * gain * weight + bias;
        }
    }
}

/// What the heads read of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The given scalars and the embedding side by side.
    pub(super) told: &'a [f32],
    /// Results of the two pathways.
    pub(super) fast: &'a [f32],
    pub(super) held: &'a [f32],
    /// Numbers of the last frames; none without kinematics.
    pub(super) recent: &'a [f32],
    /// How the strokes stand; nothing where they are not followed.
    pub(super) strokes: &'a [f32],
}

/// What a step says, each part in a slice of its own.
#[derive(Debug)]
pub(super) struct Said<'a> {
    pub(super) params: &'a mut [f32],
    pub(super) hazards: &'a mut [f32],
    pub(super) scalars: &'a mut [f32],
    pub(super) gate: &'a mut f32,
    pub(super) hidden: &'a mut [f32],
}

/// Pathway gate, refined anticipation head, final norm, commitment gate and control head.
#[derive(Debug, Clone)]
pub(super) struct Heads {
    pathway: Option<Linear>,
    refined: (Norm, Linear, Linear),
    norm: Norm,
    local: Linear,
    combine: Linear,
    control: (Linear, Linear),
    recent: Option<Linear>,
    base: Vec<f32>,
    beats: Option<BeatHead>,
    gated: bool,
    mixed: Vec<f32>,
    normed: Vec<f32>,
    units: Vec<f32>,
    out: Vec<f32>,
}

impl Heads {
    /// Reads what it needs of a checkpoint's tensors.
    ///
    /// `units` is the width of the control head's hidden layer, `recent` how many numbers of the last frames it is told,
    /// `gated` whether the commitment scales the events' evidence. Without `trunk.pathway.*` the pathways weigh the same.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(super) fn new(
        tensors: &Tensors,
        width: usize,
        units: usize,
        recent: usize,
        gated: bool,
    ) -> Result<Self, MotionError> {
        let linear = |names, outputs, inputs| Linear::new(tensors, names, outputs, inputs);
        let pathway = ["trunk.pathway.linear.weight", "trunk.pathway.linear.bias"];
        let mixes = tensors.contains_key(pathway[0]);
        Ok(Self {
            pathway: mixes
                .then(|| linear(pathway, 1, SCALAR_COUNT + width))
                .transpose()?,
            refined: (
                Norm::new(
                    tensors,
                    ["trunk.refined_head.norm.weight", "trunk.refined_head.norm.bias"],
                    width,
                )?,
                linear(
                    ["trunk.refined_head.first.weight", "trunk.refined_head.first.bias"],
                    width / 2,
                    width,
                )?,
                linear(
                    ["trunk.refined_head.last.weight", "trunk.refined_head.last.bias"],
                    SCALAR_COUNT,
                    width / 2,
                )?,
            ),
            norm: Norm::new(tensors, ["trunk.norm.weight", "trunk.norm.bias"], width)?,
            local: linear(
                ["trunk.commitment.local.weight", "trunk.commitment.local.bias"],
                1,
                width,
            )?,
            combine: linear(
                ["trunk.commitment.combine.weight", "trunk.commitment.combine.bias"],
                1,
                2,
            )?,
            control: (
                linear(["control.first.weight", "control.first.bias"], units, width)?,
                linear(
                    ["control.last.weight", "control.last.bias"],
                    PARAM_COUNT + HAZARD_COUNT,
                    units,
                )?,
            ),
            recent: (recent > 0)
                .then(|| Linear::unbiased(tensors, "control.recent.weight", PARAM_COUNT, recent))
                .transpose()?,
            base: tensor(tensors, "control.base", &[HAZARD_COUNT])?,
            beats: BeatHead::of(tensors, recent, units)?,
            gated,
            mixed: vec![0.0; width],
            normed: vec![0.0; width],
            units: vec![0.0; units.max(width / 2)],
            out: vec![0.0; PARAM_COUNT + HAZARD_COUNT],
        })
    }

    /// Everything that a step says.
    pub(super) fn say(&mut self, seen: Seen<'_>, said: Said<'_>) {
        let mut share = [0.5];
        if let Some(pathway) = &self.pathway {
            pathway.apply(seen.told, &mut share);
            sigmoid(&mut share);
        }
        for (mixed, (fast, slow)) in self.mixed.iter_mut().zip(seen.fast.iter().zip(seen.held)) {
            *mixed = slow + share[0] * (fast - slow);
        }
        self.anticipate(said.scalars);
        self.norm.apply(&self.mixed, said.hidden);
        let mut local = [0.0];
        self.local.apply(said.hidden, &mut local);
        sigmoid(&mut local);
        let mut gate = [0.0];
        self.combine.apply(&[local[0], said.scalars[0]], &mut gate);
        sigmoid(&mut gate);
        *said.gate = gate[0];

        let (first, last) = &self.control;
        let units = &mut self.units[..first.bias.len()];
        first.apply(said.hidden, units);
        gelu(units);
        last.apply(units, &mut self.out);
        let (params, evidence) = self.out.split_at_mut(PARAM_COUNT);
        if let Some(filter) = &self.recent {
            filter.add(seen.recent, params);
        }
        sigmoid(params);
        said.params.copy_from_slice(params);
        let committed = if self.gated { gate[0] } else { 1.0 };
        for (hazard, (base, evidence)) in said.hazards.iter_mut().zip(self.base.iter().zip(evidence)) {
            *hazard = base + committed * *evidence;
        }
        if let Some(beats) = &mut self.beats {
            beats.add(seen.strokes, seen.recent, units, said.hazards);
        }
        sigmoid(said.hazards);
    }

    /// The refined head's scalars.
    fn anticipate(&mut self, scalars: &mut [f32]) {
        let (norm, first, last) = &self.refined;
        norm.apply(&self.mixed, &mut self.normed);
        let units = &mut self.units[..first.bias.len()];
        first.apply(&self.normed, units);
        gelu(units);
        last.apply(units, scalars);
        scalars[PRESSURE] *= 2.0;
        sigmoid(scalars);
        scalars[PRESSURE] = 4.0 * scalars[PRESSURE] - 2.0;
    }
}
