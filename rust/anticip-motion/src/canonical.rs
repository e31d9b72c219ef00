//! The canonical body: 22 joints, a T-pose facing +z, every local rotation the identity.

/// Number of joints of the canonical body.
pub const JOINT_COUNT: usize = 22;

/// Joint names, in the order of every canonical array.
pub const JOINTS: [&str; JOINT_COUNT] = [
    "hips",
    "spine",
    "chest",
    "upper_chest",
    "neck",
    "head",
    "left_shoulder",
    "left_upper_arm",
    "left_lower_arm",
    "left_hand",
    "right_shoulder",
    "right_upper_arm",
    "right_lower_arm",
    "right_hand",
    "left_upper_leg",
    "left_lower_leg",
    "left_foot",
    "left_toes",
    "right_upper_leg",
    "right_lower_leg",
    "right_foot",
    "right_toes",
];

/// Index of each joint's parent, -1 for the hips. A parent always comes before its children.
pub const PARENTS: [i32; JOINT_COUNT] = [
    -1, 0, 1, 2, 3, 4, 3, 6, 7, 8, 3, 10, 11, 12, 0, 14, 15, 16, 0, 18, 19, 20,
];

/// Height of the hips above the floor in the rest pose, metres.
pub const HIPS_HEIGHT: f64 = 0.95;

/// Rest offsets from the parent joint in metres: a 1.7 m tall body in T-pose, left is +x, up is +y.
///
/// The hips have no offset of their own: their position is the root translation, which is
/// [`HIPS_HEIGHT`] above the floor for this body standing upright.
pub const OFFSETS: [[f64; 3]; JOINT_COUNT] = [
    [0.0, 0.0, 0.0],
    [0.0, 0.10, 0.0],
    [0.0, 0.13, 0.0],
    [0.0, 0.14, 0.0],
    [0.0, 0.15, 0.0],
    [0.0, 0.09, 0.01],
    [0.03, 0.10, 0.0],
    [0.13, 0.0, 0.0],
    [0.28, 0.0, 0.0],
    [0.25, 0.0, 0.0],
    [-0.03, 0.10, 0.0],
    [-0.13, 0.0, 0.0],
    [-0.28, 0.0, 0.0],
    [-0.25, 0.0, 0.0],
    [0.09, -0.05, 0.0],
    [0.0, -0.41, 0.0],
    [0.0, -0.41, 0.0],
    [0.0, -0.06, 0.14],
    [-0.09, -0.05, 0.0],
    [0.0, -0.41, 0.0],
    [0.0, -0.41, 0.0],
    [0.0, -0.06, 0.14],
];

/// Index of the hips.
pub const HIPS: usize = 0;
/// Index of the first torso joint; chest and upper chest follow it.
pub const SPINE: usize = 1;
/// Index of the topmost torso joint.
pub const UPPER_CHEST: usize = 3;
/// Index of the neck.
pub const NECK: usize = 4;
/// Index of the head.
pub const HEAD: usize = 5;
/// First joint (the shoulder) of the left and the right arm.
pub const ARMS: [usize; 2] = [6, 10];
/// First joint (the upper leg) of the left and the right leg.
pub const LEGS: [usize; 2] = [14, 18];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first_and_sides_mirror() {
        for (j, &p) in PARENTS.iter().enumerate() {
            assert!(p < j as i32);
        }
        for (j, name) in JOINTS.iter().enumerate() {
            if let Some(rest) = name.strip_prefix("left_") {
                let r = JOINTS
                    .iter()
                    .position(|n| *n == format!("right_{rest}"))
                    .expect("every left joint has a right twin");
                assert_eq!(OFFSETS[j][0], -OFFSETS[r][0]);
                assert_eq!(OFFSETS[j][1..], OFFSETS[r][1..]);
            }
        }
    }

    #[test]
    fn the_rest_pose_stands_on_the_floor_with_arms_spread() {
        let mut position = OFFSETS;
        position[HIPS][1] += HIPS_HEIGHT;
        for j in 1..JOINT_COUNT {
            let parent = position[PARENTS[j] as usize];
            (0..3).for_each(|i| position[j][i] += parent[i]);
        }
        // Head, hand and toes: every joint above them contributes.
        for (joint, expected) in [
            (HEAD, [0.0, 1.56, 0.01]),
            (9, [0.69, 1.42, 0.0]),
            (17, [0.09, 0.02, 0.14]),
        ] {
            assert!(
                (0..3).all(|i| (position[joint][i] - expected[i]).abs() < 1e-9),
                "{joint}"
            );
        }
    }
}
