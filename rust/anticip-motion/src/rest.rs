//! From a source's rest pose to the T-pose of the canonical body.

use anticip_geometry::Quat;

use crate::canonical::{ARMS, JOINT_COUNT, LEGS};
use crate::mapping::Mapping;
use crate::names::is_finger;
use crate::skeleton::Skeleton;
use crate::vector::{add, angle, cross, direction, dot, length, minus, scaled};

/// A limb bone closer than this to where a T-pose has it is left as it is: builds differ by that much
/// (mocopi's shins lean 9 degrees in a pose that is a T-pose by definition).
const ANATOMY: f64 = 12.0 * std::f64::consts::PI / 180.0;
/// Hands, feet, toes and clavicles have no fixed direction in a T-pose: only one pointing elsewhere altogether
/// is turned.
const LOOSE: f64 = 60.0 * std::f64::consts::PI / 180.0;
/// A foot's bone that goes on along the shin, within `SNAP`, for less than this part of it is the height of the
/// ankle: it says nothing of where the foot points.
const ANKLE: f64 = 0.2;
/// An elbow or knee bent by more than this shows its hinge axis.
const BENT: f64 = 20.0 * std::f64::consts::PI / 180.0;
/// An up or forward direction closer than this to an axis is meant to be that axis.
const SNAP: f64 = 30.0 * std::f64::consts::PI / 180.0;

/// What the rest pose needs to become the canonical T-pose.
pub(crate) struct Correction {
    /// Turns the source's world: its up to +y, its forward to +z.
    pub(crate) world: Quat,
    /// Per canonical joint, in the turned world: from its orientation in the rest pose to that in the T-pose.
    pub(crate) joints: [Quat; JOINT_COUNT],
}

/// Rest positions of the mapped joints in the turned world.
struct Rest<'a> {
    skeleton: &'a Skeleton,
    mapping: &'a Mapping,
    positions: &'a [[f64; 3]],
    world: Quat,
}

impl Rest<'_> {
    fn at(&self, joint: usize) -> Option<[f64; 3]> {
        self.mapping[joint].map(|s| self.positions[s.anchor])
    }

    fn between(&self, from: usize, to: usize) -> Option<[f64; 3]> {
        direction(self.world.rotate(minus(self.at(to)?, self.at(from)?)))
    }

    /// Where the foot of a leg points, if it says so.
    fn sole(&self, [shin, foot, toes]: [usize; 3]) -> Option<[f64; 3]> {
        if let (Some(knee), Some(ankle), Some(ball)) = (self.at(shin), self.at(foot), self.at(toes)) {
            let (along, bone) = (minus(ankle, knee), minus(ball, ankle));
            if angle(along, bone) < SNAP && length(bone) < ANKLE * length(along) {
                return self.towards_children(toes);
            }
        }
        self.between(foot, toes).or_else(|| self.towards_children(foot))
    }

    /// Mean direction from a joint's last source to its children, thumbs aside.
    fn towards_children(&self, joint: usize) -> Option<[f64; 3]> {
        self.towards(joint, |name| !name.to_ascii_lowercase().contains("thumb"))
    }

    /// Mean direction from a joint's last source to those of its children that are named as `wanted`.
    fn towards(&self, joint: usize, wanted: impl Fn(&str) -> bool) -> Option<[f64; 3]> {
        let source = self.mapping[joint]?.rotation;
        let mut sum = [0.0; 3];
        for (child, name) in self.skeleton.names.iter().enumerate() {
            if self.skeleton.parents[child] == source as i32 && wanted(name) {
                sum = add(sum, minus(self.positions[child], self.positions[source]));
            }
        }
        direction(self.world.rotate(sum))
    }
}

/// Turns a direction close to an axis into that axis.
fn snapped(v: [f64; 3]) -> [f64; 3] {
    let mut best = [0.0; 3];
    for (i, &c) in v.iter().enumerate() {
        if c.abs() > SNAP.cos() {
            best[i] = c.signum();
        }
    }
    if best == [0.0; 3] { v } else { best }
}

/// The rotation that takes the source's up to +y and its forward to +z: left is from the right limbs to the left
/// ones, up from the hips to the shoulders (or the head). Identity where the offsets do not say.
fn world(mapping: &Mapping, positions: &[[f64; 3]]) -> Quat {
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
        let up = snapped(direction(minus(high, low))?);
        let forward = snapped(direction(cross(left, up))?);
        let left = direction(cross(up, forward))?;
        Some([left, up, direction(cross(left, up))?])
    };
    // Rows: the source's left, up and forward become x, y and z.
    axes().map_or(Quat::IDENTITY, |axes| {
        Quat::from_matrix(axes).normalize_or(Quat::IDENTITY)
    })
}

/// The smallest turn of `so_far * v` onto `target`, after `so_far`; none where it is within `tolerance`.
fn turned(so_far: Quat, v: Option<[f64; 3]>, target: [f64; 3], tolerance: f64) -> Quat {
    let Some(v) = v.map(|v| so_far.rotate(v)) else {
        return so_far;
    };
    if angle(v, target) <= tolerance {
        return so_far;
    }
    (Quat::from_two_vectors(v, target) * so_far).normalize()
}

/// Correction of the two bones of a limb with a hinge between them. `flexed` is where the far bone swings when the
/// hinge bends in a T-pose: forward for an elbow, backward for a knee.
fn hinged(
    so_far: Quat,
    near: Option<[f64; 3]>,
    far: Option<[f64; 3]>,
    target: [f64; 3],
    flexed: [f64; 3],
) -> (Quat, Quat) {
    let bent = |&(n, f): &([f64; 3], [f64; 3])| (BENT..std::f64::consts::PI - BENT).contains(&angle(n, f));
    let Some((_, f)) = near.zip(far).filter(bent) else {
        let first = turned(so_far, near, target, ANATOMY);
        return (first, turned(first, far, target, ANATOMY));
    };
    // Bent: put the near bone on its target exactly, then roll about it until the far bone bends as the hinge does.
    let first = turned(so_far, near, target, 0.0);
    let out = first.rotate(f);
    let side = minus(out, scaled(target, dot(out, target)));
    let roll = direction(side).map_or(Quat::IDENTITY, |side| {
        let sine = dot(cross(side, flexed), target);
        Quat::from_axis_angle(target, sine.atan2(dot(side, flexed)))
    });
    let first = (roll * first).normalize();
    (first, turned(first, far, target, 0.0))
}

/// Works out the correction of a skeleton's rest pose.
pub(crate) fn correction(skeleton: &Skeleton, mapping: &Mapping, positions: &[[f64; 3]]) -> Correction {
    let rest = Rest {
        skeleton,
        mapping,
        positions,
        world: world(mapping, positions),
    };
    let mut joints = [Quat::IDENTITY; JOINT_COUNT];
    for (side, x) in [(0, 1.0), (1, -1.0)] {
        let out = [x, 0.0, 0.0];
        let [shoulder, upper, lower, hand] = std::array::from_fn(|i| ARMS[side] + i);
        let none = Quat::IDENTITY;
        joints[shoulder] = turned(none, rest.between(shoulder, upper), out, LOOSE);
        let near = rest.between(upper, lower);
        let far = rest.between(lower, hand).or_else(|| rest.towards_children(lower));
        (joints[upper], joints[lower]) = hinged(joints[shoulder], near, far, out, [0.0, 0.0, 1.0]);
        joints[hand] = turned(joints[lower], rest.towards(hand, is_finger), out, LOOSE);

        let down = [0.0, -1.0, 0.0];
        let [thigh, shin, foot, toes] = std::array::from_fn(|i| LEGS[side] + i);
        let near = rest.between(thigh, shin);
        let far = rest.between(shin, foot).or_else(|| rest.towards_children(shin));
        (joints[thigh], joints[shin]) = hinged(none, near, far, down, [0.0, 0.0, -1.0]);
        let ahead = crate::canonical::OFFSETS[toes];
        joints[foot] = turned(
            joints[shin],
            rest.sole([shin, foot, toes]),
            direction(ahead).unwrap_or(ahead),
            LOOSE,
        );
        joints[toes] = turned(joints[foot], rest.towards_children(toes), [0.0, 0.0, 1.0], LOOSE);
    }
    Correction {
        world: rest.world,
        joints,
    }
}

/// How far, in radians, the limb bones of the rest pose are from a T-pose: the largest angle of any upper arm, lower
/// arm, upper leg or lower leg from where a T-pose has it, once the body is upright and facing forward.
pub(crate) fn deviation(skeleton: &Skeleton, mapping: &Mapping, positions: &[[f64; 3]]) -> f64 {
    let rest = Rest {
        skeleton,
        mapping,
        positions,
        world: world(mapping, positions),
    };
    let mut worst: f64 = 0.0;
    for (side, x) in [(0, 1.0), (1, -1.0)] {
        let limbs = [(ARMS[side] + 1, [x, 0.0, 0.0]), (LEGS[side], [0.0, -1.0, 0.0])];
        for (first, target) in limbs {
            for bone in [first, first + 1] {
                if let Some(v) = rest.between(bone, bone + 1) {
                    worst = worst.max(angle(v, target));
                }
            }
        }
    }
    worst
}
