//! The curve along which two frames are joined at the speeds they have.

use anticip_geometry::Quat;

use crate::pose::Pose;
use crate::vector::{minus, scaled};

/// How a stretch begins and ends: per joint what it would turn at the speed it has there, in the frame of its first
/// pose, and how far it turns; the root last.
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

    /// From `a` to `b` in `step`, the frame before `a` having been `before`, `lead` earlier; `after` is the frame that
    /// follows `b` and how much later. Without one the curve is the parabola through the three.
    pub(crate) fn draw(&mut self, frames: [&Pose; 3], lead: f64, step: f64, after: Option<(&Pose, f64)>) {
        let [before, a, b] = frames;
        let turn = |from: &Pose, to: &Pose, joint: usize| match from.rotations.get(joint) {
            Some(&q) => shortest(q.conj() * to.rotations[joint]).log(),
            None => minus(to.root, from.root),
        };
        for joint in 0..self.whole.len() {
            let whole = turn(a, b, joint);
            let came = scaled(turn(before, a, joint), step / lead);
            let (first, last) = match after {
                Some((next, gap)) => (came, scaled(turn(b, next, joint), step / gap)),
                None => {
                    // The speed at `a` as the parabola has it: the mean of both, the nearer one counting more.
                    let near = step / (lead + step);
                    let first: [f64; 3] = std::array::from_fn(|i| near * came[i] + (1.0 - near) * whole[i]);
                    (first, minus(scaled(whole, 2.0), first))
                }
            };
            (self.whole[joint], self.first[joint], self.last[joint]) = (whole, first, last);
        }
    }

    /// Writes the pose a fraction `u` of the way along; `a` is where it begins.
    pub(crate) fn at(&self, a: &Pose, u: f64, out: &mut Pose) {
        let joints = out.rotations.len();
        let place = |joint: usize| -> [f64; 3] {
            let (w, m, n) = (self.whole[joint], self.first[joint], self.last[joint]);
            std::array::from_fn(|i| {
                let square = 3.0 * w[i] - 2.0 * m[i] - n[i];
                let cube = m[i] + n[i] - 2.0 * w[i];
                u * (m[i] + u * (square + u * cube))
            })
        };
        for (joint, (out, &q)) in out.rotations.iter_mut().zip(&a.rotations).enumerate() {
            *out = (q * Quat::exp(place(joint))).normalize_or(q);
        }
        let moved = place(joints);
        out.root = std::array::from_fn(|i| a.root[i] + moved[i]);
    }
}

/// The same rotation, the short way round.
pub(crate) fn shortest(q: Quat) -> Quat {
    if q.w < 0.0 { -q } else { q }
}
