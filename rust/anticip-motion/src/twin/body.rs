//! Joint positions of the teacher's body: one fixed body for all performers, so that a tall and a short one who make
//! the same movement get the same parameters.

use anticip_geometry::Quat;

use crate::canonical::{HIPS, JOINT_COUNT, OFFSETS, PARENTS};
use crate::kinematics::ENDS;
pub use crate::vector::Vector;
use crate::vector::{add, cross};

/// Local rotations of the canonical joints, w, x, y, z.
pub type Rotations = [[f64; 4]; JOINT_COUNT];

/// Head, elbows, hands, ankles and toes: joints whose repetition is the pulse.
const PULSE_JOINTS: [usize; 9] = [5, 8, 9, 12, 13, 16, 17, 20, 21];

/// Length of the pulse joints' positions.
pub const PULSE_SIZE: usize = 3 * PULSE_JOINTS.len();

/// Length of all positions.
pub const POSITION_SIZE: usize = 3 * JOINT_COUNT;

/// Length of what is smoothed before it is differentiated: all positions, then those of the pulse joints.
pub const SMOOTHED_SIZE: usize = POSITION_SIZE + PULSE_SIZE;

/// Positions of one pose, metres, relative to the hips.
#[derive(Debug, Clone)]
pub struct Body {
    /// All positions with y along gravity, then those of the pulse joints in the hips' frame.
    pub positions: [f64; SMOOTHED_SIZE],
    /// Offset of each end of the body to the performer's left, in the hips' frame.
    pub lateral: [f64; ENDS.len()],
}

impl Body {
    /// Computes the positions of a pose.
    #[must_use]
    pub fn from_pose(pose: &Rotations) -> Self {
        let upright = positions(pose, pose[HIPS]);
        let inside = positions(pose, [1.0, 0.0, 0.0, 0.0]);
        let mut all_positions = [0.0; SMOOTHED_SIZE];
        let (all, pulse) = all_positions.split_at_mut(POSITION_SIZE);
        all.copy_from_slice(upright.as_flattened());
        for (slot, joint) in pulse.chunks_exact_mut(3).zip(PULSE_JOINTS) {
            slot.copy_from_slice(&inside[joint]);
        }
        Self {
            positions: all_positions,
            lateral: ENDS.map(|joint| inside[joint][0]),
        }
    }

    /// The positions with y along gravity.
    #[must_use]
    pub fn upright(&self) -> &[Vector] {
        self.positions[..POSITION_SIZE].as_chunks().0
    }
}

/// Joint positions relative to the hips, which have the rotation `hips`.
fn positions(pose: &Rotations, hips: [f64; 4]) -> [Vector; JOINT_COUNT] {
    let mut rotations = [Quat::from_array(hips); JOINT_COUNT];
    let mut positions = [[0.0; 3]; JOINT_COUNT];
    for joint in 0..JOINT_COUNT {
        let Ok(parent) = usize::try_from(PARENTS[joint]) else {
            continue;
        };
        rotations[joint] = rotations[parent] * Quat::from_array(pose[joint]);
        positions[joint] = add(positions[parent], rotate(rotations[parent], OFFSETS[joint]));
    }
    positions
}

/// Rotates a vector by a unit quaternion, with the rounding that the teacher has always had.
fn rotate(q: Quat, v: Vector) -> Vector {
    let [w, x, y, z] = q.to_array();
    let twice = cross([x, y, z], v).map(|part| 2.0 * part);
    let again = cross([x, y, z], twice);
    std::array::from_fn(|i| v[i] + w * twice[i] + again[i])
}
