//! The same motion on different skeletons is the same canonical motion, and every inverse mapping returns it.

use anticip_geometry::Quat;
use anticip_motion::canonical::{self, JOINT_COUNT, JOINTS};
use anticip_motion::{Distributor, MotionError, Retargeter, Skeleton, standard, t_pose_deviation};
use proptest::prelude::*;

/// Joints of a body whose torso is one joint.
const CHEST_ONLY: &str = "Hips, Chest, Neck, Head, LeftCollar, LeftShoulder, LeftElbow, LeftWrist, RightCollar, RightShoulder, RightElbow, RightWrist, LeftHip, LeftKnee, LeftAnkle, RightHip, RightKnee, RightAnkle, LeftToe";
const DEGREES: f64 = std::f64::consts::PI / 180.0;

/// A skeleton from (name, parent, offset).
fn skeleton(bones: &[(&str, i32, [f64; 3])]) -> Skeleton {
    Skeleton {
        names: bones.iter().map(|b| b.0.to_owned()).collect(),
        parents: bones.iter().map(|b| b.1).collect(),
        offsets: bones.iter().map(|b| b.2).collect(),
        rest_local: None,
    }
}

/// A Mixamo-like body whose zero pose has the arms `down` degrees below horizontal and the legs `apart` degrees apart.
fn mixamo(down: f64, apart: f64) -> Skeleton {
    let (s, c) = (down * DEGREES).sin_cos();
    let arm = |x: f64, l: f64| [x * l * c, -l * s, 0.0];
    let (t, u) = (apart * DEGREES).sin_cos();
    let leg = |x: f64| [x * 0.4 * t, -0.4 * u, 0.0];
    skeleton(&[
        ("mixamorig:Hips", -1, [0.0; 3]),
        ("mixamorig:Spine", 0, [0.0, 0.1, 0.0]),
        ("mixamorig:Spine1", 1, [0.0, 0.1, 0.0]),
        ("mixamorig:Spine2", 2, [0.0, 0.1, 0.0]),
        ("mixamorig:Neck", 3, [0.0, 0.15, 0.0]),
        ("mixamorig:Head", 4, [0.0, 0.1, 0.0]),
        ("mixamorig:HeadTop_End", 5, [0.0, 0.2, 0.0]),
        ("mixamorig:LeftShoulder", 3, [0.05, 0.1, 0.0]),
        ("mixamorig:LeftArm", 7, [0.12, 0.0, 0.0]),
        ("mixamorig:LeftForeArm", 8, arm(1.0, 0.27)),
        ("mixamorig:LeftHand", 9, arm(1.0, 0.25)),
        ("mixamorig:LeftHandThumb1", 10, [0.02, 0.0, 0.03]),
        ("mixamorig:LeftHandMiddle1", 10, arm(1.0, 0.09)),
        ("mixamorig:RightShoulder", 3, [-0.05, 0.1, 0.0]),
        ("mixamorig:RightArm", 13, [-0.12, 0.0, 0.0]),
        ("mixamorig:RightForeArm", 14, arm(-1.0, 0.27)),
        ("mixamorig:RightHand", 15, arm(-1.0, 0.25)),
        ("mixamorig:LeftUpLeg", 0, [0.09, -0.05, 0.0]),
        ("mixamorig:LeftLeg", 17, leg(1.0)),
        ("mixamorig:LeftFoot", 18, leg(1.0)),
        ("mixamorig:LeftToeBase", 19, [0.0, -0.07, 0.13]),
        ("mixamorig:RightUpLeg", 0, [-0.09, -0.05, 0.0]),
        ("mixamorig:RightLeg", 21, leg(-1.0)),
        ("mixamorig:RightFoot", 22, leg(-1.0)),
        ("mixamorig:RightToeBase", 23, [0.0, -0.07, 0.13]),
    ])
}

/// The same body with every offset and the world rotated by `turn`.
fn turned(mut skeleton: Skeleton, turn: Quat) -> Skeleton {
    for offset in &mut skeleton.offsets {
        *offset = turn.rotate(*offset);
    }
    skeleton
}

/// A body with the 19 names of a list, for naming schemes whose torso has other counts.
fn family(names: &str) -> Skeleton {
    const LAYOUT: [(i32, [f64; 3]); 19] = [
        (-1, [0.0; 3]),
        (0, [0.0, 0.3, 0.0]),
        (1, [0.0, 0.2, 0.0]),
        (2, [0.0, 0.1, 0.0]),
        (1, [0.05, 0.15, 0.0]),
        (4, [0.1, 0.0, 0.0]),
        (5, [0.3, 0.0, 0.0]),
        (6, [0.25, 0.0, 0.0]),
        (1, [-0.05, 0.15, 0.0]),
        (8, [-0.1, 0.0, 0.0]),
        (9, [-0.3, 0.0, 0.0]),
        (10, [-0.25, 0.0, 0.0]),
        (0, [0.1, 0.0, 0.0]),
        (12, [0.0, -0.4, 0.0]),
        (13, [0.0, -0.4, 0.0]),
        (0, [-0.1, 0.0, 0.0]),
        (15, [0.0, -0.4, 0.0]),
        (16, [0.0, -0.4, 0.0]),
        (14, [0.0, -0.05, 0.12]),
    ];
    let bones: Vec<_> = std::iter::zip(names.split(", "), LAYOUT)
        .map(|(name, (parent, offset))| (name, parent, offset))
        .collect();
    assert_eq!(bones.len(), LAYOUT.len());
    skeleton(&bones)
}

fn unit() -> impl Strategy<Value = Quat> {
    prop::array::uniform4(-1.0..1.0f64).prop_filter_map("no direction", |a| {
        let q = Quat::from_array(a);
        (q.norm() > 0.1).then(|| q.normalize())
    })
}

fn pose() -> impl Strategy<Value = [Quat; JOINT_COUNT]> {
    prop::collection::vec(unit(), JOINT_COUNT).prop_map(|v| std::array::from_fn(|j| v[j]))
}

/// Index of a joint.
fn find(body: &Skeleton, name: &str) -> usize {
    body.names.iter().position(|n| n == name).expect("there")
}

/// Largest angle between two canonical poses.
fn apart(a: &[Quat; JOINT_COUNT], b: &[Quat; JOINT_COUNT]) -> f64 {
    a.iter().zip(b).map(|(p, q)| p.angle_to(*q)).fold(0.0, f64::max)
}

/// The canonical pose of these local rotations.
fn retargeted(body: &Skeleton, local: &[Quat]) -> [Quat; JOINT_COUNT] {
    let mut out = [Quat::IDENTITY; JOINT_COUNT];
    Retargeter::compile(body)
        .expect("maps")
        .apply(local, [0.0; 3], &mut out);
    out
}

/// The canonical pose of a body's zero pose.
fn at_zero(body: &Skeleton) -> [Quat; JOINT_COUNT] {
    retargeted(body, &vec![Quat::IDENTITY; body.names.len()])
}

fn there_and_back(
    body: &Skeleton,
    canonical: &[Quat; JOINT_COUNT],
    hips: [f64; 3],
) -> ([Quat; JOINT_COUNT], [f64; 3]) {
    let distributor = Distributor::compile(body).expect("maps");
    let mut retargeter = Retargeter::compile(body).expect("maps");
    let mut local = vec![Quat::IDENTITY; distributor.joints()];
    let root = distributor.apply(canonical, hips, &mut local);
    let mut out = [Quat::IDENTITY; JOINT_COUNT];
    let back = retargeter.apply(&local, root, &mut out);
    (out, back)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Canonical -> source -> canonical is the identity on every body with all 22 joints, whatever its zero pose.
    #[test]
    fn every_way_back_returns(canonical in pose(), hips in prop::array::uniform3(-3.0..3.0f64)) {
        let bodies = [
            standard::mocopi(),
            standard::vmc(),
            standard::canonical(),
            mixamo(0.0, 0.0),
            mixamo(45.0, 10.0),
            mixamo(90.0, 20.0),
            turned(mixamo(45.0, 10.0), Quat::from_axis_angle([1.0, 0.0, 0.0], 90.0 * DEGREES)),
            turned(mixamo(30.0, 0.0), Quat::from_axis_angle([0.0, 1.0, 0.0], 77.0 * DEGREES)),
        ];
        for body in &bodies {
            let (out, back) = there_and_back(body, &canonical, hips);
            prop_assert!(apart(&out, &canonical) < 1e-6, "{}", body.names[0]);
            for i in 0..3 {
                prop_assert!((back[i] - hips[i]).abs() < 1e-9);
            }
        }
    }

    /// The signs of a source's quaternions do not matter: q and -q are one rotation.
    #[test]
    fn signs_do_not_matter(canonical in pose(), flips in any::<u64>()) {
        let body = standard::mocopi();
        let distributor = Distributor::compile(&body).expect("maps");
        let mut local = vec![Quat::IDENTITY; 27];
        distributor.apply(&canonical, [0.0; 3], &mut local);
        let plain = retargeted(&body, &local);
        for (j, q) in local.iter_mut().enumerate() {
            if flips >> j & 1 == 1 {
                *q = -*q;
            }
        }
        prop_assert_eq!(plain, retargeted(&body, &local));
    }
}

/// The same movement of the same bones in the world gives the same canonical frames, whatever the zero pose.
#[test]
fn an_a_pose_zero_pose_gives_what_a_t_pose_gives() {
    // Both arms forward, from a T-pose body and from bodies whose zero pose has the arms lowered.
    let mut results = Vec::new();
    for down in [0.0, 45.0, 80.0] {
        let body = mixamo(down, 0.0);
        let mut local = vec![Quat::IDENTITY; body.names.len()];
        for (name, x) in [("mixamorig:LeftArm", 1.0), ("mixamorig:RightArm", -1.0)] {
            // Up to the T-pose about the forward axis, then forward about the vertical.
            let lift = Quat::from_axis_angle([0.0, 0.0, 1.0], x * down * DEGREES);
            let swing = Quat::from_axis_angle([0.0, 1.0, 0.0], -x * 90.0 * DEGREES);
            local[find(&body, name)] = swing * lift;
        }
        results.push(retargeted(&body, &local));
    }
    for other in &results[1..] {
        assert!(apart(&results[0], other) < 1e-9);
    }
    let expected = Quat::from_axis_angle([0.0, 1.0, 0.0], -90.0 * DEGREES);
    assert!(results[0][7].angle_to(expected) < 1e-9);
}

#[test]
fn standing_in_t_pose_is_the_identity_whatever_the_convention() {
    for turn in [
        Quat::IDENTITY,
        Quat::from_axis_angle([1.0, 0.0, 0.0], 90.0 * DEGREES),
        Quat::from_axis_angle([0.0, 1.0, 0.0], 180.0 * DEGREES),
        Quat::from_axis_angle([1.0, 1.0, 1.0], 120.0 * DEGREES),
        Quat::from_axis_angle([0.0, 1.0, 0.0], 50.0 * DEGREES),
    ] {
        let body = turned(mixamo(0.0, 0.0), turn);
        let mut retargeter = Retargeter::compile(&body).expect("maps");
        let local = vec![Quat::IDENTITY; body.names.len()];
        let mut out = [Quat::IDENTITY; JOINT_COUNT];
        let up = turn.rotate([0.0, 1.0, 0.0]);
        let hips = retargeter.apply(&local, up, &mut out);
        assert!(apart(&out, &[Quat::IDENTITY; JOINT_COUNT]) < 1e-9, "{turn:?}");
        // A metre up in the source's world is a metre up in the canonical one.
        assert!((hips[1] - 1.0).abs() < 1e-9, "{hips:?}");
    }
}

#[test]
fn bent_limbs_of_a_rest_pose_show_their_hinges() {
    // Arms hanging with the elbows bent forward by 60 degrees, palms in.
    let mut body = mixamo(90.0, 0.0);
    for name in ["mixamorig:LeftHand", "mixamorig:RightHand"] {
        let hand = find(&body, name);
        let (s, c) = (60.0 * DEGREES).sin_cos();
        body.offsets[hand] = [0.0, -0.25 * c, 0.25 * s];
    }
    let out = at_zero(&body);
    // The zero pose on the canonical body: only the elbow is bent, about the vertical of the T-pose.
    let elbow = Quat::from_axis_angle([0.0, 1.0, 0.0], -60.0 * DEGREES);
    assert!(out[8].angle_to(elbow) < 1e-9, "{:?}", out[8]);
    assert!(out[12].angle_to(elbow.conj()) < 1e-9, "{:?}", out[12]);
}

#[test]
fn who_rests_crouching_has_knees_that_bend_backward() {
    // Thighs raised forward by 40 degrees, shins back by as much.
    let mut body = mixamo(0.0, 0.0);
    let (s, c) = (40.0 * DEGREES).sin_cos();
    for (name, ahead) in [("Leg", s), ("Foot", -s)] {
        for side in ["Left", "Right"] {
            let at = find(&body, &format!("mixamorig:{side}{name}"));
            body.offsets[at] = [0.0, -0.4 * c, 0.4 * ahead];
        }
    }
    let out = at_zero(&body);
    let about_x = |degrees: f64| Quat::from_axis_angle([1.0, 0.0, 0.0], degrees * DEGREES);
    for thigh in [14, 18] {
        assert!(out[thigh].angle_to(about_x(-40.0)) < 1e-9, "{:?}", out[thigh]);
        assert!(
            out[thigh + 1].angle_to(about_x(80.0)) < 1e-9,
            "{:?}",
            out[thigh + 1]
        );
    }
}

#[test]
fn a_bone_of_the_ankles_height_says_nothing_of_where_the_foot_points() {
    for (long, turns) in [(0.04, false), (0.14, true)] {
        let mut body = mixamo(0.0, 0.0);
        for toes in [20, 24] {
            body.offsets[toes] = [0.0, -long, 0.0];
        }
        let out = at_zero(&body);
        for foot in [16, 20] {
            assert_eq!(out[foot].angle_to(Quat::IDENTITY) > 1.0, turns, "{:?}", out[foot]);
        }
    }
}

#[test]
fn hips_that_lie_off_the_root_turn_with_it() {
    let mut body = mixamo(0.0, 0.0);
    body.names.insert(0, "Armature".to_owned());
    body.offsets.insert(0, [0.0; 3]);
    body.offsets[1] = [0.0, 0.9, 0.3];
    body.parents.iter_mut().for_each(|parent| *parent += 1);
    body.parents.insert(0, -1);
    let mut retargeter = Retargeter::compile(&body).expect("maps");
    let mut local = vec![Quat::IDENTITY; body.names.len()];
    let mut out = [Quat::IDENTITY; JOINT_COUNT];
    for (degrees, [x, z]) in [(0.0, [0.0, 0.3]), (90.0, [0.3, 0.0]), (180.0, [0.0, -0.3])] {
        local[0] = Quat::from_axis_angle([0.0, 1.0, 0.0], degrees * DEGREES);
        let hips = retargeter.apply(&local, [1.0, 0.1, 2.0], &mut out);
        for (found, expected) in hips.into_iter().zip([1.0 + x, 1.0, 2.0 + z]) {
            assert!((found - expected).abs() < 1e-9, "{degrees}: {hips:?}");
        }
        assert!(out[0].angle_to(local[0]) < 1e-9);
    }
}

#[test]
fn the_families_map_as_they_should() {
    let sources = |body: &Skeleton| -> Vec<Vec<String>> {
        let r = Retargeter::compile(body).expect("maps");
        let name = |&j: &usize| r.names()[j].clone();
        r.sources().iter().map(|c| c.iter().map(name).collect()).collect()
    };
    let mocopi = sources(&standard::mocopi());
    assert_eq!(mocopi[1], ["torso_1", "torso_2"]);
    assert_eq!(mocopi[2], ["torso_3", "torso_4", "torso_5"]);
    assert_eq!(mocopi[3], ["torso_6", "torso_7"]);
    assert_eq!(mocopi[4], ["neck_1", "neck_2"]);
    for body in [
        family(CHEST_ONLY),
        family(
            "hip, abdomen, neck, head, lCollar, lShldr, lForeArm, lHand, rCollar, rShldr, rForeArm, rHand, lThigh, lShin, lFoot, rThigh, rShin, rFoot, lToe",
        ),
        family(
            "pelvis, spine1, neck, head, left_collar, left_shoulder, left_elbow, left_wrist, right_collar, right_shoulder, right_elbow, right_wrist, left_hip, left_knee, left_ankle, right_hip, right_knee, right_ankle, left_foot",
        ),
        family(
            "root, lowerback, upperneck, head, lclavicle, lhumerus, lradius, lhand, rclavicle, rhumerus, rradius, rhand, lfemur, ltibia, lfoot, rfemur, rtibia, rfoot, ltoes",
        ),
        family(
            "Bip01 Pelvis, Bip01 Spine, Bip01 Neck, Bip01 Head, Bip01 L Clavicle, Bip01 L UpperArm, Bip01 L Forearm, Bip01 L Hand, Bip01 R Clavicle, Bip01 R UpperArm, Bip01 R Forearm, Bip01 R Hand, Bip01 L Thigh, Bip01 L Calf, Bip01 L Foot, Bip01 R Thigh, Bip01 R Calf, Bip01 R Foot, Bip01 L Toe0",
        ),
    ] {
        let mapped = sources(&body);
        let names = &body.names;
        assert_eq!(mapped[0], [names[0].clone()]);
        assert_eq!(mapped[1], [names[1].clone()]);
        assert!(mapped[2].is_empty() && mapped[3].is_empty());
        for (j, source) in [
            (4, 2),
            (5, 3),
            (6, 4),
            (7, 5),
            (8, 6),
            (9, 7),
            (14, 12),
            (16, 14),
            (17, 18),
            (20, 17),
        ] {
            assert_eq!(mapped[j], [names[source].clone()], "{}", JOINTS[j]);
        }
    }
}

#[test]
fn what_hangs_on_a_hand_is_not_the_hand() {
    let mapped = |bones: &[(&str, [f64; 3])]| {
        let mut body = mixamo(0.0, 0.0);
        for &(name, offset) in bones {
            let hand = body
                .names
                .iter()
                .rposition(|n| n.contains("Hand"))
                .expect("has one");
            body.names.push(name.to_owned());
            body.parents.push(hand as i32);
            body.offsets.push(offset);
        }
        Retargeter::compile(&body).expect("maps")
    };
    let bare = mapped(&[]);
    for name in [
        "Prop_RightHand",
        "weapon_hand_r",
        "MCH-hand.R",
        "Glove:RightHand",
        "mixamorig:RightHand_2",
        "mixamorig:RightWrist",
        "Sword",
    ] {
        let armed = mapped(&[(name, [0.0, 0.05, 0.3])]);
        assert_eq!(armed.source_ends(), bare.source_ends(), "{name}");
        let hand = |r: &Retargeter| r.t_pose()[13].expect("mapped");
        assert!(hand(&armed).angle_to(hand(&bare)) < 1e-12, "{name}");
    }
    // A hand that is divided counts as a whole, and its fingers show its direction.
    let divided = mapped(&[("mixamorig:RightFingerBase", [-0.05, 0.0, 0.0])]);
    assert_eq!(divided.source_ends()[13], Some([16, 25]));
    let across = mapped(&[("mixamorig:RightHandMiddle1", [0.0, 0.0, 0.1])]);
    assert!(
        across.t_pose()[13]
            .expect("mapped")
            .angle_to(bare.t_pose()[13].expect("mapped"))
            > 1.0
    );
}

#[test]
fn a_spine_numbered_on_beyond_the_shoulders_is_neck_and_head() {
    let rigify = |head: &str| {
        family(&format!(
            "spine, spine.001, spine.004, {head}, shoulder.L, upper_arm.L, forearm.L, hand.L, shoulder.R, upper_arm.R, forearm.R, hand.R, thigh.L, shin.L, foot.L, thigh.R, shin.R, foot.R, toe.L"
        ))
    };
    let ends = |head: &str| *Retargeter::compile(&rigify(head)).expect("maps").source_ends();
    assert_eq!(ends("spine.006")[4..6], [Some([2, 2]), Some([3, 3])]);
    assert_eq!(ends("head")[4..6], [None, Some([3, 3])]);
    assert_eq!(ends("jaw")[4..6], [None, None]);
}

#[test]
fn joints_between_are_composed_and_absent_ones_are_masked() {
    let body = family(CHEST_ONLY);
    let retargeter = Retargeter::compile(&body).expect("maps");
    let absent: Vec<&str> = (0..22)
        .filter(|&j| !retargeter.mask()[j])
        .map(|j| JOINTS[j])
        .collect();
    assert_eq!(absent, ["chest", "upper_chest", "right_toes"]);
    // A collapsed chain: mocopi's torsos, each bent by 5 degrees, add up.
    let mocopi = standard::mocopi();
    let mut local = vec![Quat::IDENTITY; 27];
    for q in &mut local[1..=7] {
        *q = Quat::from_axis_angle([1.0, 0.0, 0.0], 5.0 * DEGREES);
    }
    let out = retargeted(&mocopi, &local);
    for (j, degrees) in [(1, 10.0), (2, 15.0), (3, 10.0)] {
        let expected = Quat::from_axis_angle([1.0, 0.0, 0.0], degrees * DEGREES);
        assert!(out[j].angle_to(expected) < 1e-12);
    }
    let local = vec![Quat::from_axis_angle([0.0, 1.0, 0.0], 0.3); body.names.len()];
    assert_eq!(retargeted(&body, &local)[2], Quat::IDENTITY);
}

#[test]
fn what_is_no_body_is_refused_with_what_was_missing() {
    let chair = skeleton(&[("seat", -1, [0.0; 3]), ("LeftLeg", 0, [0.1, -0.4, 0.0])]);
    let error = Retargeter::compile(&chair).expect_err("no body").to_string();
    assert!(
        error.contains("left_upper_arm") && error.contains("seat"),
        "{error}"
    );

    let error = |spoil: fn(&mut Skeleton)| {
        let mut body = standard::canonical();
        spoil(&mut body);
        Retargeter::compile(&body).expect_err("no body")
    };
    let crossed = error(|body| body.parents[9] = 0); // a hand on the hips
    assert!(matches!(crossed, MotionError::Hierarchy { .. }));
    let cyclic = error(|body| body.parents[0] = 5);
    assert!(matches!(cyclic, MotionError::Skeleton(_)));
    let short = error(|body| body.offsets.truncate(21));
    assert!(matches!(short, MotionError::Shape { .. }));
    let broken = error(|body| body.offsets[3] = [f64::NAN; 3]);
    assert!(matches!(broken, MotionError::Skeleton(_)));
}

#[test]
fn a_skeleton_without_offsets_is_taken_as_a_t_pose() {
    let mut body = standard::canonical();
    body.offsets = vec![[0.0; 3]; JOINT_COUNT];
    let local = [Quat::from_axis_angle([0.0, 0.0, 1.0], 0.2); JOINT_COUNT];
    assert!(apart(&retargeted(&body, &local), &local) < 1e-12);
}

#[test]
fn t_poses_are_told_from_other_poses() {
    for (down, t_pose) in [(0.0, true), (20.0, true), (45.0, false), (90.0, false)] {
        let deviation = t_pose_deviation(&mixamo(down, 0.0)).expect("maps");
        assert!((deviation - down * DEGREES).abs() < 0.05, "{deviation}");
        assert_eq!(deviation < anticip_motion::T_POSE_TOLERANCE, t_pose);
    }
    // The order of joints in the arrays does not matter.
    let body = standard::canonical();
    let n = body.names.len();
    let reversed = Skeleton {
        names: body.names.iter().rev().cloned().collect(),
        parents: body
            .parents
            .iter()
            .rev()
            .map(|&p| if p < 0 { -1 } else { n as i32 - 1 - p })
            .collect(),
        offsets: body.offsets.iter().rev().copied().collect(),
        rest_local: None,
    };
    assert_eq!(canonical::JOINTS[0], reversed.names[n - 1]);
    assert!(t_pose_deviation(&reversed).expect("maps") < 1e-9);
}
