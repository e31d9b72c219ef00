//! A live step of the motion model: a feature row in, controls out, the state of the stream kept in between.
//!
//! [`MotionStream`] holds the weights and the state of one performer's stream: the front-end (kinematics, normalisation,
//! projection, causal filter, smoothed measures), the trajectory bias, the blocks of both pathways, gates and heads. It
//! knows the kind of model that comes with the package. The trained model's own definition is the reference, and tests
//! hold the two to each other.
#![forbid(unsafe_code)]

mod activations;
mod bias;
mod block;
mod embedding;
mod heads;
mod linear;
mod poses;
mod smoothed;
mod stream;
mod strokes;
mod twin_mix;

use std::collections::HashMap;

use anticip_motion::twin::PARAMETER_COUNT;

pub use heads::{Controls, HAZARD_COUNT, PARAM_COUNT, SCALAR_COUNT};
pub use linear::vector_width;
pub use stream::{MotionSizes, MotionStream};

/// No size is larger.
const MAX_SIZE: usize = 1 << 20;

/// At how many horizons a parameter is said.
const HORIZONS: usize = PARAM_COUNT / PARAMETER_COUNT;

/// Errors of this crate. Every message says what was expected and what was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A tensor is missing or has another shape, or sizes do not fit together.
    #[error("{what}: expected {expected}, got {given}")]
    Shape {
        /// Which tensor or sizes.
        what: String,
        /// What it should be.
        expected: String,
        /// What it is.
        given: String,
    },
}

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
fn tensor(tensors: &Tensors, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
    let found = tensors.get(name);
    match found {
        Some(t) if t.shape == shape && t.values.len() == shape.iter().product::<usize>() => {
            Ok(t.values.clone())
        }
        _ => Err(ModelError::Shape {
            what: name.to_owned(),
            expected: format!("{shape:?}"),
            given: found.map_or_else(|| "nothing".into(), |t| format!("{:?}", t.shape)),
        }),
    }
}
