//! Correction of a source's rest pose to the T-pose of the canonical body.

use anticip_geometry::Quat;

use crate::canonical::{ARMS, JOINT_COUNT, LEGS};
use crate::mapping::Mapping;
use crate::names::is_finger;
use crate::skeleton::Skeleton;
use crate::vector::{add, angle, cross, direction, dot, length, minus, scaled};

/// A limb bone closer than this (radians) to its T-pose direction is left as it is, because builds differ by that
/// much (mocopi's shins lean 9 degrees in a pose that is a T-pose by definition).
const LIMB_TOLERANCE: f64 = 12.0 * std::f64::consts::PI / 180.0;
/// The same for hands, feet, toes and clavicles, which have no fixed direction in a T-pose: only one that points
/// elsewhere altogether is corrected.
const LOOSE_TOLERANCE: f64 = 60.0 * std::f64::consts::PI / 180.0;
/// A foot's bone shorter than this part of the shin, in whose direction it continues within `SNAP`, is only the
/// height of the ankle and does not show where the foot points.
const ANKLE_HEIGHT: f64 = 0.2;
/// An elbow or knee bent by more than this (radians) shows its hinge axis.
const MIN_BEND: f64 = 20.0 * std::f64::consts::PI / 180.0;
/// An up or forward direction closer than this (radians) to an axis is meant to be that axis.
const SNAP: f64 = 30.0 * std::f64::consts::PI / 180.0;

/// Rotations from the rest pose to the canonical T-pose.
pub(crate) struct Correction {
    /// Rotation of the source's world: its up to +y, its forward to +z.
    pub(crate) world: Quat,
    /// For each canonical joint, in the rotated world: from its orientation in the rest pose to that in the T-pose.
    pub(crate) joints: [Quat; JOINT_COUNT],
}

/// Rest positions of the mapped joints in the rotated world.
struct Rest<'a> {
    skeleton: &'a Skeleton,
    mapping: &'a Mapping,
    positions: &'a [[f64; 3]],
    world: Quat,
}

impl<'a> Rest<'a> {
    fn new(skeleton: &'a Skeleton, mapping: &'a Mapping, positions: &'a [[f64; 3]]) -> Self {
        Self {
            skeleton,
            mapping,
            positions,
            world: world_rotation(mapping, positions),
        }
    }

    fn at(&self, joint: usize) -> Option<[f64; 3]> {
        self.mapping[joint].map(|s| self.positions[s.anchor])
    }

    fn bone_direction(&self, from: usize, to: usize) -> Option<[f64; 3]> {
        direction(self.world.rotate(minus(self.at(to)?, self.at(from)?)))
    }

    /// Direction of a leg's foot, if known.
    fn foot_direction(&self, [shin, foot, toes]: [usize; 3]) -> Option<[f64; 3]> {
        if let (Some(knee), Some(ankle), Some(ball)) = (self.at(shin), self.at(foot), self.at(toes)) {
            let (along, bone) = (minus(ankle, knee), minus(ball, ankle));
            if angle(along, bone) < SNAP && length(bone) < ANKLE_HEIGHT * length(along) {
                return self.towards_children(toes);
            }
        }
        self.bone_direction(foot, toes)
            .or_else(|| self.towards_children(foot))
    }

    /// Mean direction from a joint's last source to its children except the thumb.
    fn towards_children(&self, joint: usize) -> Option<[f64; 3]> {
        self.towards(joint, |name| !name.to_ascii_lowercase().contains("thumb"))
    }

    /// Mean direction from a joint's last source to those of its children whose name `selects` accepts.
    fn towards(&self, joint: usize, selects: impl Fn(&str) -> bool) -> Option<[f64; 3]> {
        let source = self.mapping[joint]?.rotation;
        let mut sum = [0.0; 3];
        for (child, name) in self.skeleton.names.iter().enumerate() {
            if self.skeleton.parents[child] == source as i32 && selects(name) {
                sum = add(sum, minus(self.positions[child], self.positions[source]));
            }
        }
        direction(self.world.rotate(sum))
    }
}

/// Turns a direction close to an axis into that axis.
fn snap_to_axis(v: [f64; 3]) -> [f64; 3] {
    let mut best = [0.0; 3];
    for (i, &c) in v.iter().enumerate() {
        if c.abs() > SNAP.cos() {
            best[i] = c.signum();
        }
    }
    if best == [0.0; 3] { v } else { best }
}

/// Rotation from the source's up to +y and its forward to +z. Left is the direction from the right limbs to the left
/// ones, up that from the hips to the shoulders. Identity if the offsets do not show these directions.
fn world_rotation(mapping: &Mapping, positions: &[[f64; 3]]) -> Quat {
    let at = |joint: usize| mapping[joint].map(|s| positions[s.anchor]);
    let pair = |joints: [usize; 2]| Some((at(joints[0])?, at(joints[1])?));
    let legs = pair(LEGS);
    let arms = pair([ARMS[0] + 1, ARMS[1] + 1]);
    let lateral =
        |p: Option<([f64; 3], [f64; 3])>| p.and_then(|(l, r)| direction(minus(l, r))).unwrap_or([0.0; 3]);
    let middle = |p: Option<([f64; 3], [f64; 3])>| p.map(|(l, r)| scaled(add(l, r), 0.5));
    let Some(left) = direction(add(lateral(legs), lateral(arms))) else {
        return Quat::IDENTITY;
    };
    let (Some(low), Some(high)) = (middle(legs), middle(arms)) else {
        return Quat::IDENTITY;
    };
    let axes = || {
        let up = snap_to_axis(direction(minus(high, low))?);
        let forward = snap_to_axis(direction(cross(left, up))?);
        let left = direction(cross(up, forward))?;
        Some([left, up, direction(cross(left, up))?])
    };
    // Rows: the source's left, up and forward become x, y and z.
    axes().map_or(Quat::IDENTITY, |axes| {
        Quat::from_matrix(axes).normalize_or(Quat::IDENTITY)
    })
}

/// Follows `so_far` by the smallest rotation of `so_far * v` onto `target`; returns `so_far` if `v` is unknown or
/// within `tolerance`.
fn rotate_onto(so_far: Quat, v: Option<[f64; 3]>, target: [f64; 3], tolerance: f64) -> Quat {
    let Some(v) = v.map(|v| so_far.rotate(v)) else {
        return so_far;
    };
    if angle(v, target) <= tolerance {
        return so_far;
    }
    (Quat::from_two_vectors(v, target) * so_far).normalize()
}

/// Correction of the two bones of a limb with a hinge between them. `flexed` is the direction in which the far bone
/// swings when the hinge bends in a T-pose: forward for an elbow, backward for a knee.
fn correct_hinge(
    so_far: Quat,
    near: Option<[f64; 3]>,
    far: Option<[f64; 3]>,
    target: [f64; 3],
    flexed: [f64; 3],
) -> (Quat, Quat) {
    let is_bent =
        |&(n, f): &([f64; 3], [f64; 3])| (MIN_BEND..std::f64::consts::PI - MIN_BEND).contains(&angle(n, f));
    let Some((_, f)) = near.zip(far).filter(is_bent) else {
        let first = rotate_onto(so_far, near, target, LIMB_TOLERANCE);
        return (first, rotate_onto(first, far, target, LIMB_TOLERANCE));
    };
    // Bent: move the near bone exactly onto its target, then roll about it until the far bone bends as the hinge
    // does.
    let first = rotate_onto(so_far, near, target, 0.0);
    let out = first.rotate(f);
    let side = minus(out, scaled(target, dot(out, target)));
    let roll = direction(side).map_or(Quat::IDENTITY, |side| {
        let sine = dot(cross(side, flexed), target);
        Quat::from_axis_angle(target, sine.atan2(dot(side, flexed)))
    });
    let first = (roll * first).normalize();
    (first, rotate_onto(first, far, target, 0.0))
}

/// Computes the correction of a skeleton's rest pose.
pub(crate) fn correction(skeleton: &Skeleton, mapping: &Mapping, positions: &[[f64; 3]]) -> Correction {
    let rest = Rest::new(skeleton, mapping, positions);
    let mut joints = [Quat::IDENTITY; JOINT_COUNT];
    for (side, x) in [(0, 1.0), (1, -1.0)] {
        let out = [x, 0.0, 0.0];
        let [shoulder, upper, lower, hand] = std::array::from_fn(|i| ARMS[side] + i);
        let none = Quat::IDENTITY;
        joints[shoulder] = rotate_onto(none, rest.bone_direction(shoulder, upper), out, LOOSE_TOLERANCE);
        let near = rest.bone_direction(upper, lower);
        let far = rest
            .bone_direction(lower, hand)
            .or_else(|| rest.towards_children(lower));
        (joints[upper], joints[lower]) = correct_hinge(joints[shoulder], near, far, out, [0.0, 0.0, 1.0]);
        joints[hand] = rotate_onto(joints[lower], rest.towards(hand, is_finger), out, LOOSE_TOLERANCE);

        let down = [0.0, -1.0, 0.0];
        let [thigh, shin, foot, toes] = std::array::from_fn(|i| LEGS[side] + i);
        let near = rest.bone_direction(thigh, shin);
        let far = rest
            .bone_direction(shin, foot)
            .or_else(|| rest.towards_children(shin));
        (joints[thigh], joints[shin]) = correct_hinge(none, near, far, down, [0.0, 0.0, -1.0]);
        let ahead = crate::canonical::OFFSETS[toes];
        joints[foot] = rotate_onto(
            joints[shin],
            rest.foot_direction([shin, foot, toes]),
            direction(ahead).unwrap_or(ahead),
            LOOSE_TOLERANCE,
        );
        joints[toes] = rotate_onto(
            joints[foot],
            rest.towards_children(toes),
            [0.0, 0.0, 1.0],
            LOOSE_TOLERANCE,
        );
    }
    Correction {
        world: rest.world,
        joints,
    }
}

/// Largest angle (radians) of any upper or lower arm or leg of the rest pose from its T-pose direction, once the body
/// is upright and faces forward.
pub(crate) fn deviation(skeleton: &Skeleton, mapping: &Mapping, positions: &[[f64; 3]]) -> f64 {
    let rest = Rest::new(skeleton, mapping, positions);
    let mut worst: f64 = 0.0;
    for (side, x) in [(0, 1.0), (1, -1.0)] {
        let limbs = [(ARMS[side] + 1, [x, 0.0, 0.0]), (LEGS[side], [0.0, -1.0, 0.0])];
        for (first, target) in limbs {
            for bone in [first, first + 1] {
                if let Some(v) = rest.bone_direction(bone, bone + 1) {
                    worst = worst.max(angle(v, target));
                }
            }
        }
    }
    worst
}
