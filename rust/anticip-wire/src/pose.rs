//! What every protocol's datagrams become.

/// No source has more joints than this; a joint id is below it.
pub const MAX_JOINTS: usize = 256;

/// One joint of a pose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joint {
    /// Index into the source's skeleton.
    pub id: u16,
    /// Rotation local to the parent, `w, x, y, z`; finite and not zero, otherwise exactly as sent (not
    /// renormalised).
    pub rotation: [f32; 4],
    /// Translation local to the parent in metres, as sent; zero where the protocol sends none.
    pub position: [f32; 3],
    /// False when this datagram did not carry the joint and the last pose is held.
    pub fresh: bool,
}

/// One pose, as one frame of a source gave it.
///
/// `joints` holds each id at most once, in the order of arrival. A joint that the source left out (or sent
/// with a rotation that is no rotation) is either absent or, where the protocol is stateful, listed with
/// `fresh` false.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoseUpdate {
    /// The source's frame number.
    pub seq: Option<u32>,
    /// The source's own clock in seconds; its zero is the source's affair.
    pub time: Option<f64>,
    /// Where the root joint is, in metres; none where that is not known.
    pub root: Option<[f32; 3]>,
    /// The joints.
    pub joints: Vec<Joint>,
    /// How many joints of this frame carried numbers that are no transform (not finite, zero rotation).
    pub unusable: u32,
}

impl PoseUpdate {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.seq = None;
        self.time = None;
        self.root = None;
        self.joints.clear();
        self.unusable = 0;
    }

    /// The joint with this id.
    pub fn joint(&self, id: u16) -> Option<&Joint> {
        // Almost every source lists its joints in order.
        match self.joints.get(usize::from(id)) {
            Some(joint) if joint.id == id => Some(joint),
            _ => self.joints.iter().find(|joint| joint.id == id),
        }
    }
}

/// Something rigid on a part of a body, told in the world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracker {
    /// What its sender calls it, or the part of the body that its number stands for.
    pub name: String,
    /// Rotation, `w, x, y, z`; none where it is not known.
    pub rotation: Option<[f32; 4]>,
    /// Place in metres; none where it is not known.
    pub position: Option<[f32; 3]>,
}

/// One frame of trackers; which part of a body each is on, its name says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackerUpdate {
    /// The source's frame number.
    pub seq: Option<u32>,
    /// The source's own clock in seconds.
    pub time: Option<f64>,
    /// The axis of a tracker of hips or head that points ahead where its wearer looks; none where nobody knows.
    pub ahead: Option<[f32; 3]>,
    /// The trackers.
    pub trackers: Vec<Tracker>,
}

/// A source's skeleton; all four lists have one entry per joint, a joint's id is its index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkeletonUpdate {
    /// Joint names.
    pub names: Vec<String>,
    /// Parent indices, -1 for a root; never a joint itself, never a cycle.
    pub parents: Vec<i32>,
    /// Translations local to the parent at rest, metres.
    pub offsets: Vec<[f32; 3]>,
    /// Rotations local to the parent at rest, `w, x, y, z`.
    pub rest: Vec<[f32; 4]>,
    /// Frames per second, where the source says so.
    pub rate: Option<f64>,
}

impl SkeletonUpdate {
    /// Number of joints.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether there is no joint at all.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }
}

/// Whether following `parents` from every joint ends at a root.
pub(crate) fn is_forest(parents: &[i32]) -> bool {
    let joints = parents.len();
    (0..joints).all(|start| {
        let mut at = start;
        for _ in 0..=joints {
            match parents[at] {
                -1 => return true,
                parent if parent >= 0 && (parent as usize) < joints => at = parent as usize,
                _ => return false,
            }
        }
        false
    })
}

/// Whether these numbers are a rotation that can be normalised in single precision.
#[inline]
pub(crate) fn is_rotation(q: &[f32; 4]) -> bool {
    let norm = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    norm.is_finite() && norm > 1e-12
}

/// Whether these numbers are a place (a billion metres is not).
#[inline]
pub(crate) fn is_position(p: &[f32; 3]) -> bool {
    p.iter().all(|v| v.abs() < 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forests_have_no_cycles_and_no_strangers() {
        assert!(is_forest(&[-1, 0, 1, 0, -1, 4]));
        assert!(is_forest(&[1, -1]));
        assert!(is_forest(&[]));
        assert!(!is_forest(&[0]));
        assert!(!is_forest(&[-1, 2, 1]));
        assert!(!is_forest(&[-1, 2]));
        assert!(!is_forest(&[-2]));
    }

    #[test]
    fn numbers_that_are_no_transform_are_told_apart() {
        assert!(is_rotation(&[1.0, 0.0, 0.0, 0.0]));
        for bad in [0.0, f32::NAN, f32::INFINITY, 1e30] {
            assert!(!is_rotation(&[bad; 4]));
        }
        assert!(is_position(&[0.0, -3.0, 1e6]));
        assert!(!is_position(&[0.0, f32::NAN, 0.0]) && !is_position(&[f32::NEG_INFINITY, 0.0, 0.0]));
    }

    #[test]
    fn joints_are_found_in_any_order() {
        let joint = |id| Joint {
            id,
            rotation: [1.0, 0.0, 0.0, 0.0],
            position: [0.0; 3],
            fresh: true,
        };
        let pose = PoseUpdate {
            joints: vec![joint(0), joint(3), joint(1)],
            ..PoseUpdate::default()
        };
        assert_eq!(pose.joint(3).map(|j| j.id), Some(3));
        assert_eq!(pose.joint(2), None);
    }
}
