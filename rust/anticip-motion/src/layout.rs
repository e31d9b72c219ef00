//! Where what stands in a row of features version 1, and the grid that rows lie on.

use crate::canonical::JOINT_COUNT;

/// Frames a second of the grid features are defined on.
pub const RATE: f64 = 50.0;
/// First two columns of every joint's rotation matrix, column by column.
pub const ROTATION: usize = 0;
/// Angular velocities, rad/s, in the joint's own frame.
pub const VELOCITY: usize = ROTATION + 6 * JOINT_COUNT;
/// 1 where the source has the joint, else 0.
pub const MASK: usize = VELOCITY + 3 * JOINT_COUNT;
/// The seven anticipation scalars.
pub const SCALAR: usize = MASK + JOINT_COUNT;
/// Height of the hips, metres.
pub const HEIGHT: usize = SCALAR + 7;
/// Velocity of the hips, m/s: to the left, up, ahead, as the hips face.
pub const ROOT_VELOCITY: usize = HEIGHT + 1;
/// How many numbers a frame had in version 1.
pub const FEATURE_COUNT_V1: usize = ROOT_VELOCITY + 3;
