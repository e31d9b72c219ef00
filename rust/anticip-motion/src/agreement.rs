//! Checks that the canonical body shows what the source shows: compares bone directions of both over frames.

use anticip_geometry::Quat;

use crate::canonical::{ARMS, HEAD, HIPS, JOINT_COUNT, LEGS, NECK, PARENTS};
use crate::completion::joint_positions;
use crate::retarget::{Positions, Retargeter};
use crate::vector::{add, angle, direction, minus, scaled};

/// Compared directions: name, from joint, to joint. The trunk of a body without a neck ends between the shoulders.
pub const BONES: [(&str, usize, usize); 11] = [
    ("trunk", HIPS, NECK),
    ("hip line", LEGS[1], LEGS[0]),
    ("shoulder line", ARMS[1] + 1, ARMS[0] + 1),
    ("left upper arm", ARMS[0] + 1, ARMS[0] + 2),
    ("left lower arm", ARMS[0] + 2, ARMS[0] + 3),
    ("right upper arm", ARMS[1] + 1, ARMS[1] + 2),
    ("right lower arm", ARMS[1] + 2, ARMS[1] + 3),
    ("left upper leg", LEGS[0], LEGS[0] + 1),
    ("left lower leg", LEGS[0] + 1, LEGS[0] + 2),
    ("right upper leg", LEGS[1], LEGS[1] + 1),
    ("right lower leg", LEGS[1] + 1, LEGS[1] + 2),
];

/// Larger mean angle (degrees, over all bones and frames) than bodies differ by.
const MEAN_LIMIT: f64 = 10.0;
/// Larger mean angle (degrees, over all frames) than any bone of a correctly mapped body has.
const BONE_LIMIT: f64 = 30.0;
/// A source stands if the direction from its feet to its head has a larger mean cosine to the vertical.
const STANDING: f64 = 0.7;
/// A canonical body with a smaller mean cosine does not stand.
const NOT_STANDING: f64 = 0.4;

/// Accumulates the angles between the bone directions of a source and of the canonical body.
#[derive(Debug, Clone, Default)]
pub struct Agreement {
    frames: usize,
    sums: [f64; BONES.len()],
    counts: [usize; BONES.len()],
    source_up: f64,
    canonical_up: f64,
}

/// Why a body cannot be played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Disagreement {
    /// The bones point in different directions.
    Bones {
        /// Mean angle over all bones and frames, degrees.
        mean: f64,
        /// The bone with the largest mean angle.
        worst: &'static str,
        /// Its mean angle, degrees.
        angle: f64,
    },
    /// The source stands (its world is y up) while the canonical body lies.
    Lies,
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bones { mean, worst, angle } => write!(
                f,
                "bones of the canonical body point {mean:.0} degrees away from the source's on average, the {worst} {angle:.0}: its rest pose is not understood"
            ),
            Self::Lies => f.write_str(
                "the source stands and the canonical body lies: its rest pose and its motion have different up axes",
            ),
        }
    }
}

impl Agreement {
    /// Compares one frame: `canonical` as [`Retargeter::apply`] just returned it. Allocates nothing.
    pub fn push(&mut self, retargeter: &mut Retargeter, canonical: &[Quat; JOINT_COUNT]) {
        let source = retargeter.joint_positions([0.0; 3]);
        let world = retargeter.world();
        let mut globals = *canonical;
        for j in 1..JOINT_COUNT {
            globals[j] = globals[PARENTS[j] as usize] * canonical[j];
        }
        let body = joint_positions(&globals).map(Some);
        for (i, &(_, from, to)) in BONES.iter().enumerate() {
            let bone_direction = |at: &Positions| {
                let end = if to == NECK && source[NECK].is_none() {
                    shoulders(at)
                } else {
                    at[to]
                };
                direction(minus(end?, at[from]?))
            };
            let (Some(s), Some(c)) = (bone_direction(&source), bone_direction(&body)) else {
                continue;
            };
            self.sums[i] += angle(world.rotate(s), c);
            self.counts[i] += 1;
        }
        if let (Some(s), Some(c)) = (upright(&source), upright(&body)) {
            self.source_up += s;
            self.canonical_up += c;
        }
        self.frames += 1;
    }

    /// Number of frames compared.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Mean angle of each of [`BONES`] in degrees; `None` if the source lacks it.
    #[must_use]
    pub fn angles(&self) -> [Option<f64>; BONES.len()] {
        std::array::from_fn(|i| {
            (self.counts[i] > 0).then(|| (self.sums[i] / self.counts[i] as f64).to_degrees())
        })
    }

    /// Whether the frames so far show that the body is mapped wrongly, and how.
    #[must_use]
    pub fn disagreement(&self) -> Option<Disagreement> {
        if self.frames == 0 {
            return None;
        }
        let angles = self.angles();
        let present: Vec<f64> = angles.iter().flatten().copied().collect();
        let mean = present.iter().sum::<f64>() / present.len().max(1) as f64;
        let named = BONES.iter().zip(angles);
        let (worst, angle) = named
            .filter_map(|(&(name, ..), angle)| angle.map(|a| (name, a)))
            .fold(("", 0.0), |best, next| if next.1 > best.1 { next } else { best });
        if mean > MEAN_LIMIT || angle > BONE_LIMIT {
            return Some(Disagreement::Bones { mean, worst, angle });
        }
        let n = self.frames as f64;
        (self.source_up / n > STANDING && self.canonical_up / n < NOT_STANDING).then_some(Disagreement::Lies)
    }
}

/// Midpoint between the shoulders.
fn shoulders(at: &Positions) -> Option<[f64; 3]> {
    Some(scaled(add(at[ARMS[0] + 1]?, at[ARMS[1] + 1]?), 0.5))
}

/// Cosine between the vertical and the direction from the midpoint of the lowest leg joints to the head (or the
/// neck).
fn upright(at: &Positions) -> Option<f64> {
    let foot = |leg: usize| at[LEGS[leg] + 2].or(at[LEGS[leg] + 1]);
    let feet = scaled(add(foot(0)?, foot(1)?), 0.5);
    Some(direction(minus(at[HEAD].or(at[NECK])?, feet))?[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skeleton::Skeleton;
    use crate::standard;

    const TURN: f64 = std::f64::consts::FRAC_PI_2;

    fn compare(skeleton: &Skeleton, pose: &[Quat], frames: usize) -> Agreement {
        let mut retargeter = Retargeter::compile(skeleton).expect("a body");
        let mut out = [Quat::IDENTITY; JOINT_COUNT];
        let mut agreement = Agreement::default();
        for _ in 0..frames {
            retargeter.apply(pose, [0.0; 3], &mut out);
            agreement.push(&mut retargeter, &out);
        }
        agreement
    }

    #[test]
    fn standard_bodies_agree_in_any_pose() {
        for skeleton in [standard::mocopi(), standard::vmc(), standard::canonical()] {
            let bent = Quat::from_axis_angle([0.6, 0.0, 0.8], 0.4);
            let found = compare(&skeleton, &vec![bent; skeleton.len()], 3);
            assert_eq!(found.frames(), 3);
            assert_eq!(found.disagreement(), None);
            let worst = found.angles().into_iter().flatten().fold(0.0, f64::max);
            assert!(worst < MEAN_LIMIT, "{worst}");
        }
    }

    #[test]
    fn nothing_is_said_before_the_first_frame() {
        assert_eq!(Agreement::default().disagreement(), None);
    }

    #[test]
    fn a_rest_pose_of_bone_local_axes_is_refused() {
        // The hips' axes lie across: the zero pose has them turned while the motion stands.
        let mut skeleton = standard::canonical();
        for child in [1, LEGS[0], LEGS[1]] {
            let [x, y, z] = skeleton.offsets[child];
            skeleton.offsets[child] = [y, -x, z];
        }
        let mut pose = vec![Quat::IDENTITY; JOINT_COUNT];
        pose[HIPS] = Quat::from_axis_angle([0.0, 0.0, 1.0], TURN);
        for child in [1, LEGS[0], LEGS[1]] {
            pose[child] = Quat::from_axis_angle([0.0, 0.0, 1.0], -TURN);
        }
        let found = compare(&skeleton, &pose, 1).disagreement();
        assert!(
            matches!(found, Some(Disagreement::Bones { angle, .. }) if angle > BONE_LIMIT),
            "{found:?}"
        );
        assert!(found.expect("one").to_string().contains("rest pose"));
    }

    #[test]
    fn a_rest_pose_of_another_world_is_refused_and_a_z_up_world_is_not() {
        // The zero pose lies on its back in a world where the motion stands.
        let mut skeleton = standard::canonical();
        let back = Quat::from_axis_angle([1.0, 0.0, 0.0], TURN);
        for offset in &mut skeleton.offsets {
            *offset = back.rotate(*offset);
        }
        let mut pose = vec![Quat::IDENTITY; JOINT_COUNT];
        assert_eq!(compare(&skeleton, &pose, 5).disagreement(), None);
        pose[HIPS] = back.conj();
        assert_eq!(
            compare(&skeleton, &pose, 5).disagreement(),
            Some(Disagreement::Lies)
        );
    }
}
