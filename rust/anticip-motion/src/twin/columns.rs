//! The causal twin as columns of a feature row.

use super::body::{Body, Rotations};
use super::{CausalTwins, MOTION_DELAY_S, Mean, PARAMETER_COUNT, PARAMETERS};

/// Group delays of the columns, seconds.
const DELAYS_S: [f64; DELAYS] = [0.0, 0.02, 0.06, 0.16];
const DELAYS: usize = 4;
/// Index of the delay whose parameters are averaged.
const AVERAGED: usize = 1;
/// Lengths of the means, frames: 1 and 4 s, or as many as there are.
const SPANS: [usize; 2] = [50, 200];
/// Names of the blocks of columns, in order.
const BLOCKS: [&str; TWIN_BLOCKS] = ["0ms", "20ms", "60ms", "160ms", "mean_1s", "mean_4s"];

/// Number of blocks, with one column for each parameter: four delays and two means.
pub const TWIN_BLOCKS: usize = DELAYS + SPANS.len();
/// Number of columns.
pub const TWIN_COUNT: usize = TWIN_BLOCKS * PARAMETER_COUNT;

/// Names of all columns, in order.
pub fn twin_names() -> impl Iterator<Item = String> {
    let names = |block| PARAMETERS.map(|parameter| format!("twin.{parameter}.{block}"));
    BLOCKS.into_iter().flat_map(names)
}

/// Parameters of the causal twin at four delays and averaged; allocates nothing after construction.
#[derive(Debug, Clone)]
pub struct TwinColumns {
    twins: CausalTwins,
    means: [Mean; SPANS.len()],
}

impl Default for TwinColumns {
    /// Columns of a new stream.
    fn default() -> Self {
        Self {
            twins: CausalTwins::of(&DELAYS_S, MOTION_DELAY_S),
            means: SPANS.map(Mean::new),
        }
    }
}

impl TwinColumns {
    /// Starts a new stream with the next frame.
    pub fn reset(&mut self) {
        self.twins.reset();
        self.means.iter_mut().for_each(Mean::clear);
    }

    /// Takes the next frame and writes its [`TWIN_COUNT`] columns.
    pub fn push(&mut self, pose: &Rotations, out: &mut [f32]) {
        let rows = self.push_body(&Body::from_pose(pose));
        for (slot, value) in out.iter_mut().zip(rows.as_flattened()) {
            *slot = *value as f32;
        }
    }

    /// Like [`Self::push`] for positions that were computed already; returns the blocks.
    pub fn push_body(&mut self, body: &Body) -> [[f64; PARAMETER_COUNT]; TWIN_BLOCKS] {
        let mut rows = [[0.0; PARAMETER_COUNT]; TWIN_BLOCKS];
        let (twins, means) = rows.split_at_mut(DELAYS);
        self.twins.push_body(body, twins);
        for (row, mean) in means.iter_mut().zip(&mut self.means) {
            mean.push(&twins[AVERAGED]);
            *row = mean.mean();
        }
        rows
    }
}
