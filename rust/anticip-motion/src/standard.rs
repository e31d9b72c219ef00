//! Standard bodies of the supported suits, in T-pose, metres.

use anticip_geometry::Quat;
use anticip_wire::vmc::{BONE_NAMES, BONE_PARENTS};
use anticip_wire::{axis, rokoko, xsens};

use crate::canonical::{JOINTS, OFFSETS, PARENTS};
use crate::skeleton::Skeleton;

/// One bone: name, parent index, offset from the parent.
type Bone = (&'static str, i32, [f64; 3]);

const MOCOPI: [Bone; 27] = [
    ("root", -1, [0.0, 0.0, 0.0]),
    ("torso_1", 0, [0.0, 0.05, -0.01]),
    ("torso_2", 1, [0.0, 0.056, 0.01]),
    ("torso_3", 2, [0.0, 0.06, 0.0]),
    ("torso_4", 3, [0.0, 0.065, -0.005]),
    ("torso_5", 4, [0.0, 0.075, -0.015]),
    ("torso_6", 5, [0.0, 0.095, -0.01]),
    ("torso_7", 6, [0.0, 0.105, 0.015]),
    ("neck_1", 7, [0.0, 0.048, 0.008]),
    ("neck_2", 8, [0.0, 0.048, 0.004]),
    ("head", 9, [0.0, 0.048, 0.008]),
    ("l_shoulder", 7, [0.012, -0.075, 0.075]),
    ("l_up_arm", 11, [0.13, 0.032, -0.032]),
    ("l_low_arm", 12, [0.29, 0.0, 0.0]),
    ("l_hand", 13, [0.24, 0.0, 0.0]),
    ("r_shoulder", 7, [-0.012, -0.075, 0.075]),
    ("r_up_arm", 15, [-0.13, 0.032, -0.032]),
    ("r_low_arm", 16, [-0.29, 0.0, 0.0]),
    ("r_hand", 17, [-0.24, 0.0, 0.0]),
    ("l_up_leg", 0, [0.092, -0.042, 0.02]),
    ("l_low_leg", 19, [-0.008, -0.39, -0.006]),
    ("l_foot", 20, [-0.023, -0.404, -0.06]),
    ("l_toes", 21, [0.008, -0.099, 0.125]),
    ("r_up_leg", 0, [-0.092, -0.042, 0.02]),
    ("r_low_leg", 23, [0.008, -0.39, -0.006]),
    ("r_foot", 24, [0.023, -0.404, -0.06]),
    ("r_toes", 25, [-0.008, -0.099, 0.125]),
];

/// Offset of a VMC bone by its name without the side: forward +z, the side +x.
fn vmc_offset(bone: &str) -> [f64; 3] {
    match bone {
        "Spine" => [0.0, 0.10, 0.0],
        "Chest" => [0.0, 0.13, 0.0],
        "UpperChest" => [0.0, 0.14, 0.0],
        "Neck" => [0.0, 0.15, 0.0],
        "Head" => [0.0, 0.09, 0.01],
        "Jaw" => [0.0, 0.02, 0.05],
        "Eye" => [0.03, 0.06, 0.08],
        "Shoulder" => [0.03, 0.10, 0.0],
        "UpperArm" => [0.13, 0.0, 0.0],
        "LowerArm" => [0.28, 0.0, 0.0],
        "Hand" => [0.25, 0.0, 0.0],
        "UpperLeg" => [0.09, -0.05, 0.0],
        "LowerLeg" | "Foot" => [0.0, -0.41, 0.0],
        "Toes" => [0.0, -0.06, 0.14],
        "ThumbProximal" => [0.02, -0.01, 0.03],
        "IndexProximal" => [0.09, 0.0, 0.025],
        "MiddleProximal" => [0.09, 0.0, 0.0],
        "RingProximal" => [0.085, 0.0, -0.02],
        "LittleProximal" => [0.08, 0.0, -0.04],
        finger if finger.ends_with("Intermediate") => [0.035, 0.0, 0.0],
        finger if finger.ends_with("Distal") => [0.025, 0.0, 0.0],
        _ => [0.0; 3],
    }
}

fn build(bones: impl Iterator<Item = (String, i32, [f64; 3])>) -> Skeleton {
    let mut skeleton = Skeleton {
        names: Vec::new(),
        parents: Vec::new(),
        offsets: Vec::new(),
        rest_local: None,
    };
    for (name, parent, offset) in bones {
        skeleton.names.push(name);
        skeleton.parents.push(parent);
        skeleton.offsets.push(offset);
    }
    skeleton
}

/// The 27 bones of mocopi, in the order of its datagrams.
#[must_use]
pub fn mocopi() -> Skeleton {
    build(MOCOPI.iter().map(|&(n, p, o)| (n.to_owned(), p, o)))
}

/// The 55 bones of VMC, in the order of Unity's `HumanBodyBones`, which its ids follow.
///
/// A Unity avatar faces +z with its left towards -x; made right-handed by mirroring z, like its poses, it faces -z.
#[must_use]
pub fn vmc() -> Skeleton {
    build(BONE_NAMES.iter().zip(BONE_PARENTS).map(|(&name, parent)| {
        let left = name.strip_prefix("Left");
        let [x, y, z] = vmc_offset(left.or(name.strip_prefix("Right")).unwrap_or(name));
        let x = if left.is_some() { -x } else { x };
        (name.to_owned(), parent, [x, y, -z])
    }))
}

/// The 23 segments of Xsens MVN, in the order of its datagrams.
#[must_use]
pub fn xsens() -> Skeleton {
    let bones = xsens::SEGMENT_NAMES.iter().zip(xsens::SEGMENT_PARENTS);
    build(bones.map(|(&name, parent)| {
        let left = name.strip_prefix("Left ");
        let [x, y, z] = match left.or(name.strip_prefix("Right ")).unwrap_or(name) {
            "Pelvis" => [0.0; 3],
            "L5" | "L3" | "T12" | "T8" => [0.0, 0.1, 0.0],
            "Forearm" => vmc_offset("LowerArm"),
            "Foot" => vmc_offset("Foot"),
            "Toe" => vmc_offset("Toes"),
            part => vmc_offset(&part.replace(' ', "")),
        };
        let x = if left.is_none() { -x } else { x };
        (name.to_owned(), parent, [x, y, z])
    }))
}

/// The 21 joints of Rokoko Studio, in the order of [`rokoko::JOINT_NAMES`]. It faces -z, like VMC's, and its bones
/// have axes of their own.
#[must_use]
pub fn rokoko() -> Skeleton {
    let global = |id: usize| Quat::from_array(rokoko::REST[id].map(f64::from)).normalize_or(Quat::IDENTITY);
    let parent_rotation = |parent: i32| usize::try_from(parent).map_or(Quat::IDENTITY, global);
    let parents = rokoko::JOINT_PARENTS;
    let bones = rokoko::JOINT_NAMES.iter().zip(parents).map(|(&name, parent)| {
        let left = name.strip_prefix("left");
        let [x, y, z] = match left.or(name.strip_prefix("right")).unwrap_or(name) {
            "spine" => vmc_offset("Spine"),
            "chest" => [0.0, 0.27, 0.0],
            "neck" => vmc_offset("Neck"),
            "head" => vmc_offset("Head"),
            "UpLeg" => vmc_offset("UpperLeg"),
            "Leg" => vmc_offset("LowerLeg"),
            "Toe" => vmc_offset("Toes"),
            part => vmc_offset(part),
        };
        let x = if left.is_some() { -x } else { x };
        (
            name.to_owned(),
            parent,
            parent_rotation(parent).conj().rotate([x, y, -z]),
        )
    });
    let rest = |(id, parent): (usize, &i32)| (parent_rotation(*parent).conj() * global(id)).to_array();
    Skeleton {
        rest_local: Some(parents.iter().enumerate().map(rest).collect()),
        ..build(bones)
    }
}

/// The 59 bones of Axis Studio, in the order of its broadcast.
#[must_use]
pub fn axis() -> Skeleton {
    let body = axis::default_skeleton();
    let offsets = body.offsets.iter().map(|o| o.map(f64::from));
    build(
        body.names
            .into_iter()
            .zip(body.parents)
            .zip(offsets)
            .map(|((n, p), o)| (n, p, o)),
    )
}

/// The standard body of a kind of suit; `humanoid` is the canonical body.
#[must_use]
pub fn by_name(name: &str) -> Option<Skeleton> {
    Some(match name {
        "mocopi" => mocopi(),
        "vmc" => vmc(),
        "xsens" => xsens(),
        "rokoko" => rokoko(),
        "axis" => axis(),
        "humanoid" => canonical(),
        _ => return None,
    })
}

/// The canonical body itself, as a skeleton.
#[must_use]
pub fn canonical() -> Skeleton {
    let bones = JOINTS.iter().zip(PARENTS).zip(OFFSETS);
    build(bones.map(|((&n, p), o)| (n.to_owned(), p, o)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Retargeter;

    #[test]
    fn every_standard_body_maps_onto_the_canonical_one_and_stands_in_t_pose() {
        let bodies = [
            (mocopi(), 27, 22),
            (vmc(), 55, 22),
            (xsens(), 23, 22),
            // Its back has two bones instead of three.
            (rokoko(), 21, 21),
            // No toes.
            (axis(), 59, 20),
            (canonical(), 22, 22),
        ];
        for (skeleton, count, mapped) in bodies {
            assert_eq!(skeleton.len(), count);
            let retargeter = Retargeter::compile(&skeleton).expect("maps");
            assert_eq!(retargeter.mask().iter().filter(|&&m| m).count(), mapped);
            let deviation = crate::t_pose_deviation(&skeleton).expect("maps");
            assert!(deviation < crate::T_POSE_TOLERANCE / 2.0);
        }
    }

    type End = (&'static str, [f64; 3]);

    /// Global rotation and position of a bone, with the root at the origin.
    fn place(body: &Skeleton, bone: usize) -> (Quat, [f64; 3]) {
        let rest = body
            .rest_local
            .as_ref()
            .map_or(Quat::IDENTITY, |rest| Quat::from_array(rest[bone]));
        let Ok(parent) = usize::try_from(body.parents[bone]) else {
            return (rest, body.offsets[bone]);
        };
        let (turn, at) = place(body, parent);
        let way = turn.rotate(body.offsets[bone]);
        (turn * rest, [0, 1, 2].map(|i| at[i] + way[i]))
    }

    fn near(a: [f64; 3], b: [f64; 3]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
    }

    #[test]
    fn heads_hands_fingers_and_toes_are_where_a_body_of_170_cm_has_them() {
        let ends: [(Skeleton, &[End]); 5] = [
            (
                mocopi(),
                &[
                    ("head", [0.0, 0.65, 0.005]),
                    ("l_hand", [0.672, 0.463, 0.028]),
                    ("l_toes", [0.069, -0.935, 0.079]),
                ],
            ),
            (
                vmc(),
                &[
                    ("Head", [0.0, 0.61, -0.01]),
                    ("Jaw", [0.0, 0.63, -0.06]),
                    ("LeftEye", [-0.03, 0.67, -0.09]),
                    ("LeftHand", [-0.69, 0.47, 0.0]),
                    ("LeftThumbDistal", [-0.77, 0.46, -0.03]),
                    ("LeftIndexDistal", [-0.84, 0.47, -0.025]),
                    ("LeftMiddleDistal", [-0.84, 0.47, 0.0]),
                    ("LeftRingDistal", [-0.835, 0.47, 0.02]),
                    ("LeftLittleDistal", [-0.83, 0.47, 0.04]),
                    ("LeftToes", [-0.09, -0.93, -0.14]),
                ],
            ),
            (
                xsens(),
                &[
                    ("Head", [0.0, 0.64, 0.01]),
                    ("Left Hand", [0.69, 0.5, 0.0]),
                    ("Left Toe", [0.09, -0.93, 0.14]),
                ],
            ),
            (
                rokoko(),
                &[
                    ("head", [0.0, 0.61, -0.01]),
                    ("leftHand", [-0.69, 0.47, 0.0]),
                    ("leftToe", [-0.09, -0.93, -0.14]),
                ],
            ),
            (
                canonical(),
                &[
                    ("head", [0.0, 0.61, 0.01]),
                    ("left_hand", [0.69, 0.47, 0.0]),
                    ("left_toes", [0.09, -0.93, 0.14]),
                ],
            ),
        ];
        for (body, ends) in ends {
            let found: Vec<_> = (0..body.len())
                .map(|bone| (body.names[bone].as_str(), place(&body, bone).1))
                .collect();
            let at = |name: &str| {
                found
                    .iter()
                    .find(|(other, _)| *other == name)
                    .expect("is there")
                    .1
            };
            for (name, expected) in ends {
                assert!(near(at(name), *expected), "{name}: {:?}", at(name));
            }
            for &(name, [x, y, z]) in &found {
                let other = name
                    .replace("Left", "Right")
                    .replace("left", "right")
                    .replace("l_", "r_");
                assert!(
                    other == name || near(at(&other), [-x, y, z]),
                    "{name} and {other}"
                );
            }
        }
    }
}
