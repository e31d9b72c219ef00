//! A second estimate of the parameters from the last poses, by an MLP beside the trunk.
//!
//! Each joint's path over the last frames is represented by the coefficients of a few polynomials from the checkpoint;
//! a residual MLP reads them, the joints' positions, scalars, root and twin.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::features::{FEATURE_COUNT, SCALAR, TWIN};
use anticip_motion::twin::PARAMETER_COUNT;
use pulp::Arch;

use crate::block::FeedForward;
use crate::heads::PARAM_COUNT;
use crate::linear::{Linear, Norm, Precision};
use crate::twin_mix::TwinMix;
use crate::{MAX_SIZE, ModelError, Tensors, tensor, wrong_shape};

/// Values of a frame that are read, the first of the kinematics: up, and the joints' positions.
pub(crate) const PLACE_COUNT: usize = 3 + 3 * (JOINT_COUNT - 1);
/// Standardised inputs are clipped to this.
const CLIP: f32 = 10.0;
/// Number of inputs besides poses and paths: the columns of a row from the scalars on, which are the scalars, height
/// and velocity of the hips, and the twin.
const OTHER_INPUTS: usize = FEATURE_COUNT - SCALAR;

/// The MLP, and the last poses of one stream.
#[derive(Debug, Clone)]
pub(crate) struct PoseWindow {
    /// Polynomials (frames, order), oldest frame first.
    basis: Vec<f32>,
    order: usize,
    mean: Vec<f32>,
    gain: Vec<f32>,
    inlet: Linear,
    blocks: Vec<FeedForward>,
    norm: Norm,
    outlet: Linear,
    mix: TwinMix,
    /// The last frames, a ring; the newest can still be replaced.
    frames: Vec<[f32; PLACE_COUNT]>,
    newest: usize,
    /// Number of frames before the newest.
    count: usize,
    inputs: Vec<f32>,
    /// Residual stream of the MLP.
    stream: Vec<f32>,
    normed: Vec<f32>,
    hidden: Vec<f32>,
}

impl PoseWindow {
    /// Reads `poses.*`, `None` without them; the sizes are those of the tensors.
    ///
    /// # Errors
    /// A tensor that is missing or does not fit the others.
    pub(crate) fn read(tensors: &Tensors) -> Result<Option<Self>, ModelError> {
        let axes = |name: &str| -> Option<[usize; 2]> {
            let shape = tensors.get(name)?.shape.as_slice().try_into().ok()?;
            Some(shape).filter(|shape: &[usize; 2]| shape.iter().all(|size| (1..=MAX_SIZE).contains(size)))
        };
        if !tensors.contains_key("poses.basis") {
            return Ok(None);
        }
        let wrong = |name: &str| wrong_shape(tensors, name, format!("two axes of 1 to {MAX_SIZE}"));
        let sized = |name: &str| axes(name).ok_or_else(|| wrong(name));
        let [frames, order] = sized("poses.basis")?;
        let [width, _] = sized("poses.inlet.weight")?;
        let inputs = PLACE_COUNT * (1 + order) + OTHER_INPUTS;
        let mut blocks = Vec::new();
        while tensors.contains_key(&format!("poses.blocks.{}.up.weight", blocks.len())) {
            let name = format!("poses.blocks.{}", blocks.len());
            let [hidden, _] = sized(&format!("{name}.up.weight"))?;
            blocks.push(FeedForward::new(tensors, &name, "norm", width, hidden)?);
        }
        let std = tensor(tensors, "poses.std", &[inputs])?;
        let hidden = blocks.iter().map(FeedForward::hidden).max();
        Ok(Some(Self {
            basis: tensor(tensors, "poses.basis", &[frames, order])?,
            order,
            mean: tensor(tensors, "poses.mean", &[inputs])?,
            gain: std.iter().map(|std| 1.0 / std).collect(),
            inlet: Linear::new(tensors, "poses.inlet", width, inputs, Precision::Bytes)?,
            blocks,
            norm: Norm::new(tensors, "poses.norm", width)?,
            outlet: Linear::new(tensors, "poses.outlet", PARAM_COUNT, width, Precision::Full)?,
            mix: TwinMix::new(tensors, "poses")?,
            frames: vec![[0.0; PLACE_COUNT]; frames],
            newest: 0,
            count: 0,
            inputs: vec![0.0; inputs],
            stream: vec![0.0; width],
            normed: vec![0.0; width],
            hidden: vec![0.0; hidden.unwrap_or(0)],
        }))
    }

    /// Starts a new stream.
    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }

    /// Sets the newest places; until [`Self::advance`] they can be replaced by others.
    pub(crate) fn set_newest(&mut self, places: &[f32]) {
        self.frames[self.newest].copy_from_slice(places);
    }

    /// Computes the parameters from the newest places and this row.
    pub(crate) fn run(&mut self, row: &[f32; FEATURE_COUNT], params: &mut [f32; PARAM_COUNT]) {
        self.write_inputs(row);
        let standard = self.mean.iter().zip(&self.gain);
        for (x, (mean, gain)) in self.inputs.iter_mut().zip(standard) {
            *x = ((*x - mean) * gain).clamp(-CLIP, CLIP);
        }
        self.inlet.apply(&self.inputs, &mut self.stream);
        for block in &self.blocks {
            let hidden = &mut self.hidden[..block.hidden()];
            block.apply(&mut self.stream, &mut self.normed, hidden);
        }
        self.norm.apply(&self.stream, &mut self.normed);
        self.outlet.apply(&self.normed, params);
        self.mix.complete(&row[TWIN..], params);
    }

    /// Writes the inputs: the newest places, their paths, scalars and root, the twin now and relative to that.
    fn write_inputs(&mut self, row: &[f32; FEATURE_COUNT]) {
        let (current, rest) = self.inputs.split_at_mut(PLACE_COUNT);
        let (paths, numbers) = rest.split_at_mut(PLACE_COUNT * self.order);
        let last = self.frames.len() - 1;
        current.copy_from_slice(&self.frames[self.newest]);
        // Frames before the stream count as no motion.
        let past_frames = self.count.min(last);
        for degree in 0..self.order {
            let mut sums = [0.0; PLACE_COUNT];
            Arch::new().dispatch(|| {
                for ago in 1..=past_frames {
                    let frame = &self.frames[(self.newest + self.frames.len() - ago) % self.frames.len()];
                    let weight = self.basis[(last - ago) * self.order + degree];
                    for (sum, (place, current)) in sums.iter_mut().zip(frame.iter().zip(&*current)) {
                        *sum += weight * (place - current);
                    }
                }
            });
            let slots = paths.iter_mut().skip(degree).step_by(self.order);
            slots.zip(sums).for_each(|(slot, sum)| *slot = sum);
        }
        numbers.copy_from_slice(&row[SCALAR..]);
        let (now, others) = numbers[TWIN - SCALAR..].split_at_mut(PARAMETER_COUNT);
        for block in others.chunks_exact_mut(PARAMETER_COUNT) {
            block.iter_mut().zip(&*now).for_each(|(value, now)| *value -= now);
        }
    }

    /// Commits the newest places to the past.
    pub(crate) fn advance(&mut self) {
        self.newest = (self.newest + 1) % self.frames.len();
        self.count = (self.count + 1).min(self.frames.len());
    }

    /// The past frames that the next step sees, oldest first.
    pub(crate) fn past(&self) -> impl Iterator<Item = f32> {
        let past_frames = self.count.min(self.frames.len() - 1);
        (1..=past_frames)
            .rev()
            .flat_map(move |ago| self.frames[(self.newest + self.frames.len() - ago) % self.frames.len()])
    }
}
