//! Parameters as a linear mix of the causal twin's columns plus a network's correction.

use anticip_motion::twin::{PARAMETER_COUNT, TWIN_BLOCKS};

use crate::{HORIZONS, ModelError, Tensors, tensor};

/// Index of the twin's block with the means over 1 s.
const MEAN: usize = 4;

/// A linear mix of each parameter's own past in the twin, with a row of weights per parameter and horizon, plus a
/// correction, which may be scaled; the sum is clamped to 0..1.
#[derive(Debug, Clone)]
pub(crate) struct TwinMix {
    weights: Vec<f32>,
    scale: Option<Scale>,
}

impl TwinMix {
    /// Reads `{name}.skip` and, if present, `{name}.moves` and `{name}.still`.
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

    /// Turns the correction in `params` into parameters, in place.
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

/// Scales the correction by how far the parameters moved recently.
#[derive(Debug, Clone)]
struct Scale {
    /// (parameters, blocks except the mean over 1 s, parameters): weights of the squared movements.
    moves: Vec<f32>,
    /// (parameters, horizons): squared movement at which the squared scale is one half.
    still: Vec<f32>,
}

impl Scale {
    /// Divisor of the logarithms in the checkpoint's tensors.
    const LOG_SCALE: f32 = 8.0;
    /// Added to the squared movement.
    const MIN_SQUARE: f32 = 1e-8;

    /// Reads the scale, `None` if the checkpoint has none.
    fn new(tensors: &Tensors, name: &str) -> Result<Option<Self>, ModelError> {
        let moves = format!("{name}.moves");
        if !tensors.contains_key(&moves) {
            return Ok(None);
        }
        let squares = |name: &str, shape: &[usize]| -> Result<Vec<f32>, ModelError> {
            let logarithms = tensor(tensors, name, shape)?;
            Ok(logarithms.iter().map(|v| (Self::LOG_SCALE * v).exp()).collect())
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
        let still_rows = self.still.as_chunks::<HORIZONS>().0;
        for ((params, weights), still_rows) in params.chunks_exact_mut(HORIZONS).zip(weights).zip(still_rows)
        {
            let movement2 = Self::MIN_SQUARE + weights.iter().zip(&squares).map(|(w, s)| w * s).sum::<f32>();
            for (param, still) in params.iter_mut().zip(still_rows) {
                *param *= (movement2 / (movement2 + still)).sqrt();
            }
        }
    }
}
