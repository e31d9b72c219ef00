//! Cubic curves between two frames that keep the speeds at both.

use anticip_geometry::Quat;

use crate::pose::Pose;
use crate::vector::{minus, scaled};

/// A curve between two poses. For each joint, and for the root last: the rotation vector of the whole interval, and
/// those that the speeds at its start and at its end would give over the interval, in the frame of the first pose.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    whole: Vec<[f64; 3]>,
    first: Vec<[f64; 3]>,
    last: Vec<[f64; 3]>,
}

impl Curve {
    pub(crate) fn new(joints: usize) -> Self {
        let zeros = vec![[0.0; 3]; joints + 1];
        Self {
            whole: zeros.clone(),
            first: zeros.clone(),
            last: zeros,
        }
    }

    /// Fits the curve from `a` to `b`, `step` apart; `before` is the frame `lead` earlier than `a`. `after` is the
    /// frame that follows `b` and the time to it; without one the curve is the parabola through the three frames.
    pub(crate) fn draw(&mut self, frames: [&Pose; 3], lead: f64, step: f64, after: Option<(&Pose, f64)>) {
        let [before, a, b] = frames;
        let turn = |from: &Pose, to: &Pose, joint: usize| match from.rotations.get(joint) {
            Some(&q) => shortest(q.conj() * to.rotations[joint]).log(),
            None => minus(to.root, from.root),
        };
        for joint in 0..self.whole.len() {
            let whole = turn(a, b, joint);
            let lead_in = scaled(turn(before, a, joint), step / lead);
            let (first, last) = match after {
                Some((next, gap)) => (lead_in, scaled(turn(b, next, joint), step / gap)),
                None => {
                    // Speed of the parabola at `a`: the mean of both, weighted towards the nearer one.
                    let near = step / (lead + step);
                    let first: [f64; 3] =
                        std::array::from_fn(|i| near * lead_in[i] + (1.0 - near) * whole[i]);
                    (first, minus(scaled(whole, 2.0), first))
                }
            };
            (self.whole[joint], self.first[joint], self.last[joint]) = (whole, first, last);
        }
    }

    /// Writes the pose a fraction `u` of the way from `a`, the curve's first pose.
    pub(crate) fn at(&self, a: &Pose, u: f64, out: &mut Pose) {
        let joints = out.rotations.len();
        let offset = |joint: usize| -> [f64; 3] {
            let (w, m, n) = (self.whole[joint], self.first[joint], self.last[joint]);
            std::array::from_fn(|i| {
                let square = 3.0 * w[i] - 2.0 * m[i] - n[i];
                let cube = m[i] + n[i] - 2.0 * w[i];
                u * (m[i] + u * (square + u * cube))
            })
        };
        for (joint, (out, &q)) in out.rotations.iter_mut().zip(&a.rotations).enumerate() {
            *out = (q * Quat::exp(offset(joint))).normalize_or(q);
        }
        let moved = offset(joints);
        out.root = std::array::from_fn(|i| a.root[i] + moved[i]);
    }
}

/// The same rotation as a quaternion with `w >= 0`: the shorter way round.
pub(crate) fn shortest(q: Quat) -> Quat {
    if q.w < 0.0 { -q } else { q }
}
