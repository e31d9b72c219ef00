//! Source skeletons: names, hierarchy, offsets and rest rotations.

use anticip_geometry::Quat;

use crate::MotionError;
use crate::vector::add;

/// Most joints of a skeleton.
const MAX_JOINTS: usize = 1024;

/// A joint hierarchy as declared by a file or a suit.
#[derive(Debug, Clone, PartialEq)]
pub struct Skeleton {
    /// Name of each joint.
    pub names: Vec<String>,
    /// Index of each joint's parent, -1 for a root; in any order.
    pub parents: Vec<i32>,
    /// Offset of each joint from its parent in metres, in the parent's frame.
    pub offsets: Vec<[f64; 3]>,
    /// Local rotations w, x, y, z of the rest pose; `None` means all identity (the zero pose).
    pub rest_local: Option<Vec<[f64; 4]>>,
}

impl Skeleton {
    /// Number of joints.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no joints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the joint indices in an order in which a parent always comes before its children.
    ///
    /// # Errors
    /// No joint or more than 1024, arrays of different lengths, a parent index out of range, a cycle, a non-finite
    /// offset.
    pub fn order(&self) -> Result<Vec<usize>, MotionError> {
        let n = self.len();
        if !(1..=MAX_JOINTS).contains(&n) {
            return Err(MotionError::Skeleton(format!(
                "expected 1 to {MAX_JOINTS} joints, got {n}"
            )));
        }
        let check = |what, given: usize| {
            if given == n {
                return Ok(());
            }
            Err(MotionError::Shape {
                what,
                expected: format!("{n} entries, one for each joint name"),
                given: given.to_string(),
            })
        };
        check("skeleton parents", self.parents.len())?;
        check("skeleton offsets", self.offsets.len())?;
        if let Some(rest) = &self.rest_local {
            check("skeleton rest rotations", rest.len())?;
        }
        for (j, &p) in self.parents.iter().enumerate() {
            if p < -1 || p >= n as i32 || p == j as i32 {
                return Err(MotionError::Skeleton(format!(
                    "joint {:?} has parent index {p}, expected -1 to {} and not its own",
                    self.names[j],
                    n - 1
                )));
            }
        }
        for (name, offset) in self.names.iter().zip(&self.offsets) {
            if !offset.iter().all(|v| v.is_finite()) {
                return Err(MotionError::Skeleton(format!(
                    "joint {name:?} has a non-finite offset {offset:?}"
                )));
            }
        }
        let mut order = Vec::with_capacity(n);
        let mut placed = vec![false; n];
        while order.len() < n {
            let before = order.len();
            for j in 0..n {
                let p = self.parents[j];
                if !placed[j] && (p < 0 || placed[p as usize]) {
                    placed[j] = true;
                    order.push(j);
                }
            }
            if order.len() == before {
                return Err(MotionError::Skeleton("the parent indices form a cycle".into()));
            }
        }
        Ok(order)
    }

    /// Rest rotation of a joint, local to its parent; identity if there is none or it is invalid.
    #[must_use]
    pub fn rest(&self, joint: usize) -> Quat {
        self.rest_local.as_ref().map_or(Quat::IDENTITY, |rest| {
            Quat::from_array(rest[joint]).normalize_or(Quat::IDENTITY)
        })
    }

    /// Global rotations and positions of the rest pose; the root is at its offset.
    ///
    /// `order` must come from [`Skeleton::order`].
    #[must_use]
    pub fn rest_globals(&self, order: &[usize]) -> (Vec<Quat>, Vec<[f64; 3]>) {
        let mut rotations = vec![Quat::IDENTITY; self.len()];
        let mut positions = vec![[0.0; 3]; self.len()];
        for &j in order {
            let p = self.parents[j];
            if p < 0 {
                rotations[j] = self.rest(j);
                positions[j] = self.offsets[j];
            } else {
                let p = p as usize;
                rotations[j] = rotations[p] * self.rest(j);
                positions[j] = add(positions[p], rotations[p].rotate(self.offsets[j]));
            }
        }
        (rotations, positions)
    }

    /// Whether `ancestor` is `joint` itself or above it.
    #[must_use]
    pub fn descends(&self, joint: usize, ancestor: usize) -> bool {
        let mut at = joint as i32;
        while at >= 0 {
            if at as usize == ancestor {
                return true;
            }
            at = self.parents[at as usize];
        }
        false
    }

    /// The joints from the root down to `joint`, both included.
    #[must_use]
    pub fn path(&self, joint: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = joint as i32;
        while at >= 0 {
            path.push(at as usize);
            at = self.parents[at as usize];
        }
        path.reverse();
        path
    }

    /// The deepest joint that is above all of `joints`, or one of them; `None` if they share none.
    #[must_use]
    pub fn common_ancestor(&self, joints: &[usize]) -> Option<usize> {
        let (&first, rest) = joints.split_first()?;
        self.path(first)
            .into_iter()
            .rev()
            .find(|&a| rest.iter().all(|&j| self.descends(j, a)))
    }
}
