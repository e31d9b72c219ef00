//! Streaming inference of the motion model: a feature row in, controls out.
//!
//! [`MotionStream`] holds the weights and the state of one performer's stream: the front-end (kinematics,
//! normalisation, projection, causal filter, smoothed measures), the trajectory bias, the blocks of both pathways,
//! gates and heads. It supports the architecture of the packaged model. The Python model in torch is the reference, and
//! tests compare the two.
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

/// Maximum of all sizes.
const MAX_SIZE: usize = 1 << 20;

/// Number of horizons of each parameter.
const HORIZONS: usize = PARAM_COUNT / PARAMETER_COUNT;

/// Errors of this crate. Every message has the expected and the actual value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A tensor is missing or has another shape, or sizes do not fit together.
    #[error("{what}: expected {expected}, got {given}")]
    Shape {
        /// The tensor, or `sizes`.
        what: String,
        /// The expected shape or sizes.
        expected: String,
        /// The actual shape or sizes.
        given: String,
    },
}

/// A tensor of a checkpoint: its shape and its values in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// Values, as many as the shape requires.
    pub values: Vec<f32>,
}

/// A checkpoint's tensors by name.
pub type Tensors = HashMap<String, Tensor>;

/// The values of a tensor, which must have this shape.
fn tensor(tensors: &Tensors, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
    match tensors.get(name) {
        Some(t) if t.shape == shape && t.values.len() == shape.iter().product::<usize>() => {
            Ok(t.values.clone())
        }
        _ => Err(wrong_shape(tensors, name, format!("{shape:?}"))),
    }
}

/// The error of a tensor that is missing or has another shape than expected.
fn wrong_shape(tensors: &Tensors, name: &str, expected: String) -> ModelError {
    let given = tensors.get(name).map(|tensor| format!("{:?}", tensor.shape));
    ModelError::Shape {
        what: name.to_owned(),
        expected,
        given: given.unwrap_or_else(|| "nothing".into()),
    }
}
