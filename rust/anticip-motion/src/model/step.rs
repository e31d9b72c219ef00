//! The state of a live step, and everything of it but the graphs.

use std::ops::Range;

use super::bias::{Kernel, TrajectoryBias, mask_empty};
use super::heads::{HAZARD_COUNT, Heads, PARAM_COUNT, SCALAR_COUNT, Said, Seen};
use super::rings::Rings;
use super::strokes::{STROKE_COUNT, follows};
use super::{Embedding, Tensors};
use crate::MotionError;
use crate::features::{FEATURE_COUNT, FEATURE_COUNT_V1, SCALAR, TWIN};

/// Sizes of the model, as its configuration has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSizes {
    /// Width of the stream.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Blocks of the fast and of the slow pathway.
    pub layers: [usize; 2],
    /// Past steps that each pathway sees.
    pub past: [usize; 2],
    /// Frames in a pool of the slow pathway.
    pub stride: usize,
    /// Frames that the causal filter spans.
    pub taps: usize,
    /// Hidden units of the control head.
    pub units: usize,
}

/// An array that a graph reads or writes: its name there, where it lies in the memory, and its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// Name of the graph's input or output.
    pub name: String,
    /// Where it lies.
    pub place: Range<usize>,
    /// Lengths of its axes.
    pub shape: Vec<usize>,
}

/// Places that follow one another, each at the start of a cache line.
#[derive(Default)]
struct Plan {
    end: usize,
}

impl Plan {
    fn take(&mut self, length: usize) -> Range<usize> {
        let start = self.end.next_multiple_of(16);
        self.end = start + length;
        start..self.end
    }
}

/// One pathway's rings, and its bias over their slots and the step itself.
#[derive(Debug, Clone)]
struct Pathway {
    rings: Rings,
    kernel: Option<Kernel>,
    bias: Range<usize>,
    heads: usize,
}

impl Pathway {
    fn aim(&self, amplitudes: Option<&[f32]>, memory: &mut [f32]) {
        let out = &mut memory[self.bias.clone()];
        if let (Some(kernel), Some(amplitudes)) = (&self.kernel, amplitudes) {
            kernel.write(amplitudes, self.rings.slot(), out);
        } else {
            out.fill(0.0);
        }
        mask_empty(self.rings.past, self.rings.count, out);
    }

    fn arrays(&self) -> Vec<ArraySpec> {
        let Rings {
            kept,
            new,
            past,
            width,
            ..
        } = &self.rings;
        let (heads, ring, step) = (self.heads, self.heads * past * width, self.heads * width);
        let mut arrays = vec![ArraySpec {
            name: "bias".into(),
            place: self.bias.clone(),
            shape: vec![1, heads, 1, past + 1],
        }];
        for i in 0..new.len() / step {
            let (part, block) = (["key", "value"][i % 2], i / 2);
            for (name, start, length, rows) in [
                (format!("{part}s_{block}"), kept.start + i * ring, ring, *past),
                (format!("{part}_{block}"), new.start + i * step, step, 1),
            ] {
                arrays.push(ArraySpec {
                    name,
                    place: start..start + length,
                    shape: vec![1, heads, rows, *width],
                });
            }
        }
        arrays
    }
}

/// The state of one performer's stream, and what a step computes outside its graphs.
///
/// The numbers that the graphs read and write lie in a memory that belongs to the caller, [`Self::memory_len`] long and
/// zero at first; [`Self::fast_arrays`] and [`Self::slow_arrays`] say where. A frame is [`Self::begin`]; where it closes
/// a pool, the slow graph and [`Self::close_pool`]; the step graph; [`Self::finish`], after which [`Self::said`] lies
/// there.
#[derive(Debug, Clone)]
pub struct StepState {
    embedding: Embedding,
    bias: Option<TrajectoryBias>,
    heads: Heads,
    fast: Pathway,
    slow: Pathway,
    row: [f32; FEATURE_COUNT],
    stride: usize,
    frames: usize,
    length: usize,
    /// The given scalars and, right behind them, the embedding.
    told: Range<usize>,
    recent: Range<usize>,
    /// How the strokes stand, right behind that; empty where they are not followed.
    strokes: Range<usize>,
    /// Sum of the open pool, and with the newest frame its mean.
    pool: Range<usize>,
    mean: Range<usize>,
    held: Range<usize>,
    closed: Range<usize>,
    /// Result of the fast pathway.
    through: Range<usize>,
    /// Behind everything else: parameters, hazards, scalars, the commitment gate and the hidden state.
    said: Range<usize>,
}

impl StepState {
    /// Reads what it needs of a checkpoint's tensors.
    ///
    /// `visible` tells for every column that the model reads whether the projection sees it; `distance` is that of two frames in the bias
    /// kernel, whose decay is a softplus of its parameter where `positive`; `gated` whether the commitment scales the
    /// events' evidence.
    ///
    /// # Errors
    /// A tensor that is missing or does not have the shape that the sizes ask for; sizes of zero.
    pub fn new(
        tensors: &Tensors,
        sizes: StepSizes,
        visible: &[bool],
        distance: f64,
        positive: bool,
        gated: bool,
    ) -> Result<Self, MotionError> {
        let StepSizes {
            width,
            heads,
            layers,
            past,
            stride,
            taps,
            units,
        } = sizes;
        if heads == 0 || width % heads != 0 || past.contains(&0) || stride == 0 {
            return Err(MotionError::Shape {
                what: "sizes",
                expected: "heads that divide the width, and nothing that is zero".into(),
                given: format!("{sizes:?}"),
            });
        }
        let kinematics = tensors.contains_key("kinematics.offsets");
        let embedding = Embedding::new(tensors, visible, width, taps, kinematics)?;
        // A model that reads the twin's columns makes its parameters of them.
        let twin = embedding.columns() > FEATURE_COUNT_V1;
        let biased = tensors.contains_key("trunk.bias.beta");
        let strokes = if follows(tensors) { STROKE_COUNT } else { 0 };
        let mut plan = Plan::default();
        let mut pathway = |layers: usize, past: usize, steps: usize| -> Result<Pathway, MotionError> {
            Ok(Pathway {
                rings: Rings {
                    kept: plan.take(2 * layers * past * width),
                    new: plan.take(2 * layers * width),
                    past,
                    width: width / heads,
                    count: 0,
                },
                kernel: biased
                    .then(|| Kernel::new(tensors, heads, past, steps as f64 * distance, positive))
                    .transpose()?,
                bias: plan.take(heads * (past + 1)),
                heads,
            })
        };
        let fast = pathway(layers[0], past[0], 1)?;
        let slow = pathway(layers[1], past[1], stride)?;
        Ok(Self {
            bias: biased.then(|| TrajectoryBias::new(tensors, heads)).transpose()?,
            heads: Heads::new(tensors, width, units, embedding.recent_count(), gated, twin)?,
            fast,
            slow,
            row: [0.0; FEATURE_COUNT],
            stride,
            frames: 0,
            told: plan.take(SCALAR_COUNT + width),
            recent: plan.take(embedding.recent_count()),
            strokes: plan.take(strokes),
            pool: plan.take(width),
            mean: plan.take(width),
            held: plan.take(width),
            closed: plan.take(width),
            through: plan.take(width),
            said: plan.take(PARAM_COUNT + HAZARD_COUNT + SCALAR_COUNT + 1 + width),
            length: plan.end,
            embedding,
        })
    }

    /// How many columns of a row it reads, the first ones.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.embedding.columns()
    }

    /// How many numbers the memory holds.
    #[must_use]
    pub fn memory_len(&self) -> usize {
        self.length
    }

    /// Where all that a step says lies: [`PARAM_COUNT`] sound parameters, [`HAZARD_COUNT`] hazards, [`SCALAR_COUNT`]
    /// scalars, the commitment gate, the hidden state.
    #[must_use]
    pub fn said(&self) -> Range<usize> {
        self.said.clone()
    }

    /// What the step graph reads and writes.
    #[must_use]
    pub fn fast_arrays(&self) -> Vec<ArraySpec> {
        let mut arrays = self.fast.arrays();
        let x = self.told.start + SCALAR_COUNT..self.told.end;
        arrays.push(row_of("x", &x));
        arrays.push(row_of("fast", &self.through));
        arrays
    }

    /// What the heads read beside the graphs: the given scalars and the embedding; what the slow pathway said last; the
    /// numbers of the last frames; how the strokes stand.
    #[must_use]
    pub fn edge_arrays(&self) -> Vec<ArraySpec> {
        vec![
            row_of("told", &self.told),
            row_of("held", &self.held),
            row_of("recent", &self.recent),
            row_of("strokes", &self.strokes),
        ]
    }

    /// What the slow graph reads and writes.
    #[must_use]
    pub fn slow_arrays(&self) -> Vec<ArraySpec> {
        let mut arrays = self.slow.arrays();
        arrays.push(row_of("mean", &self.mean));
        arrays.push(row_of("slow", &self.closed));
        arrays
    }

    /// Begin a new stream.
    pub fn reset(&mut self, memory: &mut [f32]) {
        self.embedding.reset();
        self.fast.rings.reset(memory);
        self.slow.rings.reset(memory);
        for place in [&self.pool, &self.held] {
            memory[place.clone()].fill(0.0);
        }
        self.frames = 0;
    }

    /// Everything the step graph reads, with `row` as the newest frame. True: this frame closes a pool, and what the
    /// slow graph reads is there as well. Until [`Self::finish`] the row can be replaced by another. Of a row the first
    /// [`Self::columns`] are read.
    pub fn begin(&mut self, memory: &mut [f32], row: &[f32]) -> bool {
        for (slot, value) in self.row.iter_mut().zip(row) {
            *slot = *value;
        }
        self.look(memory)
    }

    /// [`Self::begin`] with the last row once more.
    pub fn look(&mut self, memory: &mut [f32]) -> bool {
        let due = (self.frames + 1).is_multiple_of(self.stride);
        let mut given = [0.0; SCALAR_COUNT];
        given.copy_from_slice(&self.row[SCALAR..SCALAR + SCALAR_COUNT]);
        let (before, after) = memory.split_at_mut(self.recent.start);
        let (recent, after) = after.split_at_mut(self.strokes.start - self.recent.start);
        let (scalars, x) = before[self.told.clone()].split_at_mut(SCALAR_COUNT);
        scalars.copy_from_slice(&given);
        let recent = &mut recent[..self.recent.len()];
        self.embedding
            .look(&self.row, x, recent, &mut after[..self.strokes.len()]);
        let amplitudes = self.bias.as_mut().map(|bias| bias.amplitudes(&given));
        self.fast.aim(amplitudes, memory);
        if due {
            self.slow.aim(amplitudes, memory);
            for i in 0..self.mean.len() {
                let sum = memory[self.pool.start + i] + memory[self.told.start + SCALAR_COUNT + i];
                memory[self.mean.start + i] = sum / self.stride as f32;
            }
        }
        due
    }

    /// Stores what the slow graph said.
    pub fn close_pool(&mut self, memory: &mut [f32]) {
        memory.copy_within(self.closed.clone(), self.held.start);
        self.slow.rings.advance(memory);
    }

    /// Says what holds ([`Self::said`]) and stores what the step graph said: the frame is part of the past.
    pub fn finish(&mut self, memory: &mut [f32]) {
        self.say(memory, &self.held.clone());
        self.fast.rings.advance(memory);
        self.embedding.advance();
        self.frames += 1;
        let closed = self.frames.is_multiple_of(self.stride);
        for i in 0..self.pool.len() {
            let x = memory[self.told.start + SCALAR_COUNT + i];
            let pool = &mut memory[self.pool.start + i];
            *pool = if closed { 0.0 } else { *pool + x };
        }
    }

    /// `held` is where the slow pathway's last result lies.
    fn say(&mut self, memory: &mut [f32], held: &Range<usize>) {
        let (read, said) = memory.split_at_mut(self.said.start);
        let (params, said) = said.split_at_mut(PARAM_COUNT);
        let (hazards, said) = said.split_at_mut(HAZARD_COUNT);
        let (scalars, said) = said.split_at_mut(SCALAR_COUNT);
        let (gate, hidden) = said.split_at_mut(1);
        let seen = Seen {
            told: &read[self.told.clone()],
            fast: &read[self.through.clone()],
            held: &read[held.clone()],
            recent: &read[self.recent.clone()],
            strokes: &read[self.strokes.clone()],
            twin: &self.row[TWIN..],
        };
        let said = Said {
            params,
            hazards,
            scalars,
            gate: &mut gate[0],
            hidden,
        };
        self.heads.say(seen, said);
    }

    /// Says what [`Self::finish`] says, where `due` what it says after [`Self::close_pool`]; nothing of the state changes.
    pub fn rehearse(&mut self, memory: &mut [f32], due: bool) {
        let held = if due { &self.closed } else { &self.held }.clone();
        self.say(memory, &held);
        self.fast.rings.rehearse(memory);
        self.slow.rings.rehearse(memory);
    }

    /// Everything that the next step depends on: how many frames and pools there were, the past frames of the filter,
    /// the open pool, the slow pathway's last result, all rings, and the strokes.
    #[must_use]
    pub fn snapshot(&self, memory: &[f32]) -> Vec<f32> {
        let counts = [self.frames as f32, self.slow.rings.count as f32];
        let taps = self.embedding.oldest_first();
        let places = [
            &self.pool,
            &self.held,
            &self.fast.rings.kept,
            &self.slow.rings.kept,
        ];
        let rest = places.into_iter().flat_map(|place| &memory[place.clone()]);
        let past: Vec<f32> = taps.flatten().copied().collect();
        let open = past.len() - self.mean.len();
        let mut all: Vec<f32> = counts.iter().chain(&past[..open]).chain(rest).copied().collect();
        if !self.strokes.is_empty() {
            all.extend(self.embedding.strokes());
        }
        all
    }
}

fn row_of(name: &str, place: &Range<usize>) -> ArraySpec {
    ArraySpec {
        name: name.into(),
        place: place.clone(),
        shape: vec![1, place.len()],
    }
}
