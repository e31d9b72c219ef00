//! The blocks of a pathway, one step at a time, with rings of past keys and values.

use pulp::Arch;

use crate::activations::{exp, gelu};
use crate::bias::Kernel;
use crate::linear::{Linear, Norm, Precision, dot};
use crate::{ModelError, MotionSizes, Tensors};

const BYTES: Precision = Precision::Bytes;

/// A pre-norm MLP with a residual connection: `x += down(gelu(up(norm x)))`.
#[derive(Debug, Clone)]
pub(crate) struct FeedForward {
    norm: Norm,
    up: Linear,
    down: Linear,
}

impl FeedForward {
    /// Reads `{name}.{norm}`, `{name}.up` and `{name}.down`.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(crate) fn new(
        tensors: &Tensors,
        name: &str,
        norm: &str,
        width: usize,
        hidden: usize,
    ) -> Result<Self, ModelError> {
        Ok(Self {
            norm: Norm::new(tensors, &format!("{name}.{norm}"), width)?,
            up: Linear::new(tensors, &format!("{name}.up"), hidden, width, BYTES)?,
            down: Linear::new(tensors, &format!("{name}.down"), width, hidden, BYTES)?,
        })
    }

    /// Number of hidden units.
    pub(crate) fn hidden(&self) -> usize {
        self.up.outputs()
    }

    /// Applies the MLP to `x`; `normed`, as long as `x`, and `hidden` are buffers.
    pub(crate) fn apply(&self, x: &mut [f32], normed: &mut [f32], hidden: &mut [f32]) {
        self.norm.apply(x, normed);
        self.up.apply(normed, hidden);
        gelu(hidden);
        self.down.apply(hidden, normed);
        x.iter_mut().zip(normed).for_each(|(x, change)| *x += *change);
    }
}

/// Pre-norm attention, `x += out(attend(norm x))`, then the MLP.
#[derive(Debug, Clone)]
struct Block {
    norm: Norm,
    qkv: Linear,
    out: Linear,
    feed_forward: FeedForward,
    /// (slots, width) each.
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Block {
    fn new(
        tensors: &Tensors,
        name: &str,
        width: usize,
        hidden: usize,
        slots: usize,
    ) -> Result<Self, ModelError> {
        let attention = |part, outputs| {
            let name = format!("{name}.attention.{part}");
            Linear::unbiased(tensors, &name, outputs, width, BYTES)
        };
        Ok(Self {
            norm: Norm::new(tensors, &format!("{name}.norm1"), width)?,
            qkv: attention("qkv", 3 * width)?,
            out: attention("out", width)?,
            feed_forward: FeedForward::new(tensors, name, "norm2", width, hidden)?,
            keys: vec![0.0; slots * width],
            values: vec![0.0; slots * width],
        })
    }
}

/// A pathway's blocks and their rings.
///
/// A ring has one slot more than past steps: it also holds the newest step, which can be replaced until
/// [`Pathway::advance`].
#[derive(Debug, Clone)]
pub(crate) struct Pathway {
    blocks: Vec<Block>,
    kernel: Option<Kernel>,
    heads: usize,
    slots: usize,
    /// Steps so far, without the newest.
    count: usize,
    /// Result of the newest step.
    x: Vec<f32>,
    bias: Vec<f32>,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    mixed: Vec<f32>,
    hidden: Vec<f32>,
    scores: Vec<f32>,
}

impl Pathway {
    /// Reads `{name}.0.*` and so on; `which` is the pathway's index in the sizes.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(crate) fn new(
        tensors: &Tensors,
        name: &str,
        sizes: &MotionSizes,
        which: usize,
        kernel: Option<Kernel>,
    ) -> Result<Self, ModelError> {
        let MotionSizes {
            width, heads, hidden, ..
        } = *sizes;
        let slots = sizes.past[which] + 1;
        let blocks = (0..sizes.layers[which])
            .map(|i| Block::new(tensors, &format!("{name}.{i}"), width, hidden, slots));
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            kernel,
            heads,
            slots,
            count: 0,
            x: vec![0.0; width],
            bias: vec![0.0; heads * slots],
            normed: vec![0.0; width],
            qkv: vec![0.0; 3 * width],
            mixed: vec![0.0; width],
            hidden: vec![0.0; hidden],
            scores: vec![0.0; heads * slots],
        })
    }

    /// Runs the blocks with `x` as the newest step; `amplitudes` of the bias are one per head.
    pub(crate) fn run(&mut self, x: &[f32], amplitudes: Option<&[f32]>) -> &[f32] {
        self.run_blocks(x, amplitudes, true);
        &self.x
    }

    /// Stores `x` as the newest step in the rings, without computing the pathway's result.
    pub(crate) fn pass(&mut self, x: &[f32], amplitudes: Option<&[f32]>) {
        self.run_blocks(x, amplitudes, false);
    }

    /// Result of the last [`Pathway::run`].
    pub(crate) fn result(&self) -> &[f32] {
        &self.x
    }

    fn run_blocks(&mut self, x: &[f32], amplitudes: Option<&[f32]>, with_result: bool) {
        let (width, newest) = (x.len(), self.count % self.slots);
        // Slots are filled in order from the first one.
        let filled = (self.count + 1).min(self.slots);
        if let (Some(kernel), Some(amplitudes)) = (&self.kernel, amplitudes) {
            kernel.write(amplitudes, newest, &mut self.bias);
        }
        self.x.copy_from_slice(x);
        let last = self.blocks.len() - 1;
        for (i, block) in self.blocks.iter_mut().enumerate() {
            block.norm.apply(&self.x, &mut self.normed);
            block.qkv.apply(&self.normed, &mut self.qkv);
            let (query, key_value) = self.qkv.split_at(width);
            let (key, value) = key_value.split_at(width);
            let slot = newest * width..(newest + 1) * width;
            block.keys[slot.clone()].copy_from_slice(key);
            block.values[slot].copy_from_slice(value);
            if i == last && !with_result {
                return;
            }
            let past = Past {
                keys: &block.keys[..filled * width],
                values: &block.values[..filled * width],
                bias: &self.bias,
                slots: self.slots,
            };
            let (scores, mixed) = (&mut self.scores[..self.heads * filled], &mut self.mixed[..]);
            Arch::new().dispatch(|| past.attend(query, self.heads, scores, mixed));
            block.out.add(&self.mixed, &mut self.x);
            block
                .feed_forward
                .apply(&mut self.x, &mut self.normed, &mut self.hidden);
        }
    }

    /// Commits the newest step to the past.
    pub(crate) fn advance(&mut self) {
        self.count += 1;
    }

    /// Starts a new stream.
    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }

    /// The keys and values of the past steps, block by block.
    pub(crate) fn past(&self) -> impl Iterator<Item = f32> {
        let (width, newest) = (self.x.len(), self.count % self.slots);
        let rings = self.blocks.iter().flat_map(|block| [&block.keys, &block.values]);
        rings
            .flat_map(move |ring| {
                ring.chunks_exact(width)
                    .take(self.count.min(self.slots))
                    .enumerate()
            })
            .filter(move |(slot, _)| *slot != newest)
            .flat_map(|(_, row)| row.iter().copied())
    }

    /// Number of past steps.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// Keys, values and bias that a step of a block attends to.
#[derive(Clone, Copy)]
struct Past<'a> {
    /// (steps, width) each.
    keys: &'a [f32],
    values: &'a [f32],
    /// (heads, slots).
    bias: &'a [f32],
    slots: usize,
}

impl Past<'_> {
    /// `softmax(q k / sqrt(width of a head) + bias) v` of every head; `scores` is a buffer (heads, steps).
    ///
    /// All heads of a step come before the next step: with many performers keys and values exceed the caches, and are
    /// read fastest in memory order.
    #[inline(always)]
    fn attend(self, query: &[f32], heads: usize, scores: &mut [f32], mixed: &mut [f32]) {
        let width = query.len();
        let head_width = width / heads;
        let gain = (head_width as f32).sqrt().recip();
        let steps = self.keys.len() / width;
        for (step, key) in self.keys.chunks_exact(width).enumerate() {
            let heads_of_step = query.chunks_exact(head_width).zip(key.chunks_exact(head_width));
            for (head, (query, key)) in heads_of_step.enumerate() {
                scores[head * steps + step] = dot(query, key) * gain + self.bias[head * self.slots + step];
            }
        }
        for scores in scores.chunks_exact_mut(steps) {
            let max_score = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for score in scores.iter_mut() {
                *score = exp(*score - max_score);
            }
            let share = scores.iter().sum::<f32>().recip();
            scores.iter_mut().for_each(|score| *score *= share);
        }
        mixed.fill(0.0);
        for (step, value) in self.values.chunks_exact(width).enumerate() {
            let heads_of_step = mixed
                .chunks_exact_mut(head_width)
                .zip(value.chunks_exact(head_width));
            for (head, (mixed, value)) in heads_of_step.enumerate() {
                let weight = scores[head * steps + step];
                for (sum, v) in mixed.iter_mut().zip(value) {
                    *sum += weight * v;
                }
            }
        }
    }
}
