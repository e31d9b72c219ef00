//! Forward kinematics of a feature row: where the joints are and how fast they go, seen from the hips.
//!
//! The model computes the same inside itself where it is trained; live, this is a hundredth of the cost of doing
//! it in a graph of small tensor operations.

use crate::canonical::{JOINT_COUNT, PARENTS};
use crate::layout::{FEATURE_COUNT_V1, ROTATION, VELOCITY};
use crate::vector::{Vector, add, cross, dot, length, minus};

/// The last numbers of a row: height of the higher hand, speed of the body (by mass), speed of the faster hand, how
/// many ends of the body share the movement, extension, side.
pub const MEASURE_COUNT: usize = 6;

/// How many numbers a row gives: up (3); per joint but the hips position (3), height, velocity (3), log speed; then
/// the measures.
pub const KINEMATICS_COUNT: usize = 3 + (JOINT_COUNT - 1) * 8 + MEASURE_COUNT;

/// Where heights begin among them, and where velocities do.
pub(crate) const HEIGHTS: usize = 3 + 3 * (JOINT_COUNT - 1);
pub(crate) const VELOCITIES: usize = HEIGHTS + (JOINT_COUNT - 1);
/// m/s that no end of a body has.
pub(crate) const TOO_FAST: f64 = 100.0;

/// The hands.
pub(crate) const HANDS: [usize; 2] = [9, 13];
/// The five ends of the body: hands, toes, head.
pub const ENDS: [usize; 5] = [9, 13, 17, 21, 5];
/// Hands and ankles, whose distance from the upper chest is the extension.
const REACH: [usize; 4] = [9, 13, 16, 20];
/// The upper chest.
const CHEST: usize = 3;
/// How softly the higher hand is chosen, metres.
const HAND_BLEND: f64 = 0.15;
/// Share of the body's mass that moves with each joint (after Dempster 1955), before it is divided by the sum.
pub(crate) const MASSES: [f64; JOINT_COUNT] = [
    0.142, 0.0, 0.16, 0.17, 0.0, 0.08, 0.0, 0.027, 0.022, 0.012, 0.0, 0.027, 0.022, 0.012, 0.10, 0.06, 0.03,
    0.01, 0.10, 0.06, 0.03, 0.01,
];

const POSITION_SCALE: f64 = 0.3;
const SPEED_FLOOR: f64 = 0.1;

/// No number of a rotation matrix is larger, and no joint turns faster (rad/s): what is beyond is a glitch, whose powers
/// along a chain of joints would leave single precision.
const LARGEST_ROTATION: f32 = 1.5;
const LARGEST_SPIN: f32 = 1e6;

/// Up, positions (m) and velocities (m/s) relative to the hips and in their frame, heights along gravity.
///
/// `offsets` are the bones, metres, from each joint's parent; that of the hips is not used. The order is up, all
/// positions, all heights, all velocities, all log speeds; positions and heights are against the rest pose, and they
/// and up are divided by 0.3 m, so that everything is roughly of unit scale. Velocities include the hips' turning. Of a
/// row of any version the columns of version 1 are read.
#[must_use]
pub fn body_kinematics<const COLUMNS: usize>(
    row: &[f32; COLUMNS],
    offsets: &[Vector; JOINT_COUNT],
) -> [f32; KINEMATICS_COUNT] {
    const { assert!(COLUMNS >= FEATURE_COUNT_V1, "a row of any version") };
    let mut turn = [[[0.0; 3]; 3]; JOINT_COUNT]; // columns
    let (mut place, mut rest) = ([[0.0; 3]; JOINT_COUNT], [[0.0; 3]; JOINT_COUNT]);
    let (mut spin, mut velocity) = ([[0.0; 3]; JOINT_COUNT], [[0.0; 3]; JOINT_COUNT]);
    let read = |at: usize, most: f32| -> Vector {
        std::array::from_fn(|i| f64::from(row[at + i].clamp(-most, most)))
    };
    let mut up = [0.0; 3];
    for j in 0..JOINT_COUNT {
        let [a, b] = [0, 3].map(|first| read(ROTATION + 6 * j + first, LARGEST_ROTATION));
        let local = [a, b, cross(a, b)];
        let own = read(VELOCITY + 3 * j, LARGEST_SPIN);
        let Ok(p) = usize::try_from(PARENTS[j]) else {
            // The hips are the frame; gravity's opposite, seen from them, is their matrix's second row.
            up = local.map(|column| column[1]);
            turn[j] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
            spin[j] = own;
            continue;
        };
        turn[j] = local.map(|column| apply(&turn[p], column));
        let bone = apply(&turn[p], offsets[j]);
        place[j] = add(place[p], bone);
        rest[j] = add(rest[p], offsets[j]);
        velocity[j] = add(velocity[p], cross(spin[p], bone));
        spin[j] = add(spin[p], apply(&turn[j], own));
    }
    let mut out = [0.0_f32; KINEMATICS_COUNT];
    let mut slots = out.iter_mut();
    let mut say = |value: f64| {
        if let Some(slot) = slots.next() {
            *slot = value as f32;
        }
    };
    up.iter().for_each(|v| say(v / POSITION_SCALE));
    for (at, still) in place[1..].iter().zip(&rest[1..]) {
        (0..3).for_each(|i| say((at[i] - still[i]) / POSITION_SCALE));
    }
    for (at, still) in place[1..].iter().zip(&rest[1..]) {
        say((dot(*at, up) - still[1]) / POSITION_SCALE);
    }
    velocity[1..].iter().flatten().for_each(|&v| say(v));
    for v in &velocity[1..] {
        say((dot(*v, *v) + SPEED_FLOOR * SPEED_FLOOR).sqrt().ln() + 1.0);
    }
    measures(&place, up, &velocity).into_iter().for_each(&mut say);
    out
}

/// What sound parameters are made of, of unit scale and in a form that extrapolates: speeds as logarithms.
fn measures(
    place: &[Vector; JOINT_COUNT],
    up: Vector,
    velocity: &[Vector; JOINT_COUNT],
) -> [f64; MEASURE_COUNT] {
    let speed2: [f64; JOINT_COUNT] = std::array::from_fn(|j| dot(velocity[j], velocity[j]));
    let height = higher_hand(HANDS.map(|j| dot(place[j], up)));
    let mass: f64 = MASSES.iter().sum();
    let body = speed2.iter().zip(&MASSES).map(|(s, m)| s * m).sum::<f64>() / mass;
    let hand = speed2[HANDS[0]].max(speed2[HANDS[1]]);
    let energy: f64 = ENDS.iter().map(|&j| speed2[j]).sum();
    let total: f64 = ENDS.iter().map(|&j| speed2[j].sqrt()).sum();
    let sharing = total * total / (energy + 0.0225);
    let reach = reach(place);
    let side = ENDS.iter().map(|&j| speed2[j] * place[j][0]).sum::<f64>() / (energy + 0.1);
    [
        (height - 0.12) / 0.18,
        0.75 * ((body + 4e-4) / 0.1225).ln(),
        0.65 * ((hand + 4e-4) / 0.64).ln(),
        4.0 * ((sharing + 0.3) / 3.6).ln(),
        (reach - 0.8) / 0.05,
        side / 0.075,
    ]
}

/// The height of the higher hand of these two, softly chosen.
pub(crate) fn higher_hand(heights: [f64; 2]) -> f64 {
    let [left, right] = heights.map(|height| height / HAND_BLEND);
    let top = left.max(right);
    HAND_BLEND * (top + (0.5 * ((left - top).exp() + (right - top).exp())).ln())
}

/// How far hands and ankles are from the chest, their mean.
pub(crate) fn reach(place: &[Vector]) -> f64 {
    let away = REACH.iter().map(|&j| length(minus(place[j], place[CHEST])));
    away.sum::<f64>() / REACH.len() as f64
}

/// A matrix, given by its columns, times a vector.
fn apply(columns: &[Vector; 3], v: Vector) -> Vector {
    std::array::from_fn(|i| columns[0][i] * v[0] + columns[1][i] * v[1] + columns[2][i] * v[2])
}
