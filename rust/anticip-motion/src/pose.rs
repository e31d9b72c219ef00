//! A body at one moment.

use anticip_geometry::Quat;

/// One pose with its root position.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pose {
    /// Unit local rotations.
    pub rotations: Vec<Quat>,
    /// Root translation, metres.
    pub root: [f64; 3],
}

impl Pose {
    /// The rest pose at the origin.
    #[must_use]
    pub fn identity(joints: usize) -> Self {
        Self {
            rotations: vec![Quat::IDENTITY; joints],
            root: [0.0; 3],
        }
    }

    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.rotations.copy_from_slice(&other.rotations);
        self.root = other.root;
    }

    /// Writes the pose a fraction `u` of the way from `a` to `b`; the ends are exact.
    pub fn blend(&mut self, a: &Self, b: &Self, u: f64) {
        if u <= 0.0 {
            self.copy_from(a);
        } else if u >= 1.0 {
            self.copy_from(b);
        } else {
            let pairs = a.rotations.iter().zip(&b.rotations);
            for (out, (&qa, &qb)) in self.rotations.iter_mut().zip(pairs) {
                *out = Quat::slerp(qa, qb, u);
            }
            for (i, out) in self.root.iter_mut().enumerate() {
                *out = a.root[i] + u * (b.root[i] - a.root[i]);
            }
        }
    }
}
