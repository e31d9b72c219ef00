//! Parameters as a mix of the causal twin's columns, and what a network adds to it.

use anticip_motion::twin::{PARAMETER_COUNT, TWIN_BLOCKS};

use crate::{HORIZONS, ModelError, Tensors, tensor};

/// The twin's block that is the mean over 1 s.
const MEAN: usize = 4;

/// A linear mix of each parameter's own past in the twin, a row of weights a parameter and horizon; the sum with what
/// is added is cut to 0..1. What is added may be scaled before.
#[derive(Debug, Clone)]
pub(crate) struct TwinMix {
    weights: Vec<f32>,
    scale: Option<Scale>,
}

impl TwinMix {
    /// Reads `{name}.skip` and, where there are such, `{name}.moves` and `{name}.still`.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(crate) fn new(tensors: &Tensors, name: &str) -> Result<Self, ModelError> {
        let shape = [PARAMETER_COUNT, HORIZONS, TWIN_BLOCKS];
        Ok(Self {
            weights: tensor(tensors, &format!("{name}.skip"), &shape)?,
            scale: Scale::new(tensors, name)?,
        })
    }

    /// Makes parameters of what is added to them.
    pub(crate) fn complete(&self, twin: &[f32], params: &mut [f32]) {
        if let Some(scale) = &self.scale {
            scale.apply(twin, params);
        }
        let rows = self.weights.as_chunks::<TWIN_BLOCKS>().0;
        for (i, (param, row)) in params.iter_mut().zip(rows).enumerate() {
            let past = twin.iter().skip(i / HORIZONS).step_by(PARAMETER_COUNT);
            let held: f32 = row.iter().zip(past).map(|(weight, value)| weight * value).sum();
            *param = (*param + held).clamp(0.0, 1.0);
        }
    }
}

/// How much of what is added counts, by how far the parameters moved of late.
#[derive(Debug, Clone)]
struct Scale {
    /// For each parameter what every other squared movement, of each of the twin's blocks but the mean over 1 s, counts.
    moves: Vec<f32>,
    /// For each parameter and horizon the squared movement at which half of the squared share counts.
    still: Vec<f32>,
}

impl Scale {
    /// Tensors hold logarithms over this much.
    const FASTER: f32 = 8.0;
    const LEAST: f32 = 1e-8;

    /// What a checkpoint has of it: all or nothing.
    fn new(tensors: &Tensors, name: &str) -> Result<Option<Self>, ModelError> {
        let moves = format!("{name}.moves");
        if !tensors.contains_key(&moves) {
            return Ok(None);
        }
        let squares = |name: &str, shape: &[usize]| -> Result<Vec<f32>, ModelError> {
            let logarithms = tensor(tensors, name, shape)?;
            Ok(logarithms.iter().map(|v| (Self::FASTER * v).exp()).collect())
        };
        Ok(Some(Self {
            moves: squares(&moves, &[PARAMETER_COUNT, TWIN_BLOCKS - 1, PARAMETER_COUNT])?,
            still: squares(&format!("{name}.still"), &[PARAMETER_COUNT, HORIZONS])?,
        }))
    }

    fn apply(&self, twin: &[f32], params: &mut [f32]) {
        let mut squares = [0.0; (TWIN_BLOCKS - 1) * PARAMETER_COUNT];
        let blocks = twin.as_chunks::<PARAMETER_COUNT>().0;
        let others = blocks.iter().enumerate().filter(|(block, _)| *block != MEAN);
        for (row, (_, block)) in squares
            .as_chunks_mut::<PARAMETER_COUNT>()
            .0
            .iter_mut()
            .zip(others)
        {
            for (square, (value, mean)) in row.iter_mut().zip(block.iter().zip(&blocks[MEAN])) {
                *square = (value - mean) * (value - mean);
            }
        }
        let weights = self.moves.chunks_exact(squares.len());
        let stills = self.still.as_chunks::<HORIZONS>().0;
        for ((params, weights), stills) in params.chunks_exact_mut(HORIZONS).zip(weights).zip(stills) {
            let moved = Self::LEAST + weights.iter().zip(&squares).map(|(w, s)| w * s).sum::<f32>();
            for (param, still) in params.iter_mut().zip(stills) {
                *param *= (moved / (moved + still)).sqrt();
            }
        }
    }
}
