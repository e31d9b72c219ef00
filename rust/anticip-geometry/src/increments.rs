//! The last increments of a stream over a span of frames, and measures of their course.

use crate::kernel::{dot, jerk2};
use crate::space::Space;

/// `inc(t - span, t)` of the last frames, one in each row, and their norms.
#[derive(Clone, Debug)]
pub(crate) struct Increments {
    span: usize,
    tangent: usize,
    values: Vec<f64>,
    norms: Vec<f64>,
}

impl Increments {
    /// Room for the last `frames` increments of `tangent` numbers; [`Self::jerk`] needs two spans before the newest.
    pub(crate) fn new(span: usize, frames: usize, tangent: usize) -> Self {
        Self {
            span,
            tangent,
            values: vec![0.0; frames * tangent],
            norms: vec![0.0; frames],
        }
    }

    /// Stores the increment that ends at frame `t`; `from` is the state a span before it, `None` if there is none.
    /// Returns its norm.
    #[inline(always)]
    pub(crate) fn take<S: Space>(&mut self, t: usize, space: &S, from: Option<&[f64]>, to: &[f64]) -> f64 {
        let row = t % self.norms.len();
        let v = &mut self.values[row * self.tangent..(row + 1) * self.tangent];
        match from {
            Some(from) => space.inc(from, to, v),
            None => v.fill(0.0),
        }
        self.norms[row] = dot(v, v).sqrt();
        self.norms[row]
    }

    /// The increment that ends at frame `t`, and its norm.
    #[inline(always)]
    pub(crate) fn at(&self, t: usize) -> (&[f64], f64) {
        let row = t % self.norms.len();
        (
            &self.values[row * self.tangent..(row + 1) * self.tangent],
            self.norms[row],
        )
    }

    /// All stored increments, in the order of the ring.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// How well the direction persists from one span to the next, in `[0, 1]`.
    #[inline(always)]
    pub(crate) fn phase_stiffness(&self, t: usize, eps_v: f64) -> f64 {
        if t < 2 * self.span {
            return 0.5;
        }
        let ((v, a), (w, b)) = (self.at(t), self.at(t - self.span));
        let rest = self.span as f64 * eps_v;
        if a <= rest || b <= rest {
            return 0.5;
        }
        // Two divisions, because the product of two tiny or huge speeds is not representable.
        (0.5 * (1.0 + dot(v, w) / a / b)).clamp(0.0, 1.0)
    }

    /// Norm of the third difference that ends at frame `t`; 0 before there is one.
    #[inline(always)]
    pub(crate) fn jerk(&self, t: usize) -> f64 {
        if t < 3 * self.span {
            return 0.0;
        }
        let [v0, v1, v2] = [0, 1, 2].map(|spans| self.at(t - spans * self.span).0);
        jerk2(v0, v1, v2).sqrt()
    }

    /// One minus the ratio of `jerk`, that of frame `t`, to the increments it is computed from, in `[0, 1]`.
    #[inline(always)]
    pub(crate) fn stability(&self, t: usize, jerk: f64, eps_v: f64) -> f64 {
        if t < 3 * self.span {
            return 1.0;
        }
        let [s0, s1, s2] = [0, 1, 2].map(|spans| self.at(t - spans * self.span).1);
        let bound = s0 + 2.0 * s1 + s2;
        if bound <= 4.0 * (self.span as f64 * eps_v) {
            1.0
        } else {
            (1.0 - jerk / bound).clamp(0.0, 1.0)
        }
    }
}
