//! What a live step of the motion model computes outside its two graphs.
//!
//! A graph pays some 4 us for every small tensor operation when caches are cold. The front-end (kinematics,
//! normalisation, projection, causal filter, smoothed measures), the trajectory bias, and the gates and heads behind the
//! blocks are hundreds of numbers each and would be two thirds of the graph's nodes; here they cost a few microseconds
//! together. The trained model's own definition is the reference, and tests hold the two to each other.

mod activations;
mod bias;
mod embedding;
mod heads;
mod rings;
mod smoothed;
mod step;
mod strokes;

use std::collections::HashMap;

pub use bias::TrajectoryBias;
pub use embedding::Embedding;
pub use heads::{HAZARD_COUNT, PARAM_COUNT, SCALAR_COUNT};
pub use smoothed::{CARRIED_COUNT, SMOOTHED_COUNT, STRETCHES, SmoothedMeasures};
pub use step::{ArraySpec, StepSizes, StepState};
pub use strokes::{STROKE_COUNT, Strokes};

use crate::MotionError;

/// A tensor of a checkpoint: its shape and its numbers, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// As many numbers as the shape says.
    pub values: Vec<f32>,
}

/// A checkpoint's tensors by name.
pub type Tensors = HashMap<String, Tensor>;

/// The numbers of a tensor, whose shape must be the one that the configuration asks for.
fn tensor(tensors: &Tensors, name: &'static str, shape: &[usize]) -> Result<Vec<f32>, MotionError> {
    let found = tensors.get(name);
    match found {
        Some(t) if t.shape == shape && t.values.len() == shape.iter().product::<usize>() => {
            Ok(t.values.clone())
        }
        _ => Err(MotionError::Shape {
            what: name,
            expected: format!("{shape:?}"),
            given: found.map_or_else(|| "nothing".into(), |t| format!("{:?}", t.shape)),
        }),
    }
}

/// A fully connected layer: weights (outputs, inputs) and a bias.
#[derive(Debug, Clone)]
struct Linear {
    inputs: usize,
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    fn new(
        tensors: &Tensors,
        names: [&'static str; 2],
        outputs: usize,
        inputs: usize,
    ) -> Result<Self, MotionError> {
        Ok(Self {
            inputs,
            weight: tensor(tensors, names[0], &[outputs, inputs])?,
            bias: tensor(tensors, names[1], &[outputs])?,
        })
    }

    /// A layer of weights alone.
    fn unbiased(
        tensors: &Tensors,
        name: &'static str,
        outputs: usize,
        inputs: usize,
    ) -> Result<Self, MotionError> {
        Ok(Self {
            inputs,
            weight: tensor(tensors, name, &[outputs, inputs])?,
            bias: vec![0.0; outputs],
        })
    }

    fn apply(&self, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(&self.bias);
        self.add(x, out);
    }

    /// Adds the products of the weights alone.
    fn add(&self, x: &[f32], out: &mut [f32]) {
        let rows = self.weight.chunks_exact(self.inputs);
        for (out, row) in out.iter_mut().zip(rows) {
            *out += dot(row, x);
        }
    }
}

/// The inner product, in sixteen partial sums that a compiler keeps in vector registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (blocks, rest) = a.as_chunks::<16>();
    let (others, last) = b.as_chunks::<16>();
    let mut sums = [0.0_f32; 16];
    for (x, y) in blocks.iter().zip(others) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += x * y;
        }
    }
    let tail: f32 = rest.iter().zip(last).map(|(x, y)| x * y).sum();
    let halves: [f32; 8] = std::array::from_fn(|i| sums[i] + sums[i + 8]);
    let quarters: [f32; 4] = std::array::from_fn(|i| halves[i] + halves[i + 4]);
    (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]) + tail
}
