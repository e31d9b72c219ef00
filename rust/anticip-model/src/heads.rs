//! What follows the blocks of both pathways: their mixture, the final norm, gates and heads.

use crate::activations::{gelu, sigmoid};
use crate::linear::{Linear, Norm, Precision};
use crate::strokes::BeatHead;
use crate::twin_mix::TwinMix;
use crate::{ModelError, Tensors, tensor};

/// Sound parameters: eight at five horizons.
pub const PARAM_COUNT: usize = 40;
/// Hazards: two events in 25 bins.
pub const HAZARD_COUNT: usize = 50;
/// Scalars of the refined head.
pub const SCALAR_COUNT: usize = 7;
/// Where the transition pressure is among the scalars: `2 tanh z`, the others are `sigmoid z`.
const PRESSURE: usize = 2;

/// What the heads read of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// The given scalars and the embedding side by side.
    pub(crate) inputs: &'a [f32],
    /// Results of the two pathways.
    pub(crate) fast: &'a [f32],
    pub(crate) held: &'a [f32],
    /// Numbers of the last frames; none without kinematics.
    pub(crate) recent: &'a [f32],
    /// How the strokes stand; nothing where they are not followed.
    pub(crate) strokes: &'a [f32],
    /// The causal twin's columns of the row, as they are.
    pub(crate) twin: &'a [f32],
}

/// What a step says.
#[derive(Debug, Clone, PartialEq)]
pub struct Controls {
    /// Sound parameters 0..1: of each in turn what it will be at every horizon.
    pub params: [f32; PARAM_COUNT],
    /// Of each event in turn its probability in every bin, given that it has not come before.
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

/// What is added to what the hidden units say of the parameters.
#[derive(Debug, Clone)]
enum Direct {
    /// A linear filter of the numbers of the last frames, if there are any; the sum goes through a sigmoid.
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

    /// Makes parameters of what the hidden units say.
    fn complete(&self, seen: Seen<'_>, params: &mut [f32]) {
        match self {
            Self::Recent(filter) => {
                if let Some(filter) = filter {
                    filter.add(seen.recent, params);
                }
                sigmoid(params);
            }
            Self::Twin(mix) => mix.complete(seen.twin, params),
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
    /// Reads what it needs of a checkpoint's tensors.
    ///
    /// `units` is the width of the control head's hidden layer, `recent` how many numbers of the last frames it is told,
    /// `gated` whether the commitment scales the events' evidence, `twin` whether the parameters are a mix of the twin's
    /// (`control.skip`) and what is added to it. Without `trunk.pathway.*` the pathways weigh the same.
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
        let mixes = tensors.contains_key("trunk.pathway.linear.weight");
        let pathway = || linear("trunk.pathway.linear", 1, SCALAR_COUNT + width);
        Ok(Self {
            pathway: mixes.then(pathway).transpose()?,
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
            beats: BeatHead::of(tensors, recent, units)?,
            gated,
            mixed: vec![0.0; width],
            normed: vec![0.0; width],
            units: vec![0.0; units.max(width / 2)],
            out: vec![0.0; PARAM_COUNT + HAZARD_COUNT],
        })
    }

    /// Everything that a step says.
    pub(crate) fn apply(&mut self, seen: Seen<'_>, controls: &mut Controls) {
        let mut share = [0.5];
        if let Some(pathway) = &self.pathway {
            pathway.apply(seen.inputs, &mut share);
            sigmoid(&mut share);
        }
        for (mixed, (fast, slow)) in self.mixed.iter_mut().zip(seen.fast.iter().zip(seen.held)) {
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
        self.direct.complete(seen, params);
        controls.params.copy_from_slice(params);
        let committed = if self.gated { gate[0] } else { 1.0 };
        for (hazard, (base, evidence)) in controls.hazards.iter_mut().zip(self.base.iter().zip(evidence)) {
            *hazard = base + committed * *evidence;
        }
        if let Some(beats) = &mut self.beats {
            beats.add(seen.strokes, seen.recent, units, &mut controls.hazards);
        }
        sigmoid(&mut controls.hazards);
    }

    /// The refined head's scalars.
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
