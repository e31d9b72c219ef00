//! One performer's stream through the model.

use anticip_motion::features::{FEATURE_COUNT, FEATURE_COUNT_V1, SCALAR, TWIN};

use crate::bias::{Kernel, TrajectoryBias};
use crate::block::Pathway;
use crate::embedding::Embedding;
use crate::heads::{Controls, Heads, PARAM_COUNT, SCALAR_COUNT, Seen};
use crate::poses::PoseWindow;
use crate::strokes::{STROKE_COUNT, follows};
use crate::{MAX_SIZE, ModelError, Tensors};

/// A ring of keys or values has no more numbers (256 MiB).
const MAX_RING: usize = 1 << 26;

/// Sizes and options of the model, as its configuration has them.
#[derive(Debug, Clone, PartialEq)]
pub struct MotionSizes {
    /// Width of the stream.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Blocks of the fast and of the slow pathway.
    pub layers: [usize; 2],
    /// Past steps that each pathway sees.
    pub past: [usize; 2],
    /// Hidden units of a block.
    pub hidden: usize,
    /// Frames in a pool of the slow pathway.
    pub stride: usize,
    /// Frames that the causal filter spans.
    pub taps: usize,
    /// Hidden units of the control head.
    pub units: usize,
    /// For every column that the model reads whether the projection sees it.
    pub visible: Vec<bool>,
    /// Distance of two frames in the bias kernel.
    pub distance: f64,
    /// Whether the kernel's decay is a softplus of its parameter.
    pub positive: bool,
    /// Whether the commitment scales the events' evidence.
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
/// Everything that a frame changes lies open until the frame is part of the past, so that a frame can be looked at
/// without a trace: a slot of every ring, a row of the filter.
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
    /// The given scalars and, right behind them, the embedding.
    inputs: Vec<f32>,
    recent: Vec<f32>,
    /// How the strokes stand; empty where they are not followed.
    strokes: Vec<f32>,
    /// Sum of the open pool, and with the newest frame its mean.
    pool: Vec<f32>,
    mean: Vec<f32>,
    /// What the slow pathway said last; with the newest frame, and before it.
    held: Vec<f32>,
    before: Vec<f32>,
    controls: Controls,
}

impl MotionStream {
    /// Reads a checkpoint's tensors.
    ///
    /// # Errors
    /// A tensor that is missing or does not have the shape that the sizes ask for; sizes of zero or beyond all models.
    pub fn new(tensors: &Tensors, sizes: &MotionSizes) -> Result<Self, ModelError> {
        sizes.check()?;
        let MotionSizes { width, heads, .. } = *sizes;
        let kinematics = tensors.contains_key("kinematics.offsets");
        let embedding = Embedding::new(tensors, &sizes.visible, width, sizes.taps, kinematics)?;
        // A model that reads the twin's columns makes its parameters of them.
        let twin = embedding.columns() > FEATURE_COUNT_V1;
        let biased = tensors.contains_key("trunk.bias.beta");
        let pathway = |name, which: usize, steps: usize| {
            let distance = steps as f64 * sizes.distance;
            let kernel = || Kernel::new(tensors, heads, sizes.past[which], distance, sizes.positive);
            Pathway::new(tensors, name, sizes, which, biased.then(kernel).transpose()?)
        };
        let recent = embedding.recent_count();
        let poses = PoseWindow::of(tensors)?;
        if poses.is_some() && !(twin && kinematics) {
            return Err(ModelError::Shape {
                what: "poses".into(),
                expected: "a model with kinematics that reads the twin".into(),
                given: format!("{} columns", embedding.columns()),
            });
        }
        Ok(Self {
            poses,
            bias: biased.then(|| TrajectoryBias::new(tensors, heads)).transpose()?,
            heads: Heads::new(tensors, width, sizes.units, recent, sizes.gated, twin)?,
            fast: pathway("trunk.fast", 0, 1)?,
            slow: pathway("trunk.slow", 1, sizes.stride)?,
            row: [0.0; FEATURE_COUNT],
            stride: sizes.stride,
            frames: 0,
            inputs: vec![0.0; SCALAR_COUNT + width],
            recent: vec![0.0; recent],
            strokes: vec![0.0; if follows(tensors) { STROKE_COUNT } else { 0 }],
            pool: vec![0.0; width],
            mean: vec![0.0; width],
            held: vec![0.0; width],
            before: vec![0.0; width],
            controls: Controls::new(width),
            embedding,
        })
    }

    /// How many columns of a row it reads, the first ones.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.embedding.columns()
    }

    /// What the last step said.
    #[must_use]
    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// What holds after `row`, of which the first [`Self::columns`] are read.
    pub fn step(&mut self, row: &[f32]) -> &Controls {
        self.imagine(row);
        self.advance();
        &self.controls
    }

    /// What holds after the last of `rows`, as after a step of each.
    pub fn step_all<R: AsRef<[f32]>>(&mut self, rows: &[R]) -> &Controls {
        if let Some((newest, before)) = rows.split_last() {
            before.iter().for_each(|row| self.pass(row.as_ref()));
            self.step(newest.as_ref());
        }
        &self.controls
    }

    /// A step of which nobody reads what holds: the stream goes on as by [`Self::step`], without the heads, the poses'
    /// perceptron and the end of the fast pathway, which are most of the work.
    fn pass(&mut self, row: &[f32]) {
        self.take(row);
        self.hear(false);
        self.advance();
    }

    /// The newest row is part of the past.
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

    /// What holds if `row` is the next one; the stream stays where it is.
    pub fn imagine(&mut self, row: &[f32]) -> &Controls {
        self.take(row);
        self.look();
        &self.controls
    }

    fn take(&mut self, row: &[f32]) {
        self.row
            .iter_mut()
            .zip(row)
            .for_each(|(slot, value)| *slot = *value);
    }

    /// Goes through a step with the last row once more, for caches and clocks; the stream stays where it is.
    pub fn prewarm(&mut self) {
        self.look();
    }

    /// Begins a new stream.
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

    /// What the pathways and rings make of the row; the fast pathway's result only if it is `read`.
    fn hear(&mut self, read: bool) {
        let closes = self.closes();
        let mut given = [0.0; SCALAR_COUNT];
        given.copy_from_slice(&self.row[SCALAR..SCALAR + SCALAR_COUNT]);
        let (scalars, x) = self.inputs.split_at_mut(SCALAR_COUNT);
        scalars.copy_from_slice(&given);
        self.embedding
            .look(&self.row, x, &mut self.recent, &mut self.strokes);
        let amplitudes = self.bias.as_mut().map(|bias| bias.amplitudes(&given));
        if closes {
            let frames = self.stride as f32;
            for ((mean, sum), x) in self.mean.iter_mut().zip(&self.pool).zip(&*x) {
                *mean = (sum + x) / frames;
            }
            self.held.copy_from_slice(self.slow.look(&self.mean, amplitudes));
        } else {
            self.held.copy_from_slice(&self.before);
        }
        if read {
            self.fast.look(x, amplitudes);
        } else {
            self.fast.pass(x, amplitudes);
        }
        if let Some(poses) = &mut self.poses {
            poses.hear(self.embedding.places());
        }
    }

    fn look(&mut self) {
        self.hear(true);
        let seen = Seen {
            fast: self.fast.result(),
            inputs: &self.inputs,
            held: &self.held,
            recent: &self.recent,
            strokes: &self.strokes,
            twin: &self.row[TWIN..],
        };
        self.heads.apply(seen, &mut self.controls);
        if let Some(poses) = &mut self.poses {
            let mut second = [0.0; PARAM_COUNT];
            poses.look(&self.row, &mut second);
            for (param, second) in self.controls.params.iter_mut().zip(second) {
                *param = 0.5 * (*param + second);
            }
        }
    }

    /// Everything that the next step depends on: how many frames and pools there were, the past frames of the filter,
    /// the open pool, the slow pathway's last result, the past of all rings, the strokes, and the last poses.
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
