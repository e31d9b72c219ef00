//! The interface of a space of states, and the pose and vector spaces.

use crate::coarse::{self, COARSE_GROUP};
use crate::config::JointLimit;
use crate::kernel::{self, LANES, POSE_GROUP, TANGENT_GROUP};
use crate::markley::Markley;
use crate::quat::Quat;

/// States, tangent vectors, distances, and the centre of a window of states.
pub(crate) trait Space {
    /// Absolute error of one distance.
    const ABS_ERROR: f64;
    /// Whether the distance is the Euclidean one of the states' numbers, so that they can be sketched.
    const IS_EUCLIDEAN: bool;
    /// Numbers in a state, padding included.
    fn state_len(&self) -> usize;
    /// Numbers in a tangent vector, padding (zeros) included.
    fn tangent_len(&self) -> usize;
    /// The tangent vector from state `a` to state `b`.
    fn inc(&self, a: &[f64], b: &[f64], out: &mut [f64]);
    /// The squared distance of two states.
    fn dist2(&self, a: &[f64], b: &[f64]) -> f64;
    /// Cheaper lower and upper bounds on [`Self::dist2`], if there are any.
    #[inline(always)]
    fn dist2_bounds(&self, _a: &[f64], _b: &[f64]) -> Option<(f64, f64)> {
        None
    }
    /// Numbers in a coarse state; 0 if the space has none.
    fn coarse_len(&self) -> usize {
        0
    }
    /// Writes the coarse form of a state.
    fn coarsen(&self, _state: &[f64], _out: &mut [i16]) {}
    /// A lower bound on the squared distance of two states from their coarse forms; only useful from
    /// [`coarse::USEFUL`] on.
    fn least_dist2(&self, _a: &[i16], _b: &[i16]) -> f64 {
        0.0
    }
    /// Adds a state to the window.
    fn enter(&mut self, state: &[f64]);
    /// Removes a state of the window.
    fn leave(&mut self, state: &[f64]);
    /// Removes all states.
    fn clear(&mut self);
    /// Whether the running sums have lost so much precision that they must be computed again.
    fn sums_are_worn(&self, _newest: &[f64]) -> bool {
        false
    }
    /// Writes the centre of the `n` states in the window; `newest` is the last of them.
    fn centre(&self, n: usize, newest: &[f64], out: &mut [f64]);
    /// Proximity to given limits in `[0, 1]`, or `None` if the range of the data is the limit.
    fn proximity(&self, _state: &[f64], _velocity: Option<&[f64]>) -> Option<f64> {
        None
    }
}

/// Poses: unit quaternions of joints with weights.
#[derive(Clone, Debug)]
pub(crate) struct PoseSpace {
    groups: usize,
    weights: Vec<f64>,
    coarse_weights: Vec<f32>,
    root_weights: Vec<f64>,
    limits: Vec<JointLimit>,
    sums: Markley,
}

impl PoseSpace {
    /// Space of the joints present: `weights` above zero with sum 1; `limits` empty or one for each joint.
    pub(crate) fn new(weights: &[f64], limits: Vec<JointLimit>) -> Self {
        let groups = weights.len().div_ceil(LANES);
        let mut padded = weights.to_vec();
        padded.resize(groups * LANES, 0.0);
        let root_weights = padded.iter().map(|w| w.sqrt()).collect();
        let unit_axis = |l: JointLimit| {
            let n = l.axis.iter().map(|c| c * c).sum::<f64>().sqrt();
            JointLimit {
                axis: l.axis.map(|c| c / n),
                ..l
            }
        };
        let limits = limits.into_iter().map(unit_axis).collect();
        Self {
            groups,
            coarse_weights: padded.iter().map(|&w| w as f32).collect(),
            weights: padded,
            root_weights,
            limits,
            sums: Markley::new(groups),
        }
    }

    /// Index of the scalar part of joint `j` in a state.
    pub(crate) fn at(j: usize) -> usize {
        (j / LANES) * POSE_GROUP + j % LANES
    }
}

/// Reads joint `j` of a state.
fn joint(state: &[f64], j: usize) -> Quat {
    let i = PoseSpace::at(j);
    Quat::new(
        state[i],
        state[i + LANES],
        state[i + 2 * LANES],
        state[i + 3 * LANES],
    )
}

/// Writes joint `j` of a state.
pub(crate) fn set_joint(state: &mut [f64], j: usize, q: Quat) {
    let i = PoseSpace::at(j);
    for (l, c) in q.to_array().into_iter().enumerate() {
        state[i + l * LANES] = c;
    }
}

impl Space for PoseSpace {
    const ABS_ERROR: f64 = 1e-14;
    const IS_EUCLIDEAN: bool = false;

    fn state_len(&self) -> usize {
        self.groups * POSE_GROUP
    }

    fn tangent_len(&self) -> usize {
        self.groups * TANGENT_GROUP
    }

    #[inline(always)]
    fn inc(&self, a: &[f64], b: &[f64], out: &mut [f64]) {
        kernel::pose_inc(a, b, &self.root_weights, out);
    }

    #[inline(always)]
    fn dist2(&self, a: &[f64], b: &[f64]) -> f64 {
        kernel::pose_dist2(a, b, &self.weights)
    }

    #[inline(always)]
    fn dist2_bounds(&self, a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
        Some(kernel::pose_dist2_bounds(a, b, &self.weights))
    }

    fn coarse_len(&self) -> usize {
        self.groups * COARSE_GROUP
    }

    #[inline(always)]
    fn coarsen(&self, state: &[f64], out: &mut [i16]) {
        coarse::coarsen(state, out);
    }

    #[inline(always)]
    fn least_dist2(&self, a: &[i16], b: &[i16]) -> f64 {
        coarse::least_dist2(a, b, &self.coarse_weights)
    }

    #[inline(always)]
    fn enter(&mut self, state: &[f64]) {
        self.sums.update(state, 1);
    }

    #[inline(always)]
    fn leave(&mut self, state: &[f64]) {
        self.sums.update(state, -1);
    }

    fn clear(&mut self) {
        self.sums.clear();
    }

    #[inline(always)]
    fn centre(&self, n: usize, newest: &[f64], out: &mut [f64]) {
        self.sums.mean(n, newest, out);
    }

    fn proximity(&self, state: &[f64], velocity: Option<&[f64]>) -> Option<f64> {
        if self.limits.is_empty() {
            return None;
        }
        let (mut sum, mut count) = (0.0, 0.0);
        for (j, limit) in self.limits.iter().enumerate() {
            let q = joint(state, j);
            let v = [q.x, q.y, q.z];
            let along = v[0] * limit.axis[0] + v[1] * limit.axis[1] + v[2] * limit.axis[2];
            let across = [0, 1, 2].map(|i| v[i] - along * limit.axis[i]);
            let across = (across[0] * across[0] + across[1] * across[1] + across[2] * across[2]).sqrt();
            let swing = 2.0 * across.atan2((q.w * q.w + along * along).sqrt());
            let twist = 2.0 * along.abs().atan2(q.w.abs());
            let speed = velocity.map_or(0.0, |u| {
                let i = (j / LANES) * TANGENT_GROUP + j % LANES;
                let u = [u[i], u[i + LANES], u[i + 2 * LANES]];
                (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]).sqrt() / self.root_weights[j]
            });
            for (value, bound) in [(swing, limit.swing), (twist, limit.twist), (speed, limit.speed)] {
                if bound.is_finite() {
                    sum += (value / bound).min(1.0);
                    count += 1.0;
                }
            }
        }
        Some(if count > 0.0 { sum / count } else { 0.0 })
    }
}

/// The larger of two numbers that are not NaN, in one instruction.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// Vectors in `R^d`.
///
/// The sum of the window is kept in twice the working precision, with a bound on its error since it was last computed
/// again, which happens before the error could affect the mean.
#[derive(Clone, Debug)]
pub(crate) struct VectorSpace {
    high: Vec<f64>,
    low: Vec<f64>,
    /// Bound on the error of the sum.
    lost: f64,
}

impl VectorSpace {
    pub(crate) fn new(dim: usize) -> Self {
        Self {
            high: vec![0.0; dim.next_multiple_of(LANES)],
            low: vec![0.0; dim.next_multiple_of(LANES)],
            lost: 0.0,
        }
    }

    #[inline(always)]
    fn add(&mut self, state: &[f64], sign: f64) {
        // Eight maxima side by side, because a single one would be a chain as long as the state.
        let mut largest = [0.0f64; LANES];
        let sums = self
            .high
            .as_chunks_mut::<LANES>()
            .0
            .iter_mut()
            .zip(self.low.as_chunks_mut::<LANES>().0);
        for ((high, low), x) in sums.zip(state.as_chunks::<LANES>().0) {
            for l in 0..LANES {
                let x = sign * x[l];
                // Knuth's two-sum: s + e is exactly high + x.
                let s = high[l] + x;
                let t = s - high[l];
                let e = (high[l] - (s - t)) + (x - t);
                let rest = low[l] + e;
                largest[l] = larger(larger(largest[l], high[l].abs()), s.abs());
                high[l] = s + rest;
                low[l] = rest - (high[l] - s);
            }
        }
        let largest = largest.into_iter().fold(0.0, larger);
        self.lost += largest * 2f64.powi(-102);
    }
}

impl Space for VectorSpace {
    const ABS_ERROR: f64 = 0.0;
    const IS_EUCLIDEAN: bool = true;

    fn state_len(&self) -> usize {
        self.high.len()
    }

    fn tangent_len(&self) -> usize {
        self.high.len()
    }

    #[inline(always)]
    fn inc(&self, a: &[f64], b: &[f64], out: &mut [f64]) {
        for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
            *o = b - a;
        }
    }

    #[inline(always)]
    fn dist2(&self, a: &[f64], b: &[f64]) -> f64 {
        kernel::vector_dist2(a, b)
    }

    #[inline(always)]
    fn enter(&mut self, state: &[f64]) {
        self.add(state, 1.0);
    }

    #[inline(always)]
    fn leave(&mut self, state: &[f64]) {
        self.add(state, -1.0);
    }

    fn clear(&mut self) {
        self.high.fill(0.0);
        self.low.fill(0.0);
        self.lost = 0.0;
    }

    #[inline(always)]
    fn sums_are_worn(&self, newest: &[f64]) -> bool {
        let mut largest = [0.0f64; LANES];
        let chunks = self.high.as_chunks::<LANES>().0.iter();
        for (high, x) in chunks.zip(newest.as_chunks::<LANES>().0) {
            for l in 0..LANES {
                largest[l] = larger(larger(largest[l], high[l].abs()), x[l].abs());
            }
        }
        let largest = largest.into_iter().fold(0.0, larger);
        self.lost > largest * 2f64.powi(-75)
    }

    #[inline(always)]
    fn centre(&self, n: usize, newest: &[f64], out: &mut [f64]) {
        let n = n as f64;
        let sums = self.high.iter().zip(&self.low);
        for ((o, (hi, lo)), x) in out.iter_mut().zip(sums).zip(newest) {
            // The mean as the newest state plus the mean difference from it, so that the mean of equal states is
            // exactly that state. Dekker's product: p + e is exactly n x (n below 2^26).
            let p = n * x;
            let c = x * 134_217_729.0;
            let head = c - (c - x);
            let e = (n * head - p) + n * (x - head);
            *o = x + ((hi - p) + (lo - e)) / n;
        }
    }
}
