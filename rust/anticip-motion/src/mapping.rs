//! Mapping of joint names to the canonical body: which source joints give each canonical joint.

use crate::MotionError;
use crate::canonical::{ARMS, HEAD, HIPS, JOINT_COUNT, JOINTS, LEGS, NECK, PARENTS, SPINE, UPPER_CHEST};
use crate::names::{Meaning, Part, Side, hand_word, meaning};
use crate::skeleton::Skeleton;

/// Source joints of a canonical joint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    /// The joint that gives the position: the first of a collapsed chain.
    pub(crate) anchor: usize,
    /// The joint that gives the global rotation: the last of the chain.
    pub(crate) rotation: usize,
}

impl Source {
    /// A single joint.
    fn single(joint: usize) -> Self {
        Self {
            anchor: joint,
            rotation: joint,
        }
    }
}

/// The source of every canonical joint, `None` if the skeleton has none.
pub(crate) type Mapping = [Option<Source>; JOINT_COUNT];

/// Canonical joints that a body must have.
const REQUIRED: [usize; 9] = [
    HIPS,
    ARMS[0] + 1,
    ARMS[0] + 2,
    ARMS[1] + 1,
    ARMS[1] + 2,
    LEGS[0],
    LEGS[0] + 1,
    LEGS[1],
    LEGS[1] + 1,
];

struct Names<'a> {
    skeleton: &'a Skeleton,
    order: &'a [usize],
    meanings: Vec<Option<Meaning>>,
}

impl Names<'_> {
    /// Joints of `side` whose part is one of `parts`, parents first.
    fn find(&self, side: Option<Side>, parts: &[Part]) -> Vec<usize> {
        let is_match =
            |j: &usize| self.meanings[*j].is_some_and(|m| m.side == side && parts.contains(&m.part));
        self.order.iter().copied().filter(is_match).collect()
    }

    fn has(&self, side: Side, parts: &[Part]) -> bool {
        !self.find(Some(side), parts).is_empty()
    }

    /// First and last joint of a chain of candidates: starts at the shallowest one and follows those below it. With
    /// `above`, only joints on the way to that joint count, which excludes leaf twist bones.
    fn chain(&self, candidates: &[usize], above: Option<usize>) -> Option<Source> {
        let on_path = |j: usize| above.is_none_or(|end| j != end && self.skeleton.descends(end, j));
        let usable: Vec<usize> = candidates.iter().copied().filter(|&j| on_path(j)).collect();
        let anchor = *usable.first()?;
        let rotation = usable.iter().copied().fold(anchor, |deepest, j| {
            if self.skeleton.descends(j, deepest) {
                j
            } else {
                deepest
            }
        });
        Some(Source { anchor, rotation })
    }

    /// The two bones of a limb if all joints of it down to `end` share a name ("Arm1", "Arm2"): half of them each, as
    /// rigs divide both bones alike.
    fn halves(&self, limb: Vec<usize>, end: Option<usize>) -> (Vec<usize>, Vec<usize>) {
        let above_end = end.map_or_else(Vec::new, |end| self.skeleton.path(end));
        let start = above_end.iter().position(|j| limb.first() == Some(j));
        match start.and_then(|start| above_end[start..].split_last()) {
            Some((_, whole)) if whole.iter().all(|j| limb.contains(j)) => {
                let (upper, lower) = whole.split_at(whole.len().div_ceil(2));
                (upper.to_vec(), lower.to_vec())
            }
            _ => (limb, Vec::new()),
        }
    }

    /// The shallowest candidate and, if present, the joints that a hand is divided into: a wrist, a hand below it, a
    /// base of the fingers below that, all spelled alike. Other joints named after the hand are attachments.
    fn hand(&self, candidates: &[usize]) -> Option<Source> {
        let split = |j: usize| hand_word(&self.skeleton.names[j]);
        let (start, first) = split(*candidates.first()?);
        let is_own = |j: &usize| {
            let (rest, rank) = split(*j);
            rest == start && rank >= first
        };
        let hand: Vec<usize> = candidates.iter().copied().filter(is_own).collect();
        self.chain(&hand, None)
    }
}

/// Maps the joints by name, whether that is enough for a body or not.
fn map_names(skeleton: &Skeleton, order: &[usize]) -> Mapping {
    let mut names = Names {
        skeleton,
        order,
        meanings: skeleton.names.iter().map(|n| meaning(n)).collect(),
    };
    let mut mapping = map_limbs(&names);
    // Joints beside the body are handles for inverse kinematics, whatever their names, as Quaternius' "Foot.L".
    let limbs = ARMS.map(|arm| arm + 1).into_iter().chain(LEGS);
    let roots: Vec<usize> = limbs.filter_map(|limb| mapping[limb].map(|s| s.anchor)).collect();
    if roots.len() == 4
        && let Some(body) = skeleton.common_ancestor(&roots)
    {
        let is_beside = |j: usize, m: &mut Meaning| m.side.is_some() && !skeleton.descends(j, body);
        for (joint, meaning) in names.meanings.iter_mut().enumerate() {
            meaning.take_if(|m| is_beside(joint, m));
        }
        mapping = map_limbs(&names);
    }
    map_trunk(&names, &mut mapping);
    mapping
}

fn map_limbs(names: &Names<'_>) -> Mapping {
    let mut mapping: Mapping = [None; JOINT_COUNT];
    for (s, side) in [Side::Left, Side::Right].into_iter().enumerate() {
        map_arm(names, side, &mut mapping[ARMS[s]..ARMS[s] + 4]);
        map_leg(names, side, &mut mapping[LEGS[s]..LEGS[s] + 4]);
    }
    mapping
}

/// The first and the last joint of each source.
pub(crate) fn ends(mapping: Mapping) -> [Option<[usize; 2]>; JOINT_COUNT] {
    mapping.map(|source| source.map(|s| [s.anchor, s.rotation]))
}

/// For each canonical joint, the first and the last joint of a skeleton by its names, for a person to correct.
///
/// # Errors
/// [`MotionError::Skeleton`] or [`MotionError::Shape`] if the hierarchy is invalid.
pub fn guess_joints(skeleton: &Skeleton) -> Result<[Option<[usize; 2]>; JOINT_COUNT], MotionError> {
    let order = skeleton.order()?;
    Ok(ends(map_names(skeleton, &order)))
}

/// Maps a skeleton's joints by name and checks that their hierarchy is that of a body.
pub(crate) fn map(skeleton: &Skeleton, order: &[usize]) -> Result<Mapping, MotionError> {
    let mapping = map_names(skeleton, order);
    let missing: Vec<&str> = REQUIRED
        .iter()
        .filter(|&&j| mapping[j].is_none())
        .map(|&j| JOINTS[j])
        .collect();
    if !missing.is_empty() {
        return Err(MotionError::Unmapped {
            missing: missing.join(", "),
            names: excerpt(&skeleton.names),
        });
    }
    check_hierarchy(skeleton, &mapping)?;
    Ok(mapping)
}

fn map_arm(names: &Names<'_>, side: Side, arm: &mut [Option<Source>]) {
    let at = |parts: &[Part]| names.find(Some(side), parts);
    // "Shoulder" is the clavicle if the side names an upper arm, and the upper arm if it names a collar or neither.
    let has_upper_arm = names.has(side, &[Part::UpperArm]);
    let (mut collar, mut upper) = if names.has(side, &[Part::Clavicle]) && !has_upper_arm {
        (at(&[Part::Clavicle]), at(&[Part::Shoulder]))
    } else if has_upper_arm {
        (at(&[Part::Clavicle, Part::Shoulder]), at(&[Part::UpperArm]))
    } else {
        (Vec::new(), at(&[Part::Shoulder]))
    };
    let hand = names.hand(&at(&[Part::Hand]));
    let mut lower = at(&[Part::LowerArm]);
    if lower.is_empty() {
        (upper, lower) = names.halves(upper, hand.map(|h| h.anchor));
    }
    let lower = names
        .chain(&lower, hand.map(|h| h.anchor))
        .or_else(|| names.chain(&lower, None));
    let mut upper = names
        .chain(&upper, lower.map(|l| l.anchor))
        .or_else(|| names.chain(&upper, None));
    // Of two joints called shoulder, as XNALara's "shoulder 1" and "shoulder 2", the first is the clavicle.
    if collar.is_empty()
        && !has_upper_arm
        && let Some(shoulders) = upper
        && shoulders.anchor != shoulders.rotation
    {
        collar.push(shoulders.anchor);
        upper = Some(Source::single(shoulders.rotation));
    }
    let collar = names.chain(&collar, upper.map(|u| u.anchor));
    arm.copy_from_slice(&[collar, upper, lower, hand]);
}

fn map_leg(names: &Names<'_>, side: Side, leg: &mut [Option<Source>]) {
    let at = |parts: &[Part]| names.find(Some(side), parts);
    let mut upper = at(&[Part::UpperLeg]);
    let mut lower = at(&[Part::LowerLeg]);
    if upper.is_empty() {
        upper = at(&[Part::Hip]);
    }
    let legs = at(&[Part::Leg]);
    if upper.is_empty() {
        upper = legs;
    } else if lower.is_empty() {
        lower = legs;
    }
    let (foot, toes) = if names.has(side, &[Part::Ankle]) {
        (at(&[Part::Ankle]), at(&[Part::Foot, Part::Toes]))
    } else {
        (at(&[Part::Foot]), at(&[Part::Toes]))
    };
    // The shallowest joint of the forefoot carries the toes; joints below it are single toes.
    let toes = toes.first().copied().map(Source::single);
    let foot = names
        .chain(&foot, toes.map(|t| t.anchor))
        .or_else(|| names.chain(&foot, None));
    if lower.is_empty() {
        (upper, lower) = names.halves(upper, foot.map(|f| f.anchor));
    }
    let lower = names
        .chain(&lower, foot.map(|f| f.anchor))
        .or_else(|| names.chain(&lower, None));
    let upper = names
        .chain(&upper, lower.map(|l| l.anchor))
        .or_else(|| names.chain(&upper, None));
    leg.copy_from_slice(&[upper, lower, foot, toes]);
}

fn map_trunk(names: &Names<'_>, mapping: &mut Mapping) {
    let skeleton = names.skeleton;
    let limb = |first: usize| mapping[first].or(mapping[first + 1]).map(|s| s.anchor);
    let legs: Vec<usize> = LEGS
        .iter()
        .filter_map(|&l| mapping[l].map(|s| s.anchor))
        .collect();
    let arms: Vec<usize> = ARMS.iter().filter_map(|&a| limb(a)).collect();
    let all: Vec<usize> = legs.iter().chain(&arms).copied().collect();

    // The hips: the deepest joint of that name that carries legs and arms, else the joint that carries them.
    let carrier = skeleton.common_ancestor(&all);
    let hips = carrier.and_then(|top| {
        let named = names.find(None, &[Part::Hips]);
        let above = named.into_iter().rev().find(|&j| skeleton.descends(top, j));
        above.or(Some(top))
    });
    mapping[HIPS] = hips.map(Source::single);
    let Some(hips) = hips else { return };

    let neck_names = names.find(None, &[Part::Neck]);
    let head = names
        .find(None, &[Part::Head])
        .into_iter()
        .find(|&j| skeleton.descends(j, hips))
        // Without a head, the upper one of two necks is it, as in XNALara.
        .or_else(|| {
            let neck = names.chain(&neck_names, None)?;
            (neck.anchor != neck.rotation).then_some(neck.rotation)
        });
    mapping[HEAD] = head.map(Source::single);
    mapping[NECK] = names.chain(&neck_names, head);

    // The torso: the joints between the hips and the joint that carries the shoulders (and the neck).
    let Some(top) = skeleton.common_ancestor(&arms) else {
        return;
    };
    // Without names of their own, neck and head are numbered spine joints above the shoulders, as in Rigify.
    if mapping[HEAD].is_none() && mapping[NECK].is_none() {
        let carries = |j: usize| j == top || arms.iter().any(|&arm| skeleton.descends(arm, j));
        let mut above = names.find(None, &[Part::Torso]);
        above.retain(|&j| skeleton.descends(j, top) && !carries(j));
        let head = names.chain(&above, None).map(|c| c.rotation);
        let neck = names.chain(&above, head);
        if neck.is_some() {
            mapping[NECK] = neck;
            mapping[HEAD] = head.map(Source::single);
        }
    }
    // Whatever their names: "stomach" and "ribs" bend a body, too.
    let may_be_torso = |j: usize| names.meanings[j].is_none_or(|m| m.part == Part::Torso);
    let torso: Vec<usize> = skeleton
        .path(top)
        .into_iter()
        .filter(|&j| j != hips && skeleton.descends(j, hips) && may_be_torso(j))
        .collect();
    spread_torso(&torso, &mut mapping[SPINE..=UPPER_CHEST]);
}

/// Divides a chain of torso joints among spine, chest and upper chest: from below if there are fewer than three, else
/// in thirds, so that the upper chest always carries the shoulders.
fn spread_torso(chain: &[usize], out: &mut [Option<Source>]) {
    let n = chain.len();
    let mut start = 0;
    for (i, slot) in out.iter_mut().enumerate() {
        // Rounded thirds: mocopi's seven torsos become 2, 3 and 2.
        let end = if n < 3 {
            (i + 1).min(n)
        } else {
            (2 * n * (i + 1) + 3) / 6
        };
        if end > start {
            *slot = Some(Source {
                anchor: chain[start],
                rotation: chain[end - 1],
            });
            start = end;
        }
    }
}

/// Checks that every mapped joint is below its nearest mapped canonical ancestor and not the same joint.
fn check_hierarchy(skeleton: &Skeleton, mapping: &Mapping) -> Result<(), MotionError> {
    for j in 1..JOINT_COUNT {
        let Some(child) = mapping[j] else { continue };
        let Some(parent) = parent(mapping, j) else {
            continue;
        };
        if child.anchor == parent.rotation || !skeleton.descends(child.anchor, parent.rotation) {
            return Err(MotionError::Hierarchy {
                child: skeleton.names[child.anchor].clone(),
                parent: skeleton.names[parent.rotation].clone(),
            });
        }
    }
    Ok(())
}

/// The nearest mapped joint above a canonical one (not the hips).
pub(crate) fn parent(mapping: &Mapping, joint: usize) -> Option<Source> {
    let mut p = PARENTS[joint] as usize;
    while mapping[p].is_none() && p != HIPS {
        p = PARENTS[p] as usize;
    }
    mapping[p]
}

/// The first names of a skeleton, for an error message of one line.
fn excerpt(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let plain = |c: char| if c.is_control() { '?' } else { c };
    let clip = |n: &String| n.chars().take(32).map(plain).collect::<String>();
    let mut text = names.iter().take(SHOWN).map(clip).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The joints of a body, by canonical joint; `bones` are names with their parent's index.
    fn joints(bones: &[(&str, i32)]) -> impl Fn(&str) -> Option<[usize; 2]> + use<> {
        let skeleton = Skeleton {
            names: bones.iter().map(|b| b.0.to_owned()).collect(),
            parents: bones.iter().map(|b| b.1).collect(),
            offsets: vec![[0.0; 3]; bones.len()],
            rest_local: None,
        };
        let ends = guess_joints(&skeleton).expect("a hierarchy");
        move |joint| ends[JOINTS.iter().position(|&j| j == joint).expect("one of them")]
    }

    #[test]
    fn a_limb_whose_bones_are_only_numbered_is_divided() {
        let arm = [("Hub", -1), ("LArm1", 0), ("LArm2", 1), ("LArmPalm", 2)];
        let found = joints(&arm);
        assert_eq!(found("left_upper_arm"), Some([1, 1]));
        assert_eq!(found("left_lower_arm"), Some([2, 2]));
        // With twists, as mGear's.
        let leg = [
            ("leg_L0_0_jnt", -1),
            ("leg_L0_1_jnt", 0),
            ("leg_L0_2_jnt", 1),
            ("leg_L0_3_jnt", 2),
        ];
        let found = joints(&[&leg[..], &[("leg_L0_end_jnt", 3), ("foot_L0_0_jnt", 4)]].concat());
        assert_eq!(found("left_upper_leg"), Some([0, 1]));
        assert_eq!(found("left_lower_leg"), Some([2, 3]));
        assert_eq!(found("left_foot"), Some([4, 4]));
        assert_eq!(found("left_toes"), Some([5, 5]));
        // A joint of another name between them may be the knee.
        let found = joints(&[
            ("Thigh1.L", -1),
            ("Thigh2.L", 0),
            ("Unterschenkel.L", 1),
            ("Foot.L", 2),
        ]);
        assert_eq!(found("left_upper_leg"), Some([0, 1]));
        assert_eq!(found("left_lower_leg"), None);
    }

    #[test]
    fn two_shoulders_are_clavicle_and_upper_arm_and_two_necks_without_a_head_are_neck_and_head() {
        let trunk = [
            ("root hips", -1),
            ("leg left thigh", 0),
            ("leg right thigh", 0),
            ("spine upper", 0),
        ];
        let arm = [
            ("arm left shoulder 1", 3),
            ("arm left shoulder 2", 4),
            ("arm left elbow", 5),
        ];
        let other = [
            ("arm right shoulder 1", 3),
            ("arm right shoulder 2", 7),
            ("arm right elbow", 8),
        ];
        let neck = [("head neck lower", 3), ("head neck upper", 10), ("head jaw", 11)];
        let found = joints(&[&trunk[..], &arm, &other, &neck].concat());
        assert_eq!(found("left_shoulder"), Some([4, 4]));
        assert_eq!(found("left_upper_arm"), Some([5, 5]));
        assert_eq!(found("neck"), Some([10, 10]));
        assert_eq!(found("head"), Some([11, 11]));
        let found = joints(&[
            ("Collar.L", -1),
            ("Shoulder1.L", 0),
            ("Shoulder2.L", 1),
            ("Elbow.L", 2),
        ]);
        assert_eq!(found("left_upper_arm"), Some([1, 2]));
    }

    #[test]
    fn what_carries_the_arms_is_torso_whatever_its_name() {
        let found = joints(&[
            ("hips", -1),
            ("belly", 0),
            ("spine", 1),
            ("ribs", 2),
            ("UpperArm.L", 3),
            ("LowerArm.L", 4),
            ("UpperArm.R", 3),
            ("LowerArm.R", 6),
            ("UpperLeg.L", 0),
            ("UpperLeg.R", 0),
        ]);
        assert_eq!(found("spine"), Some([1, 1]));
        assert_eq!(found("chest"), Some([2, 2]));
        assert_eq!(found("upper_chest"), Some([3, 3]));
    }

    #[test]
    fn a_foot_beside_the_body_is_a_handle() {
        let body = [
            ("Bone", -1),
            ("Body", 0),
            ("UpperLeg.L", 1),
            ("LowerLeg.L", 2),
            ("UpperLeg.R", 1),
            ("LowerLeg.R", 4),
        ];
        let arms = [
            ("UpperArm.L", 1),
            ("LowerArm.L", 6),
            ("UpperArm.R", 1),
            ("LowerArm.R", 8),
        ];
        let with = |parent| joints(&[&body[..], &arms, &[("Foot.L", parent), ("Foot.R", 5)]].concat());
        assert_eq!(with(0)("left_foot"), None);
        assert_eq!(with(0)("right_foot"), Some([11, 11]));
        assert_eq!(with(3)("left_foot"), Some([10, 10]));
    }
}
