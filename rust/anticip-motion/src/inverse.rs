//! Inverse kinematics: a limb of two bones whose ends are known.

use anticip_geometry::Quat;

use crate::vector::{Vector, cross, dot, length, minus};

/// Direction of the elbows in T-pose.
pub(crate) const BACK: Vector = [0.0, 0.0, -1.0];
/// Direction of the knees in T-pose.
pub(crate) const FORWARD: Vector = [0.0, 0.0, 1.0];
/// Uncertainty (metres) of the distance between the ends of a limb, because real shoulders and hips are not where the
/// canonical body has them. Chosen with people of the training split and their own proportions.
const DISTANCE_ERROR: f64 = 0.02;
/// Bones below this length (metres) have no direction.
const SHORTEST: f64 = 1e-6;

/// Direction of the left (0) or the right (1) arm in T-pose.
pub(crate) fn outwards(side: usize) -> Vector {
    [if side == 0 { 1.0 } else { -1.0 }, 0.0, 0.0]
}

fn unit(a: Vector) -> Option<Vector> {
    let norm = length(a);
    (norm > 1e-9 && norm.is_finite()).then(|| a.map(|v| v / norm))
}

/// Distance (metres) between the ends of a limb that combines the observed `distance` and the solved `bend`
/// (radians).
///
/// For a limb that is nearly straight a centimetre is a bend of many degrees, so both are weighted by their
/// uncertainty: `doubt` (radians) and [`DISTANCE_ERROR`].
pub(crate) fn combine_distance(distance: f64, bend: f64, lengths: [f64; 2], doubt: f64) -> f64 {
    let [a, b] = lengths;
    let cosine = ((distance * distance - a * a - b * b) / (2.0 * a * b)).clamp(-1.0, 1.0);
    let observed = cosine.acos();
    // Sensitivity of the distance to the bend, half-way between the two.
    let half = (observed + bend) / 2.0;
    let slope = a * b * half.sin() / (a * a + b * b + 2.0 * a * b * half.cos()).sqrt().max(1e-6);
    // Errors of the solved bend have a Laplace distribution: a few are large.
    let weight = slope * slope * doubt * (observed - bend).abs().max(doubt);
    let bend = bend + (observed - bend) * weight / (weight + DISTANCE_ERROR * DISTANCE_ERROR);
    (a * a + b * b + 2.0 * a * b * bend.cos()).max(0.0).sqrt()
}

/// Rotation of a hanging bone onto the direction `bone`, with its left side towards `left`, a unit vector across it.
fn hanging_bone(bone: Vector, left: Vector) -> Option<Quat> {
    let up = unit(bone.map(|v| -v))?;
    let ahead = cross(left, up);
    Quat::from_matrix(std::array::from_fn(|i| [left[i], up[i], ahead[i]])).try_normalize()
}

/// World rotations of upper and lower leg of the canonical body with hip joint `hip`, ankle `ankle`, bones of these
/// `lengths` (metres) and the knee towards `front`. If the ankle is out of reach, the leg points to it. `None` if
/// there is no solution: an ankle at the hip, lengths below a micrometre, `front` along the leg.
pub(crate) fn leg(hip: Vector, ankle: Vector, front: Vector, lengths: [f64; 2]) -> Option<[Quat; 2]> {
    let [upper, lower] = lengths;
    if !(upper > SHORTEST && lower > SHORTEST) {
        return None;
    }
    let reach = minus(ankle, hip);
    let along = unit(reach)?;
    let distance = length(reach).clamp((upper - lower).abs().max(SHORTEST), upper + lower);
    // The law of cosines, at the hip.
    let cosine =
        ((upper * upper + distance * distance - lower * lower) / (2.0 * upper * distance)).clamp(-1.0, 1.0);
    let lean = dot(front, along);
    let ahead = unit(std::array::from_fn(|i| front[i] - lean * along[i]))?;
    let (forth, down) = (upper * (1.0 - cosine * cosine).sqrt(), upper * cosine);
    let knee: Vector = std::array::from_fn(|i| down * along[i] + forth * ahead[i]);
    let shin: Vector = std::array::from_fn(|i| distance * along[i] - knee[i]);
    // The knee's axis is that of both bones, however far it bends.
    let left = cross(ahead, along);
    Some([hanging_bone(knee, left)?, hanging_bone(shin, left)?])
}

/// Like [`leg`] for upper and lower arm: `elbow` is the direction of the elbow, `out` (±x) that of the arm in T-pose,
/// in which the elbow points back.
pub(crate) fn arm(
    shoulder: Vector,
    wrist: Vector,
    elbow: Vector,
    lengths: [f64; 2],
    out: Vector,
) -> Option<[Quat; 2]> {
    // From the arm in T-pose to a leg at rest: out becomes down, back becomes ahead.
    let [x, ..] = out;
    let rest = Quat::from_matrix([[0.0, -x, 0.0], [-x, 0.0, 0.0], [0.0, 0.0, -1.0]]);
    leg(shoulder, wrist, elbow, lengths).map(|bones| bones.map(|bone| bone * rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DOWN: Vector = [0.0, -1.0, 0.0];

    #[test]
    fn a_leg_that_hangs_is_at_rest() {
        let [thigh, shin] = leg([0.1, 0.9, 0.0], [0.1, 0.1, 0.0], [0.0, 0.0, 1.0], [0.4, 0.4]).unwrap();
        assert!(thigh.angle_to(Quat::IDENTITY) < 1e-6 && shin.angle_to(Quat::IDENTITY) < 1e-6);
    }

    #[test]
    fn what_is_no_leg_is_none() {
        let forward = [0.0, 0.0, 1.0];
        assert!(leg([0.0; 3], [0.0; 3], forward, [0.4, 0.4]).is_none());
        assert!(leg([0.0; 3], DOWN, DOWN, [0.4, 0.4]).is_none());
        assert!(leg([0.0; 3], DOWN, forward, [0.0, 0.4]).is_none());
        // A sender's first foot may be within a rounding error of its hip, which makes such bones.
        assert!(leg([0.0; 3], DOWN, forward, [1e-9; 2]).is_none());
        assert!(leg([0.0; 3], [f64::NAN; 3], forward, [0.4, 0.4]).is_none());
    }

    #[test]
    fn a_bent_limb_is_as_it_is_seen_and_a_straight_one_as_it_is_said() {
        let lengths = [0.3, 0.3];
        let far = |bend: f64| 0.6 * (bend / 2.0).cos();
        // An elbow at a right angle, solved as straight: the observed distance counts.
        assert!((combine_distance(far(1.57), 0.3, lengths, 0.4) - far(1.57)).abs() < 0.04);
        // Straight, but observed a centimetre too near, which would be a bend of 21 degrees.
        assert!(combine_distance(0.59, 0.0, lengths, 0.2) > 0.598);
        // Both agree; no doubt about the bend; no information on the bend.
        assert!((combine_distance(far(0.8), 0.8, lengths, 0.3) - far(0.8)).abs() < 1e-9);
        assert!((combine_distance(far(0.8), 0.5, lengths, 0.0) - far(0.5)).abs() < 1e-9);
        assert!((combine_distance(far(0.8), 0.5, lengths, 1e3) - far(0.8)).abs() < 1e-4);
        // Two centimetres of distance weigh as much as the bend that they amount to.
        let (slope, bend) = (0.3 * 0.4_f64.sin(), 0.8);
        let off = 0.02 / slope;
        let middle = combine_distance(far(bend + off / 2.0), bend - off / 2.0, lengths, off);
        assert!((middle - far(bend)).abs() < 1e-9);
        // Out of reach the limb is straight.
        assert!((combine_distance(0.9, 0.2, lengths, 1e3) - 0.6).abs() < 1e-4);
    }

    #[test]
    fn a_heel_that_goes_past_the_hip_does_not_turn_the_shin_about() {
        let at = |far: f64| leg([0.0; 3], [0.0, -far, 0.0], [0.0, 0.0, 1.0], [0.45, 0.4]).unwrap()[1];
        assert!(at(0.205).angle_to(at(0.207)) < 0.01, "where the shin lies level");
        assert!(at(0.1).angle_to(at(0.3)) < 1.2);
    }

    proptest! {
        #[test]
        fn the_ankle_is_where_it_was_wanted_and_the_knee_bends_forward(
            a in -1.2_f64..1.2, b in -0.9_f64..0.9, far in 0.2_f64..0.74, upper in 0.35_f64..0.45
        ) {
            let lengths = [upper, 0.4];
            let ankle = [far * a.sin(), -far * a.cos() * b.cos(), far * a.cos() * b.sin()];
            let front = [0.0, 0.4, 1.0];
            if let Some([thigh, shin]) = leg([0.0; 3], ankle, front, lengths) {
                let knee = thigh.rotate(DOWN).map(|v| v * upper);
                let foot = shin.rotate(DOWN).map(|v| v * 0.4);
                for i in 0..3 {
                    prop_assert!((knee[i] + foot[i] - ankle[i]).abs() < 1e-6);
                }
                // Lower relative to upper: about the knee's own axis, and never backwards.
                let bend = (thigh.conj() * shin).log();
                prop_assert!(bend[1].abs() < 1e-6 && bend[2].abs() < 1e-6 && bend[0] >= -1e-6);
            }
        }
    }
}
