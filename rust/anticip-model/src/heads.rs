//! The model after the blocks of both pathways: their mixture, the final norm, gates and heads.

use crate::activations::{gelu, sigmoid};
use crate::linear::{Linear, Norm, Precision};
use crate::strokes::BeatHead;
use crate::twin_mix::TwinMix;
use crate::{ModelError, Tensors, tensor};

/// Number of sound parameters: eight at five horizons.
pub const PARAM_COUNT: usize = 40;
/// Number of hazards: two events in 25 bins.
pub const HAZARD_COUNT: usize = 50;
/// Number of scalars.
pub const SCALAR_COUNT: usize = 7;
/// Index of the transition pressure among the scalars; it is `2 tanh z`, the others are `sigmoid z`.
const PRESSURE: usize = 2;

/// Inputs of the heads for one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadInputs<'a> {
    /// The row's scalars, followed by the embedding.
    pub(crate) inputs: &'a [f32],
    /// Result of the fast pathway.
    pub(crate) fast: &'a [f32],
    /// Last result of the slow pathway.
    pub(crate) held: &'a [f32],
    /// Features of the last frames; empty without kinematics.
    pub(crate) recent: &'a [f32],
    /// Output of the strokes; empty for a model without them.
    pub(crate) strokes: &'a [f32],
    /// The row's columns of the causal twin.
    pub(crate) twin: &'a [f32],
}

/// Output of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Controls {
    /// Sound parameters 0..1: (parameters, horizons).
    pub params: [f32; PARAM_COUNT],
    /// (events, bins): probability of an event in each bin, given that it did not occur before.
    pub hazards: [f32; HAZARD_COUNT],
    /// Scalars of the refined head.
    pub scalars: [f32; SCALAR_COUNT],
    /// Commitment 0..1.
    pub gate: f32,
    /// The hidden state after the final norm.
    pub hidden: Vec<f32>,
}

impl Controls {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            params: [0.0; PARAM_COUNT],
            hazards: [0.0; HAZARD_COUNT],
            scalars: [0.0; SCALAR_COUNT],
            gate: 0.0,
            hidden: vec![0.0; width],
        }
    }
}

/// What the hidden units' output for the parameters is added to.
#[derive(Debug, Clone)]
enum Direct {
    /// A linear filter of the features of the last frames, if there are any; the sum goes through a sigmoid.
    Recent(Option<Linear>),
    /// A mix of the twin's columns.
    Twin(TwinMix),
}

impl Direct {
    fn new(tensors: &Tensors, recent: usize, twin: bool) -> Result<Self, ModelError> {
        if twin {
            return Ok(Self::Twin(TwinMix::new(tensors, "control")?));
        }
        let filter = || Linear::unbiased(tensors, "control.recent", PARAM_COUNT, recent, Precision::Full);
        Ok(Self::Recent((recent > 0).then(filter).transpose()?))
    }

    /// Turns the hidden units' output in `params` into parameters, in place.
    fn complete(&self, inputs: HeadInputs<'_>, params: &mut [f32]) {
        match self {
            Self::Recent(filter) => {
                if let Some(filter) = filter {
                    filter.add(inputs.recent, params);
                }
                sigmoid(params);
            }
            Self::Twin(mix) => mix.complete(inputs.twin, params),
        }
    }
}

/// Pathway gate, refined anticipation head, final norm, commitment gate and control head.
#[derive(Debug, Clone)]
pub(crate) struct Heads {
    pathway: Option<Linear>,
    refined: (Norm, Linear, Linear),
    norm: Norm,
    local: Linear,
    combine: Linear,
    control: (Linear, Linear),
    direct: Direct,
    base: Vec<f32>,
    beats: Option<BeatHead>,
    gated: bool,
    mixed: Vec<f32>,
    normed: Vec<f32>,
    units: Vec<f32>,
    out: Vec<f32>,
}

impl Heads {
    /// Reads the heads' tensors.
    ///
    /// `units` is the width of the control head's hidden layer, `recent` its number of features of the last frames,
    /// `gated` whether the commitment gate scales the events' evidence, `twin` whether the parameters are a mix of the
    /// twin's (`control.skip`) plus a correction. Without `trunk.pathway.*` the pathways have equal weights.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(crate) fn new(
        tensors: &Tensors,
        width: usize,
        units: usize,
        recent: usize,
        gated: bool,
        twin: bool,
    ) -> Result<Self, ModelError> {
        let linear = |name, outputs, inputs| Linear::new(tensors, name, outputs, inputs, Precision::Full);
        let has_gate = tensors.contains_key("trunk.pathway.linear.weight");
        let pathway = || linear("trunk.pathway.linear", 1, SCALAR_COUNT + width);
        Ok(Self {
            pathway: has_gate.then(pathway).transpose()?,
            refined: (
                Norm::new(tensors, "trunk.refined_head.norm", width)?,
                linear("trunk.refined_head.first", width / 2, width)?,
                linear("trunk.refined_head.last", SCALAR_COUNT, width / 2)?,
            ),
            norm: Norm::new(tensors, "trunk.norm", width)?,
            local: linear("trunk.commitment.local", 1, width)?,
            combine: linear("trunk.commitment.combine", 1, 2)?,
            control: (
                linear("control.first", units, width)?,
                linear("control.last", PARAM_COUNT + HAZARD_COUNT, units)?,
            ),
            direct: Direct::new(tensors, recent, twin)?,
            base: tensor(tensors, "control.base", &[HAZARD_COUNT])?,
            beats: BeatHead::read(tensors, recent, units)?,
            gated,
            mixed: vec![0.0; width],
            normed: vec![0.0; width],
            units: vec![0.0; units.max(width / 2)],
            out: vec![0.0; PARAM_COUNT + HAZARD_COUNT],
        })
    }

    /// Computes a step's controls.
    pub(crate) fn apply(&mut self, step: HeadInputs<'_>, controls: &mut Controls) {
        let mut share = [0.5];
        if let Some(pathway) = &self.pathway {
            pathway.apply(step.inputs, &mut share);
            sigmoid(&mut share);
        }
        for (mixed, (fast, slow)) in self.mixed.iter_mut().zip(step.fast.iter().zip(step.held)) {
            *mixed = slow + share[0] * (fast - slow);
        }
        self.anticipate(&mut controls.scalars);
        self.norm.apply(&self.mixed, &mut controls.hidden);
        let mut local = [0.0];
        self.local.apply(&controls.hidden, &mut local);
        sigmoid(&mut local);
        let mut gate = [0.0];
        self.combine.apply(&[local[0], controls.scalars[0]], &mut gate);
        sigmoid(&mut gate);
        controls.gate = gate[0];

        let (first, last) = &self.control;
        let units = &mut self.units[..first.outputs()];
        first.apply(&controls.hidden, units);
        gelu(units);
        last.apply(units, &mut self.out);
        let (params, evidence) = self.out.split_at_mut(PARAM_COUNT);
        self.direct.complete(step, params);
        controls.params.copy_from_slice(params);
        let committed = if self.gated { gate[0] } else { 1.0 };
        for (hazard, (base, evidence)) in controls.hazards.iter_mut().zip(self.base.iter().zip(evidence)) {
            *hazard = base + committed * *evidence;
        }
        if let Some(beats) = &mut self.beats {
            beats.add(step.strokes, step.recent, units, &mut controls.hazards);
        }
        sigmoid(&mut controls.hazards);
    }

    /// Computes the refined head's scalars.
    fn anticipate(&mut self, scalars: &mut [f32]) {
        let (norm, first, last) = &self.refined;
        norm.apply(&self.mixed, &mut self.normed);
        let units = &mut self.units[..first.outputs()];
        first.apply(&self.normed, units);
        gelu(units);
        last.apply(units, scalars);
        scalars[PRESSURE] *= 2.0;
        sigmoid(scalars);
        scalars[PRESSURE] = 4.0 * scalars[PRESSURE] - 2.0;
    }
}
