//! The values that every protocol is decoded to.

/// Maximum number of joints of a source; joint ids are below it.
pub const MAX_JOINTS: usize = 256;

/// One joint of a pose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joint {
    /// Index into the source's skeleton.
    pub id: u16,
    /// Rotation local to the parent, `w, x, y, z`: finite and not zero, but not renormalised.
    pub rotation: [f32; 4],
    /// Translation local to the parent in metres; zero where the protocol has none.
    pub position: [f32; 3],
    /// False if this frame lacked the joint and the last known transform is repeated.
    pub fresh: bool,
}

impl Joint {
    /// A joint that this frame has.
    pub fn new(id: u16, rotation: [f32; 4], position: [f32; 3]) -> Self {
        Self {
            id,
            rotation,
            position,
            fresh: true,
        }
    }
}

/// One frame of a source.
///
/// `joints` holds each id at most once, in the order of arrival. A joint that the source left out or sent with an
/// invalid transform is either absent or, for stateful protocols, listed with `fresh` false.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoseUpdate {
    /// The source's frame number.
    pub seq: Option<u32>,
    /// The source's own clock in seconds; its origin is arbitrary.
    pub time: Option<f64>,
    /// Position of the root joint in metres, if known.
    pub root: Option<[f32; 3]>,
    /// The joints.
    pub joints: Vec<Joint>,
    /// Number of joints with an invalid transform in this frame (not finite, or a zero rotation).
    pub unusable: u32,
}

impl PoseUpdate {
    /// Clears every field and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.seq = None;
        self.time = None;
        self.root = None;
        self.joints.clear();
        self.unusable = 0;
    }

    /// The joint with this id, if the frame has it.
    pub fn joint(&self, id: u16) -> Option<&Joint> {
        // Almost every source lists its joints in order.
        match self.joints.get(usize::from(id)) {
            Some(joint) if joint.id == id => Some(joint),
            _ => self.joints.iter().find(|joint| joint.id == id),
        }
    }

    /// Appends a received joint, and the root if it is joint 0; an invalid transform is only counted.
    pub(crate) fn push(&mut self, id: u16, rotation: [f32; 4], position: [f32; 3]) {
        if !is_rotation(&rotation) || !is_position(&position) {
            self.unusable += 1;
            return;
        }
        if id == 0 {
            self.root = Some(position);
        }
        self.joints.push(Joint::new(id, rotation, position));
    }

    /// Whether every joint's id is below `count`.
    pub(crate) fn has_ids_below(&self, count: usize) -> bool {
        self.joints.iter().all(|joint| usize::from(joint.id) < count)
    }
}

/// A rigid body worn by the performer, in world coordinates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracker {
    /// The sender's name for it, or the body part that its number stands for.
    pub name: String,
    /// Rotation, `w, x, y, z`, if known.
    pub rotation: Option<[f32; 4]>,
    /// Position in metres, if known.
    pub position: Option<[f32; 3]>,
}

/// One frame of trackers; their names say which part of the body each is on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackerUpdate {
    /// The source's frame number.
    pub seq: Option<u32>,
    /// The source's own clock in seconds.
    pub time: Option<f64>,
    /// The local axis of a hip or head tracker that points forward, if the protocol defines it.
    pub forward_axis: Option<[f32; 3]>,
    /// The trackers.
    pub trackers: Vec<Tracker>,
}

/// A source's skeleton. All four lists have one entry per joint; a joint's id is its index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkeletonUpdate {
    /// Joint names.
    pub names: Vec<String>,
    /// Parent indices, -1 for a root; free of cycles.
    pub parents: Vec<i32>,
    /// Translations local to the parent in the rest pose, in metres.
    pub offsets: Vec<[f32; 3]>,
    /// Rotations local to the parent in the rest pose, `w, x, y, z`.
    pub rest: Vec<[f32; 4]>,
    /// Frames per second, if the source states it.
    pub rate: Option<f64>,
}

impl SkeletonUpdate {
    /// Number of joints.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether there are no joints.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }
}

/// Whether every chain of `parents` ends at a root (-1).
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

/// Whether the quaternion can be normalised in single precision.
#[inline]
pub(crate) fn is_rotation(q: &[f32; 4]) -> bool {
    let norm = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    norm.is_finite() && norm > 1e-12
}

/// Whether the position is finite and each coordinate below 1e9 metres.
#[inline]
pub(crate) fn is_position(p: &[f32; 3]) -> bool {
    p.iter().all(|v| v.abs() < 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forests_have_no_cycles_and_no_unknown_parents() {
        assert!(is_forest(&[-1, 0, 1, 0, -1, 4]));
        assert!(is_forest(&[1, -1]));
        assert!(is_forest(&[]));
        assert!(!is_forest(&[0]));
        assert!(!is_forest(&[-1, 2, 1]));
        assert!(!is_forest(&[-1, 2]));
        assert!(!is_forest(&[-2]));
    }

    #[test]
    fn invalid_transforms_are_detected() {
        assert!(is_rotation(&[1.0, 0.0, 0.0, 0.0]));
        for bad in [0.0, f32::NAN, f32::INFINITY, 1e30] {
            assert!(!is_rotation(&[bad; 4]));
        }
        assert!(is_position(&[0.0, -3.0, 1e6]));
        assert!(!is_position(&[0.0, f32::NAN, 0.0]) && !is_position(&[f32::NEG_INFINITY, 0.0, 0.0]));
    }

    #[test]
    fn joints_are_found_in_any_order() {
        let joint = |id| Joint::new(id, [1.0, 0.0, 0.0, 0.0], [0.0; 3]);
        let pose = PoseUpdate {
            joints: vec![joint(0), joint(3), joint(1)],
            ..PoseUpdate::default()
        };
        assert_eq!(pose.joint(3).map(|j| j.id), Some(3));
        assert_eq!(pose.joint(2), None);
    }
}
