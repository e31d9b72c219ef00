//! Forward kinematics of a feature row: positions and velocities of the joints relative to the hips.
//!
//! The model computes the same internally when it is trained; live, this costs a hundredth of a graph of small tensor
//! operations.

use crate::canonical::{JOINT_COUNT, PARENTS};
use crate::layout::{FEATURE_COUNT_V1, ROTATION, VELOCITY};
use crate::vector::{Vector, add, cross, dot, length, minus};

/// Number of measures, the last numbers of the output: height of the higher hand, speed of the body (weighted by
/// mass), speed of the faster hand, how many ends of the body share the movement, extension, side.
pub const MEASURE_COUNT: usize = 6;

/// Length of the output: up (3); for each joint but the hips position (3), height, velocity (3) and log speed; then
/// the measures.
pub const KINEMATICS_COUNT: usize = 3 + (JOINT_COUNT - 1) * 8 + MEASURE_COUNT;

/// Start of the heights in the output.
pub(crate) const HEIGHTS: usize = 3 + 3 * (JOINT_COUNT - 1);
/// Start of the velocities in the output.
pub(crate) const VELOCITIES: usize = HEIGHTS + (JOINT_COUNT - 1);
/// Speed (m/s) that no end of a body reaches.
pub(crate) const MAX_SPEED: f64 = 100.0;

/// The two hands.
pub(crate) const HANDS: [usize; 2] = [9, 13];
/// The five ends of the body: hands, toes, head.
pub const ENDS: [usize; 5] = [9, 13, 17, 21, 5];
/// Hands and ankles, whose distance from the upper chest is the extension.
const REACH: [usize; 4] = [9, 13, 16, 20];
/// The upper chest.
const CHEST: usize = 3;
/// Softness of the choice of the higher hand, metres.
const HAND_BLEND: f64 = 0.15;
/// Mass fractions of the joints (after Dempster 1955), not normalised.
pub(crate) const MASSES: [f64; JOINT_COUNT] = [
    0.142, 0.0, 0.16, 0.17, 0.0, 0.08, 0.0, 0.027, 0.022, 0.012, 0.0, 0.027, 0.022, 0.012, 0.10, 0.06, 0.03,
    0.01, 0.10, 0.06, 0.03, 0.01,
];

const POSITION_SCALE: f64 = 0.3;
const SPEED_FLOOR: f64 = 0.1;

/// Limit of the entries of a rotation matrix and of angular velocities (rad/s). Values beyond are glitches, whose
/// powers along a chain of joints would exceed single precision.
const MAX_ROTATION: f32 = 1.5;
const MAX_ANGULAR_VELOCITY: f32 = 1e6;

/// Computes up, positions (m) and velocities (m/s) relative to the hips and in their frame, and heights along
/// gravity.
///
/// `offsets` are the bones, metres, from each joint's parent; that of the hips is not used. The order of the output
/// is up, all positions, all heights, all velocities, all log speeds, measures. Positions and heights are relative to
/// the rest pose; they and up are divided by 0.3 m, so that everything is roughly of unit scale. Velocities include
/// the rotation of the hips. Only the columns of version 1 are read, so rows of any version are accepted.
#[must_use]
pub fn body_kinematics<const COLUMNS: usize>(
    row: &[f32; COLUMNS],
    offsets: &[Vector; JOINT_COUNT],
) -> [f32; KINEMATICS_COUNT] {
    const { assert!(COLUMNS >= FEATURE_COUNT_V1, "a row of any version") };
    let mut rotation = [[[0.0; 3]; 3]; JOINT_COUNT]; // columns
    let (mut position, mut rest) = ([[0.0; 3]; JOINT_COUNT], [[0.0; 3]; JOINT_COUNT]);
    let (mut spin, mut velocity) = ([[0.0; 3]; JOINT_COUNT], [[0.0; 3]; JOINT_COUNT]);
    let read =
        |at: usize, max: f32| -> Vector { std::array::from_fn(|i| f64::from(row[at + i].clamp(-max, max))) };
    let mut up = [0.0; 3];
    for j in 0..JOINT_COUNT {
        let [a, b] = [0, 3].map(|first| read(ROTATION + 6 * j + first, MAX_ROTATION));
        let local = [a, b, cross(a, b)];
        let own = read(VELOCITY + 3 * j, MAX_ANGULAR_VELOCITY);
        let Ok(p) = usize::try_from(PARENTS[j]) else {
            // The hips are the frame; up, as seen from them, is the second row of their matrix.
            up = local.map(|column| column[1]);
            rotation[j] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
            spin[j] = own;
            continue;
        };
        rotation[j] = local.map(|column| apply(&rotation[p], column));
        let bone = apply(&rotation[p], offsets[j]);
        position[j] = add(position[p], bone);
        rest[j] = add(rest[p], offsets[j]);
        velocity[j] = add(velocity[p], cross(spin[p], bone));
        spin[j] = add(spin[p], apply(&rotation[j], own));
    }
    let mut out = [0.0_f32; KINEMATICS_COUNT];
    let mut slots = out.iter_mut();
    let mut write = |value: f64| {
        if let Some(slot) = slots.next() {
            *slot = value as f32;
        }
    };
    up.iter().for_each(|v| write(v / POSITION_SCALE));
    for (position, rest) in position[1..].iter().zip(&rest[1..]) {
        (0..3).for_each(|i| write((position[i] - rest[i]) / POSITION_SCALE));
    }
    for (position, rest) in position[1..].iter().zip(&rest[1..]) {
        write((dot(*position, up) - rest[1]) / POSITION_SCALE);
    }
    velocity[1..].iter().flatten().for_each(|&v| write(v));
    for v in &velocity[1..] {
        write((dot(*v, *v) + SPEED_FLOOR * SPEED_FLOOR).sqrt().ln() + 1.0);
    }
    measures(&position, up, &velocity)
        .into_iter()
        .for_each(&mut write);
    out
}

/// The quantities that sound parameters depend on, of unit scale and in a form that extrapolates: speeds as
/// logarithms.
fn measures(
    position: &[Vector; JOINT_COUNT],
    up: Vector,
    velocity: &[Vector; JOINT_COUNT],
) -> [f64; MEASURE_COUNT] {
    let speed2: [f64; JOINT_COUNT] = std::array::from_fn(|j| dot(velocity[j], velocity[j]));
    let height = higher_hand(HANDS.map(|j| dot(position[j], up)));
    let mass: f64 = MASSES.iter().sum();
    let body = speed2.iter().zip(&MASSES).map(|(s, m)| s * m).sum::<f64>() / mass;
    let hand = speed2[HANDS[0]].max(speed2[HANDS[1]]);
    let energy: f64 = ENDS.iter().map(|&j| speed2[j]).sum();
    let total: f64 = ENDS.iter().map(|&j| speed2[j].sqrt()).sum();
    let sharing = total * total / (energy + 0.0225);
    let reach = reach(position);
    let side = ENDS.iter().map(|&j| speed2[j] * position[j][0]).sum::<f64>() / (energy + 0.1);
    [
        (height - 0.12) / 0.18,
        0.75 * ((body + 4e-4) / 0.1225).ln(),
        0.65 * ((hand + 4e-4) / 0.64).ln(),
        4.0 * ((sharing + 0.3) / 3.6).ln(),
        (reach - 0.8) / 0.05,
        side / 0.075,
    ]
}

/// Height of the higher of two hands, as a soft maximum.
pub(crate) fn higher_hand(heights: [f64; 2]) -> f64 {
    let [left, right] = heights.map(|height| height / HAND_BLEND);
    let top = left.max(right);
    HAND_BLEND * (top + (0.5 * ((left - top).exp() + (right - top).exp())).ln())
}

/// Mean distance of hands and ankles from the upper chest.
pub(crate) fn reach(position: &[Vector]) -> f64 {
    let away = REACH.iter().map(|&j| length(minus(position[j], position[CHEST])));
    away.sum::<f64>() / REACH.len() as f64
}

/// Product of a matrix, given by its columns, and a vector.
fn apply(columns: &[Vector; 3], v: Vector) -> Vector {
    std::array::from_fn(|i| columns[0][i] * v[0] + columns[1][i] * v[1] + columns[2][i] * v[2])
}
