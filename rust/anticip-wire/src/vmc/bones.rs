/// Number of humanoid bones.
pub const BONES: usize = 55;

/// Names of the bones by id, in the order of Unity's `HumanBodyBones`, in which senders list them.
pub const BONE_NAMES: [&str; BONES] = [
    "Hips",
    "LeftUpperLeg",
    "RightUpperLeg",
    "LeftLowerLeg",
    "RightLowerLeg",
    "LeftFoot",
    "RightFoot",
    "Spine",
    "Chest",
    "Neck",
    "Head",
    "LeftShoulder",
    "RightShoulder",
    "LeftUpperArm",
    "RightUpperArm",
    "LeftLowerArm",
    "RightLowerArm",
    "LeftHand",
    "RightHand",
    "LeftToes",
    "RightToes",
    "LeftEye",
    "RightEye",
    "Jaw",
    "LeftThumbProximal",
    "LeftThumbIntermediate",
    "LeftThumbDistal",
    "LeftIndexProximal",
    "LeftIndexIntermediate",
    "LeftIndexDistal",
    "LeftMiddleProximal",
    "LeftMiddleIntermediate",
    "LeftMiddleDistal",
    "LeftRingProximal",
    "LeftRingIntermediate",
    "LeftRingDistal",
    "LeftLittleProximal",
    "LeftLittleIntermediate",
    "LeftLittleDistal",
    "RightThumbProximal",
    "RightThumbIntermediate",
    "RightThumbDistal",
    "RightIndexProximal",
    "RightIndexIntermediate",
    "RightIndexDistal",
    "RightMiddleProximal",
    "RightMiddleIntermediate",
    "RightMiddleDistal",
    "RightRingProximal",
    "RightRingIntermediate",
    "RightRingDistal",
    "RightLittleProximal",
    "RightLittleIntermediate",
    "RightLittleDistal",
    "UpperChest",
];

/// Bones that are left out: the end of Unity's list, and those that VRM 1.0 has and Unity's humanoid lacks.
pub(super) const UNPLAYED: [&[u8]; 3] = [b"LastBone", b"LeftThumbMetacarpal", b"RightThumbMetacarpal"];

/// Parents of the bones by id. A bone that a model lacks counts as the identity at offset zero, so its children are
/// attached to the next bone above.
pub const BONE_PARENTS: [i32; BONES] = [
    -1, 0, 0, 1, 2, 3, 4, 0, 7, 54, 9, 54, 54, 11, 12, 13, 14, 15, 16, 5, 6, 10, 10, 10, 17, 24, 25, 17, 27,
    28, 17, 30, 31, 17, 33, 34, 17, 36, 37, 18, 39, 40, 18, 42, 43, 18, 45, 46, 18, 48, 49, 18, 51, 52, 8,
];

/// The id of the bone `name`, case-insensitive as in Unity's receivers; the id `guess` is tried first.
#[inline]
pub(super) fn find(name: &[u8], guess: usize) -> Option<usize> {
    if BONE_NAMES.get(guess).is_some_and(|bone| bone.as_bytes() == name) {
        return Some(guess);
    }
    BONE_NAMES
        .iter()
        .position(|bone| bone.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bone_is_found_with_any_guess_and_nothing_else() {
        for (id, name) in BONE_NAMES.iter().enumerate() {
            for guess in [0, id, 54, 55] {
                assert_eq!(find(name.as_bytes(), guess), Some(id));
                assert_eq!(find(name.to_lowercase().as_bytes(), guess), Some(id));
            }
        }
        for unknown in ["LastBone", "", "Hips ", "UpperChestt"] {
            assert_eq!(find(unknown.as_bytes(), 0), None);
        }
    }

    #[test]
    fn the_bones_are_one_tree() {
        assert!(crate::pose::is_forest(&BONE_PARENTS));
        assert_eq!(BONE_PARENTS.iter().filter(|parent| **parent == -1).count(), 1);
        for (id, parent) in BONE_PARENTS.iter().enumerate().skip(1) {
            let (name, parent_name) = (BONE_NAMES[id], BONE_NAMES[*parent as usize]);
            let side = |name: &str| (name.starts_with("Left"), name.starts_with("Right"));
            assert!(
                side(parent_name) == (false, false) || side(parent_name) == side(name),
                "{name} on {parent_name}"
            );
        }
    }
}
