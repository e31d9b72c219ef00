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
    pub(crate) told: &'a [f32],
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
    pub(crate) fn say(&mut self, seen: Seen<'_>, said: &mut Controls) {
        let mut share = [0.5];
        if let Some(pathway) = &self.pathway {
            pathway.apply(seen.told, &mut share);
            sigmoid(&mut share);
        }
        for (mixed, (fast, slow)) in self.mixed.iter_mut().zip(seen.fast.iter().zip(seen.held)) {
            *mixed = slow + share[0] * (fast - slow);
        }
        self.anticipate(&mut said.scalars);
        self.norm.apply(&self.mixed, &mut said.hidden);
        let mut local = [0.0];
        self.local.apply(&said.hidden, &mut local);
        sigmoid(&mut local);
        let mut gate = [0.0];
        self.combine.apply(&[local[0], said.scalars[0]], &mut gate);
        sigmoid(&mut gate);
        said.gate = gate[0];

        let (first, last) = &self.control;
        let units = &mut self.units[..first.outputs()];
        first.apply(&said.hidden, units);
        gelu(units);
        last.apply(units, &mut self.out);
        let (params, evidence) = self.out.split_at_mut(PARAM_COUNT);
        self.direct.complete(seen, params);
        said.params.copy_from_slice(params);
        let committed = if self.gated { gate[0] } else { 1.0 };
        for (hazard, (base, evidence)) in said.hazards.iter_mut().zip(self.base.iter().zip(evidence)) {
            *hazard = base + committed * *evidence;
        }
        if let Some(beats) = &mut self.beats {
            beats.add(seen.strokes, seen.recent, units, &mut said.hazards);
        }
        sigmoid(&mut said.hazards);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;

    #[test]
    fn with_the_twin_a_parameter_is_its_own_past_mixed_and_what_is_added() {
        let zeros = |shape: &[usize]| Tensor {
            shape: shape.to_vec(),
            values: vec![0.0; shape.iter().product()],
        };
        let mut tensors: Tensors = [
            ("trunk.refined_head.norm.weight", vec![2]),
            ("trunk.refined_head.norm.bias", vec![2]),
            ("trunk.refined_head.first.weight", vec![1, 2]),
            ("trunk.refined_head.first.bias", vec![1]),
            ("trunk.refined_head.last.weight", vec![7, 1]),
            ("trunk.refined_head.last.bias", vec![7]),
            ("trunk.norm.weight", vec![2]),
            ("trunk.norm.bias", vec![2]),
            ("trunk.commitment.local.weight", vec![1, 2]),
            ("trunk.commitment.local.bias", vec![1]),
            ("trunk.commitment.combine.weight", vec![1, 2]),
            ("trunk.commitment.combine.bias", vec![1]),
            ("control.first.weight", vec![3, 2]),
            ("control.first.bias", vec![3]),
            ("control.last.weight", vec![90, 3]),
            ("control.last.bias", vec![90]),
            ("control.base", vec![50]),
        ]
        .into_iter()
        .map(|(name, shape)| (name.to_owned(), zeros(&shape)))
        .collect();
        assert!(Heads::new(&tensors, 2, 3, 9, true, true).is_err());
        let residual: Vec<f32> = (0..90).map(|i| 0.01 * i as f32 - 0.2).collect();
        let skip: Vec<f32> = (0..240).map(|i| (0.7 * i as f32).sin()).collect();
        let twin: Vec<f32> = (0..48).map(|i| 0.5 + 0.5 * (1.3 * i as f32).cos()).collect();
        tensors.insert(
            "control.last.bias".into(),
            Tensor {
                shape: vec![90],
                values: residual.clone(),
            },
        );
        tensors.insert(
            "control.skip".into(),
            Tensor {
                shape: vec![8, 5, 6],
                values: skip.clone(),
            },
        );
        let mut heads = Heads::new(&tensors, 2, 3, 9, true, true).expect("all tensors are there");
        let mut said = Controls::new(2);
        let seen = Seen {
            told: &[0.0; 9],
            fast: &[0.0; 2],
            held: &[0.0; 2],
            recent: &[0.0; 9],
            strokes: &[],
            twin: &twin,
        };
        heads.say(seen, &mut said);
        let params = said.params;
        for p in 0..8 {
            for h in 0..5 {
                let held: f32 = (0..6).map(|k| skip[30 * p + 6 * h + k] * twin[8 * k + p]).sum();
                let wanted = (held + residual[5 * p + h]).clamp(0.0, 1.0);
                assert!((params[5 * p + h] - wanted).abs() < 1e-6, "{p} {h}");
            }
        }
        assert!(params.contains(&0.0) && params.iter().any(|&v| v > 0.0 && v < 1.0));
        // Scaled by how far the parameters moved: not at all where the twin stands still.
        let moves: Vec<f32> = (0..320).map(|i| 0.3 * (0.9 * i as f32).sin() - 0.2).collect();
        let still: Vec<f32> = (0..40).map(|i| 0.2 * (0.4 * i as f32).cos() - 0.5).collect();
        for (name, shape, values) in [
            ("control.moves", vec![8, 5, 8], moves.clone()),
            ("control.still", vec![8, 5], still.clone()),
        ] {
            assert!(Heads::new(&tensors, 2, 3, 9, true, true).is_ok() == (name == "control.moves"));
            tensors.insert(name.into(), Tensor { shape, values });
        }
        let mut heads = Heads::new(&tensors, 2, 3, 9, true, true).expect("all tensors are there");
        heads.say(seen, &mut said);
        for p in 0..8 {
            let moved = 1e-8
                + (0..40)
                    .map(|i| {
                        let (block, q) = ([0, 1, 2, 3, 5][i / 8], i % 8);
                        (8.0 * moves[40 * p + i]).exp() * (twin[8 * block + q] - twin[32 + q]).powi(2)
                    })
                    .sum::<f32>();
            for h in 0..5 {
                let share = (moved / (moved + (8.0 * still[5 * p + h]).exp())).sqrt();
                let held: f32 = (0..6).map(|k| skip[30 * p + 6 * h + k] * twin[8 * k + p]).sum();
                let wanted = (held + share * residual[5 * p + h]).clamp(0.0, 1.0);
                assert!((said.params[5 * p + h] - wanted).abs() < 1e-5, "{p} {h}");
            }
        }
        let at_rest = [0.4; 48];
        heads.say(
            Seen {
                twin: &at_rest,
                ..seen
            },
            &mut said,
        );
        let held: f32 = 0.4 * skip[..6].iter().sum::<f32>();
        assert!((said.params[0] - held.clamp(0.0, 1.0)).abs() < 1e-3);
    }
}
