//! The model with the state of one performer's stream.

use anticip_motion::features::{FEATURE_COUNT, FEATURE_COUNT_V1, SCALAR, TWIN};

use crate::bias::{Kernel, TrajectoryBias};
use crate::block::Pathway;
use crate::embedding::Embedding;
use crate::heads::{Controls, HeadInputs, Heads, PARAM_COUNT, SCALAR_COUNT};
use crate::poses::PoseWindow;
use crate::strokes::{STROKE_COUNT, has_strokes};
use crate::{MAX_SIZE, ModelError, Tensors};

/// Maximum size of the rings of keys, or of values, of a pathway, in numbers (256 MiB).
const MAX_RING: usize = 1 << 26;

/// Sizes and options of the model's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct MotionSizes {
    /// Width of the hidden states.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Blocks of the fast and of the slow pathway.
    pub layers: [usize; 2],
    /// Past steps that each pathway attends to.
    pub past: [usize; 2],
    /// Hidden units of a block.
    pub hidden: usize,
    /// Frames per pool of the slow pathway.
    pub stride: usize,
    /// Length of the causal filter in frames.
    pub taps: usize,
    /// Hidden units of the control head.
    pub units: usize,
    /// For each column that the model reads, whether the projection sees it.
    pub visible: Vec<bool>,
    /// Distance between neighbouring frames in the bias kernel.
    pub distance: f64,
    /// Whether the kernel's decay is the softplus of its parameter.
    pub positive: bool,
    /// Whether the commitment gate scales the events' evidence.
    pub gated: bool,
}

impl MotionSizes {
    fn check(&self) -> Result<(), ModelError> {
        let Self { width, heads, .. } = *self;
        let wrong = |expected: String| {
            let given = Self {
                visible: Vec::new(),
                ..self.clone()
            };
            Err(ModelError::Shape {
                what: "sizes".into(),
                expected,
                given: format!("{given:?}"),
            })
        };
        let all = [width, heads, self.hidden, self.stride, self.taps, self.units];
        let all = all.into_iter().chain(self.layers).chain(self.past);
        if !all.clone().all(|size| (1..=MAX_SIZE).contains(&size)) || !width.is_multiple_of(heads) {
            return wrong(format!(
                "heads that divide the width, and sizes of 1 to {MAX_SIZE}"
            ));
        }
        let mut rings = self.layers.iter().zip(self.past);
        if rings.any(|(layers, past)| layers.saturating_mul(past * width) > MAX_RING) {
            return wrong(format!(
                "layers times past times width of at most {MAX_RING} numbers"
            ));
        }
        Ok(())
    }
}

/// The model, and the state of one performer's stream.
///
/// Until a frame is committed, it only overwrites entries that are free (a slot of every ring, a row of the filter), so
/// that the controls of a frame can be computed without advancing the stream.
#[derive(Debug, Clone)]
pub struct MotionStream {
    embedding: Embedding,
    bias: Option<TrajectoryBias>,
    heads: Heads,
    fast: Pathway,
    slow: Pathway,
    poses: Option<PoseWindow>,
    row: [f32; FEATURE_COUNT],
    stride: usize,
    frames: usize,
    /// The row's scalars, followed by the embedding.
    inputs: Vec<f32>,
    recent: Vec<f32>,
    /// Output of the strokes; empty for a model without them.
    strokes: Vec<f32>,
    /// Sum of the open pool's past frames.
    pool: Vec<f32>,
    /// Mean of a pool that closes with the newest frame.
    mean: Vec<f32>,
    /// The slow pathway's last result, including the newest frame.
    held: Vec<f32>,
    /// The slow pathway's last result before the newest frame.
    before: Vec<f32>,
    controls: Controls,
}

impl MotionStream {
    /// Reads a checkpoint's tensors.
    ///
    /// # Errors
    /// A tensor that is missing or does not have the shape required by the sizes; sizes out of range.
    pub fn new(tensors: &Tensors, sizes: &MotionSizes) -> Result<Self, ModelError> {
        sizes.check()?;
        let MotionSizes { width, heads, .. } = *sizes;
        let kinematics = tensors.contains_key("kinematics.offsets");
        let embedding = Embedding::new(tensors, &sizes.visible, width, sizes.taps, kinematics)?;
        // A model that reads the twin's columns computes its parameters from them.
        let twin = embedding.columns() > FEATURE_COUNT_V1;
        let has_bias = tensors.contains_key("trunk.bias.beta");
        let pathway = |name, which: usize, steps: usize| {
            let distance = steps as f64 * sizes.distance;
            let kernel = || Kernel::new(tensors, heads, sizes.past[which], distance, sizes.positive);
            Pathway::new(tensors, name, sizes, which, has_bias.then(kernel).transpose()?)
        };
        let recent = embedding.recent_count();
        let poses = PoseWindow::read(tensors)?;
        if poses.is_some() && !(twin && kinematics) {
            return Err(ModelError::Shape {
                what: "poses".into(),
                expected: "a model with kinematics that reads the twin".into(),
                given: format!("{} columns", embedding.columns()),
            });
        }
        Ok(Self {
            poses,
            bias: has_bias
                .then(|| TrajectoryBias::new(tensors, heads))
                .transpose()?,
            heads: Heads::new(tensors, width, sizes.units, recent, sizes.gated, twin)?,
            fast: pathway("trunk.fast", 0, 1)?,
            slow: pathway("trunk.slow", 1, sizes.stride)?,
            row: [0.0; FEATURE_COUNT],
            stride: sizes.stride,
            frames: 0,
            inputs: vec![0.0; SCALAR_COUNT + width],
            recent: vec![0.0; recent],
            strokes: vec![0.0; if has_strokes(tensors) { STROKE_COUNT } else { 0 }],
            pool: vec![0.0; width],
            mean: vec![0.0; width],
            held: vec![0.0; width],
            before: vec![0.0; width],
            controls: Controls::new(width),
            embedding,
        })
    }

    /// Number of leading columns of a row that the model reads.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.embedding.columns()
    }

    /// The controls of the last step.
    #[must_use]
    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// Runs one step with `row`, of which the first [`Self::columns`] are read, and returns its controls.
    pub fn step(&mut self, row: &[f32]) -> &Controls {
        self.imagine(row);
        self.advance();
        &self.controls
    }

    /// Runs a step with each of `rows`, and returns the controls of the last one.
    pub fn step_all<R: AsRef<[f32]>>(&mut self, rows: &[R]) -> &Controls {
        if let Some((newest, before)) = rows.split_last() {
            before.iter().for_each(|row| self.pass(row.as_ref()));
            self.step(newest.as_ref());
        }
        &self.controls
    }

    /// A step whose controls are not needed: advances the stream like [`Self::step`], but skips the heads, the pose
    /// window's MLP and the end of the fast pathway, which are most of the work.
    fn pass(&mut self, row: &[f32]) {
        self.set_row(row);
        self.run_front(false);
        self.advance();
    }

    /// Commits the newest row to the past.
    fn advance(&mut self) {
        if self.closes() {
            self.slow.advance();
            self.before.copy_from_slice(&self.held);
            self.pool.fill(0.0);
        } else {
            let x = &self.inputs[SCALAR_COUNT..];
            self.pool.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
        }
        self.fast.advance();
        self.embedding.advance();
        if let Some(poses) = &mut self.poses {
            poses.advance();
        }
        self.frames += 1;
    }

    /// The controls if `row` came next; the stream does not advance.
    pub fn imagine(&mut self, row: &[f32]) -> &Controls {
        self.set_row(row);
        self.evaluate();
        &self.controls
    }

    fn set_row(&mut self, row: &[f32]) {
        self.row
            .iter_mut()
            .zip(row)
            .for_each(|(slot, value)| *slot = *value);
    }

    /// Computes the last row again, to warm caches and raise the processor's clock; the stream does not advance.
    pub fn prewarm(&mut self) {
        self.evaluate();
    }

    /// Starts a new stream.
    pub fn reset(&mut self) {
        self.embedding.reset();
        self.fast.reset();
        self.slow.reset();
        if let Some(poses) = &mut self.poses {
            poses.reset();
        }
        self.pool.fill(0.0);
        self.before.fill(0.0);
        self.frames = 0;
    }

    /// Whether the newest frame closes a pool.
    fn closes(&self) -> bool {
        (self.frames + 1).is_multiple_of(self.stride)
    }

    /// Runs the front-end and both pathways; computes the fast pathway's result only if `with_result`.
    fn run_front(&mut self, with_result: bool) {
        let closes = self.closes();
        let mut external = [0.0; SCALAR_COUNT];
        external.copy_from_slice(&self.row[SCALAR..SCALAR + SCALAR_COUNT]);
        let (scalars, x) = self.inputs.split_at_mut(SCALAR_COUNT);
        scalars.copy_from_slice(&external);
        self.embedding
            .run(&self.row, x, &mut self.recent, &mut self.strokes);
        let amplitudes = self.bias.as_mut().map(|bias| bias.amplitudes(&external));
        if closes {
            let frames = self.stride as f32;
            for ((mean, sum), x) in self.mean.iter_mut().zip(&self.pool).zip(&*x) {
                *mean = (sum + x) / frames;
            }
            self.held.copy_from_slice(self.slow.run(&self.mean, amplitudes));
        } else {
            self.held.copy_from_slice(&self.before);
        }
        if with_result {
            self.fast.run(x, amplitudes);
        } else {
            self.fast.pass(x, amplitudes);
        }
        if let Some(poses) = &mut self.poses {
            poses.set_newest(self.embedding.places());
        }
    }

    /// Runs the whole model on the row.
    fn evaluate(&mut self) {
        self.run_front(true);
        let inputs = HeadInputs {
            fast: self.fast.result(),
            inputs: &self.inputs,
            held: &self.held,
            recent: &self.recent,
            strokes: &self.strokes,
            twin: &self.row[TWIN..],
        };
        self.heads.apply(inputs, &mut self.controls);
        if let Some(poses) = &mut self.poses {
            let mut second = [0.0; PARAM_COUNT];
            poses.run(&self.row, &mut second);
            for (param, second) in self.controls.params.iter_mut().zip(second) {
                *param = 0.5 * (*param + second);
            }
        }
    }

    /// Everything that the next step depends on: the numbers of frames and pools, the past frames of the filter, the
    /// open pool, the slow pathway's last result, the contents of all rings, the strokes, and the last poses.
    #[must_use]
    pub fn snapshot(&self) -> Vec<f32> {
        let counts = [self.frames as f32, self.slow.count() as f32];
        let mut all = Vec::from(counts);
        let filter: Vec<f32> = self.embedding.oldest_first().flatten().copied().collect();
        all.extend(&filter[..filter.len() - self.mean.len()]);
        all.extend(self.pool.iter().chain(&self.before));
        all.extend(self.fast.past().chain(self.slow.past()));
        if !self.strokes.is_empty() {
            all.extend(self.embedding.strokes());
        }
        if let Some(poses) = &self.poses {
            all.extend(poses.past());
        }
        all
    }
}
