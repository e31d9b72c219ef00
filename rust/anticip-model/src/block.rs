//! The blocks of a pathway, one step at a time, over rings of what came before.

use pulp::Arch;

use crate::activations::{exp, gelu};
use crate::bias::Kernel;
use crate::linear::{Linear, Norm, Precision, dot};
use crate::{ModelError, MotionSizes, Tensors};

const BYTES: Precision = Precision::Bytes;

/// Pre-norm attention and feed-forward: `x += out(attend(norm x)); x += down(gelu(up(norm x)))`.
#[derive(Debug, Clone)]
struct Block {
    norms: [Norm; 2],
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
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
        let norm = |part| Norm::new(tensors, &format!("{name}.{part}"), width);
        let plain = |part, outputs| {
            Linear::unbiased(
                tensors,
                &format!("{name}.attention.{part}"),
                outputs,
                width,
                BYTES,
            )
        };
        Ok(Self {
            norms: [norm("norm1")?, norm("norm2")?],
            qkv: plain("qkv", 3 * width)?,
            out: plain("out", width)?,
            up: Linear::new(tensors, &format!("{name}.up"), hidden, width, BYTES)?,
            down: Linear::new(tensors, &format!("{name}.down"), width, hidden, BYTES)?,
            keys: vec![0.0; slots * width],
            values: vec![0.0; slots * width],
        })
    }
}

/// A pathway's blocks, and the steps that they look back on.
///
/// A ring has a slot more than past steps are seen: the newest step lies in it like all others, and until
/// [`Pathway::advance`] it can be replaced by another.
#[derive(Debug, Clone)]
pub(crate) struct Pathway {
    blocks: Vec<Block>,
    kernel: Option<Kernel>,
    heads: usize,
    slots: usize,
    /// Steps so far, without the newest.
    count: usize,
    /// What the newest step came to.
    x: Vec<f32>,
    bias: Vec<f32>,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    mixed: Vec<f32>,
    hidden: Vec<f32>,
    scores: Vec<f32>,
}

impl Pathway {
    /// Reads `{name}.0.*` and so on; `which` is its place among the pathways.
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

    /// What comes of `x` as the newest step; the `amplitudes` are those of the bias, a head each.
    pub(crate) fn look(&mut self, x: &[f32], amplitudes: Option<&[f32]>) -> &[f32] {
        self.run(x, amplitudes, true);
        &self.x
    }

    /// Leaves what `x` as the newest step adds to the past, and no more.
    pub(crate) fn pass(&mut self, x: &[f32], amplitudes: Option<&[f32]>) {
        self.run(x, amplitudes, false);
    }

    /// What the newest step came to, where it was looked at.
    pub(crate) fn result(&self) -> &[f32] {
        &self.x
    }

    fn run(&mut self, x: &[f32], amplitudes: Option<&[f32]>, whole: bool) {
        let (width, newest) = (x.len(), self.count % self.slots);
        // Slots are filled from the first one on.
        let filled = (self.count + 1).min(self.slots);
        if let (Some(kernel), Some(amplitudes)) = (&self.kernel, amplitudes) {
            kernel.write(amplitudes, newest, &mut self.bias);
        }
        self.x.copy_from_slice(x);
        let last = self.blocks.len() - 1;
        for (i, block) in self.blocks.iter_mut().enumerate() {
            block.norms[0].apply(&self.x, &mut self.normed);
            block.qkv.apply(&self.normed, &mut self.qkv);
            let (query, given) = self.qkv.split_at(width);
            let (key, value) = given.split_at(width);
            let slot = newest * width..(newest + 1) * width;
            block.keys[slot.clone()].copy_from_slice(key);
            block.values[slot].copy_from_slice(value);
            if i == last && !whole {
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
            block.norms[1].apply(&self.x, &mut self.normed);
            block.up.apply(&self.normed, &mut self.hidden);
            gelu(&mut self.hidden);
            block.down.apply(&self.hidden, &mut self.normed);
            self.x
                .iter_mut()
                .zip(&self.normed)
                .for_each(|(x, change)| *x += change);
        }
    }

    /// The newest step is part of the past.
    pub(crate) fn advance(&mut self) {
        self.count += 1;
    }

    /// Begin a new stream.
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

    /// How many steps there were.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// What a step of a block looks at.
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
    /// `softmax(q k / sqrt(width of a head) + bias) v` of every head; `scores` has room for a score a head and step.
    ///
    /// All heads of a step before the next step: keys and values are more than caches hold of many performers, and
    /// come fastest in the order they lie in.
    #[inline(always)]
    fn attend(self, query: &[f32], heads: usize, scores: &mut [f32], mixed: &mut [f32]) {
        let width = query.len();
        let part = width / heads;
        let gain = (part as f32).sqrt().recip();
        let steps = self.keys.len() / width;
        for (step, key) in self.keys.chunks_exact(width).enumerate() {
            let parts = query.chunks_exact(part).zip(key.chunks_exact(part));
            for (head, (query, key)) in parts.enumerate() {
                scores[head * steps + step] = dot(query, key) * gain + self.bias[head * self.slots + step];
            }
        }
        for scores in scores.chunks_exact_mut(steps) {
            let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            scores.iter_mut().for_each(|score| *score = exp(*score - top));
            let share = scores.iter().sum::<f32>().recip();
            scores.iter_mut().for_each(|score| *score *= share);
        }
        mixed.fill(0.0);
        for (step, value) in self.values.chunks_exact(width).enumerate() {
            let parts = mixed.chunks_exact_mut(part).zip(value.chunks_exact(part));
            for (head, (mixed, value)) in parts.enumerate() {
                let weight = scores[head * steps + step];
                mixed
                    .iter_mut()
                    .zip(value)
                    .for_each(|(sum, v)| *sum += weight * v);
            }
        }
    }
}
