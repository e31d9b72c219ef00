//! The causal counterpart of the teacher's smoother.

use crate::layout::RATE;

/// A cascade of equal one-pole low-passes with an exact group delay at zero frequency.
///
/// A one-pole `y += a (x - y)` delays slow changes by (1 - a)/a frames, so n of them with a = 1/(1 + d/n) delay by d
/// frames. d = 0 is the identity. The first frame sets the state: there is no start-up from zero.
#[derive(Debug, Clone)]
pub(crate) struct LowPass {
    gain: f64,
    width: usize,
    /// One row for each pole.
    stages: Vec<f64>,
    started: bool,
}

impl LowPass {
    /// Creates a low-pass that delays rows of `width` numbers by `seconds`, with `poles` poles.
    pub(crate) fn new(seconds: f64, poles: usize, width: usize) -> Self {
        Self {
            gain: 1.0 / (1.0 + seconds * RATE / poles as f64),
            width,
            stages: vec![0.0; poles * width],
            started: false,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.started = false;
    }

    /// Filters one row in place.
    #[inline(always)]
    pub(crate) fn push(&mut self, row: &mut [f64]) {
        if !self.started {
            self.started = true;
            for stage in self.stages.chunks_exact_mut(self.width) {
                stage.copy_from_slice(row);
            }
        }
        for stage in self.stages.chunks_exact_mut(self.width) {
            for (value, state) in row.iter_mut().zip(stage) {
                *state = self.gain * *value + (1.0 - self.gain) * *state;
                *value = *state;
            }
        }
    }
}
