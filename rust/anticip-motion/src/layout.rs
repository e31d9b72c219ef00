//! Column layout of a row of features version 1, and the rate of the grid.

use crate::canonical::JOINT_COUNT;

/// Frames a second of the grid that features are defined on.
pub const RATE: f64 = 50.0;
/// Start of the first two columns of every joint's rotation matrix, column by column.
pub const ROTATION: usize = 0;
/// Start of the angular velocities, rad/s, in each joint's own frame.
pub const VELOCITY: usize = ROTATION + 6 * JOINT_COUNT;
/// Start of the joint mask: 1 if the source has the joint, else 0.
pub const MASK: usize = VELOCITY + 3 * JOINT_COUNT;
/// Start of the seven anticipation scalars.
pub const SCALAR: usize = MASK + JOINT_COUNT;
/// Column of the height of the hips, metres.
pub const HEIGHT: usize = SCALAR + 7;
/// Start of the velocity of the hips, m/s: left, up and ahead in the hips' heading.
pub const ROOT_VELOCITY: usize = HEIGHT + 1;
/// Number of features in version 1.
pub const FEATURE_COUNT_V1: usize = ROOT_VELOCITY + 3;
