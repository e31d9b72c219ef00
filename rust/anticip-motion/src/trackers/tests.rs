use super::*;
use crate::vector::angle;
use anticip_wire::Tracker;

/// A performer who faces `yaw` with hanging arms, as trackers on these joints, all worn at an odd angle; `moved`:
/// offsets.
fn standing(yaw: f64, moved: &[(&str, Vector)]) -> TrackerUpdate {
    let heading = Quat::from_axis_angle(UP, yaw);
    let worn = Quat::from_axis_angle([0.6, 0.0, 0.8], 1.1);
    let positions = [
        ("Hips", [0.0, 0.95, 0.0]),
        ("Head", [0.0, 1.56, 0.0]),
        ("L_Hand", [0.16, 0.9, 0.0]),
        ("RightHand", [-0.16, 0.9, 0.0]),
        ("foot.L", [0.09, 0.08, 0.0]),
        ("foot.R", [-0.09, 0.08, 0.0]),
        ("wand", [3.0, 1.0, 0.0]),
    ];
    let tracker = |(name, position): (&str, Vector)| {
        let offset = moved.iter().find(|(other, _)| *other == name);
        let position = add(position, offset.map_or([0.0; 3], |(_, by)| *by));
        Tracker {
            name: name.to_owned(),
            rotation: Some((heading * worn).to_array().map(|v| v as f32)),
            position: Some(heading.rotate(position).map(|v| v as f32)),
        }
    };
    TrackerUpdate {
        trackers: positions.map(tracker).to_vec(),
        ..TrackerUpdate::default()
    }
}

/// World rotations after the frames; joints without a measurement have that of their parent.
fn world(frames: &[TrackerUpdate]) -> [Quat; JOINT_COUNT] {
    let mut trackers = Trackers::default();
    for frame in frames {
        trackers.solve(frame).expect("a body");
    }
    let mut found = [Quat::IDENTITY; JOINT_COUNT];
    for joint in 0..JOINT_COUNT {
        let parent = usize::try_from(PARENTS[joint]).map_or(Quat::IDENTITY, |parent| found[parent]);
        let local = trackers.pose.joint(joint as u16);
        let local = local.map_or(Quat::IDENTITY, |j| Quat::from_array(j.rotation.map(f64::from)));
        found[joint] = parent * local;
    }
    found
}

fn bone(world: &[Quat; JOINT_COUNT], joint: &str) -> Vector {
    let joint = JOINTS.iter().position(|name| *name == joint).unwrap();
    world[joint].rotate(OFFSETS[joint + 1])
}

#[test]
fn names_of_any_family_are_parts_of_the_body() {
    let of = |name| joint(name).map(|joint| JOINTS[joint]);
    for (name, expected) in [
        ("hips", "hips"),
        ("Waist", "hips"),
        ("Chest", "upper_chest"),
        ("HEAD", "head"),
        ("Left_Hand", "left_hand"),
        ("RightWrist", "right_hand"),
        ("l_ankle", "left_foot"),
        ("RightElbow", "right_lower_arm"),
        ("Left Knee", "left_lower_leg"),
        ("thigh_r", "right_upper_leg"),
    ] {
        assert_eq!(of(name), Some(expected), "{name}");
    }
    assert_eq!((of("wand"), of("hand"), of("Rigid Body 1")), (None, None, None));
}

#[test]
fn who_stands_with_hanging_arms_has_hanging_arms_whichever_way_she_faces() {
    for yaw in [0.0, 2.0, -1.2] {
        let frames = [standing(yaw, &[]), standing(yaw, &[])];
        let found = world(&frames);
        assert!(found[HIPS].angle_to(Quat::IDENTITY) < 1e-3, "{yaw}");
        for side in ["left", "right"] {
            for joint in ["upper_arm", "lower_arm", "upper_leg", "lower_leg"] {
                let down = bone(&found, &format!("{side}_{joint}"));
                assert!(down[1] < -0.97 * length(down), "{yaw} {side} {joint} {down:?}");
            }
        }
        // A hand is aligned with its arm, whichever way its tracker is worn.
        for side in 0..2 {
            let [hand, forearm] = [found[ARMS[side] + 3], found[ARMS[side] + 2]];
            assert!(hand.angle_to(forearm) < 1e-3);
        }
    }
}

#[test]
fn who_is_seen_in_parts_at_first_is_turned_ahead_once_both_sides_are_seen() {
    let whole = standing(2.0, &[]);
    let mut part = whole.clone();
    for tracker in &mut part.trackers[3..] {
        (tracker.rotation, tracker.position) = (None, None);
    }
    let lift = [("L_Hand", [0.02, 0.35, 0.32])];
    let (late, whole) = (
        [part, whole.clone(), standing(2.0, &lift)],
        [whole, standing(2.0, &lift)],
    );
    let (late, expected) = (world(&late), world(&whole));
    assert!(late.iter().zip(expected).all(|(a, b)| a.angle_to(b) < 1e-6));
}

#[test]
fn arms_that_are_spread_at_first_tell_their_length_and_their_shoulder() {
    // Shorter arms and lower shoulders than usual: spread in the T-pose, then hanging.
    let hands = |x: f64, y: f64| {
        let by = [x - 0.16, y - 0.9, 0.0];
        [("L_Hand", by), ("RightHand", [-by[0], by[1], 0.0])]
    };
    let found = world(&[
        standing(0.4, &hands(0.16 + 0.4, 1.3)),
        standing(0.4, &hands(0.16, 1.3 - 0.4)),
    ]);
    for side in ["left", "right"] {
        let bones = ["upper_arm", "lower_arm"].map(|part| bone(&found, &format!("{side}_{part}")));
        for bone in bones {
            assert!(bone[1] < -0.99 * length(bone), "{side} {bone:?}");
        }
    }
    // A hand in the T-pose is at rest.
    let spread = world(&[standing(0.4, &hands(0.56, 1.3))]);
    assert!(
        ARMS.iter()
            .all(|arm| spread[arm + 3].angle_to(Quat::IDENTITY) < 1e-6)
    );
}

#[test]
fn arms_begun_hanging_or_spread_are_the_same_arms_by_what_is_worn_on_them() {
    let about = |angle: f64| Quat::from_axis_angle([0.0, 0.0, 1.0], angle);
    // Arms lowered by `down` radians, as trackers on these parts.
    let update = |down: f64, parts: &[&str], with_positions: bool| {
        let mut update = standing(0.7, &[]);
        update
            .trackers
            .retain(|t| !["L_Hand", "RightHand"].contains(&t.name.as_str()));
        for (side, left) in [("Left", 1.0), ("Right", -1.0)] {
            for part in parts {
                let reach = if *part == "Elbow" { 0.4 } else { 0.22 };
                let position = [left * (0.16 + reach * down.cos()), 1.42 - reach * down.sin(), 0.0];
                let room = Quat::from_axis_angle(UP, 0.7);
                let turn = room * about(-left * down) * Quat::from_axis_angle([0.6, 0.8, 0.0], left);
                update.trackers.push(Tracker {
                    name: format!("{side}{part}"),
                    rotation: Some(turn.to_array().map(|v| v as f32)),
                    position: with_positions.then(|| room.rotate(position).map(|v| v as f32)),
                });
            }
        }
        update
    };
    let hanging = std::f64::consts::FRAC_PI_2;
    // Without positions the arms count as hanging.
    for (parts, with_positions, starts) in [
        (&["UpperArm"][..], true, &[0.0, hanging][..]),
        (&["UpperArm", "Elbow"], true, &[0.0, hanging]),
        (&["UpperArm", "Elbow", "Wrist"], false, &[hanging]),
    ] {
        for (first, now) in starts
            .iter()
            .flat_map(|f| [0.0, 0.6, hanging].map(|now| (*f, now)))
        {
            let found = world(&[
                update(first, parts, with_positions),
                update(now, parts, with_positions),
            ]);
            for (side, left) in [(0, 1.0), (1, -1.0)] {
                for below in 1..=parts.len() {
                    let off = found[ARMS[side] + below].angle_to(about(-left * now));
                    assert!(off < 1e-3, "{parts:?} {first} {now} {side} {below} {off}");
                }
            }
        }
    }
}

#[test]
fn a_hand_that_is_lifted_bends_the_elbow_and_lies_where_it_is() {
    let lift = [("L_Hand", [0.02, 0.35, 0.32])];
    let found = world(&[standing(0.7, &[]), standing(0.7, &lift)]);
    let (upper, lower) = (bone(&found, "left_upper_arm"), bone(&found, "left_lower_arm"));
    let shoulder = [0.16, 0.95 + 0.37 + 0.1, 0.0];
    let wrist = add(shoulder, add(upper, lower));
    let expected = [0.18, 1.25, 0.32];
    let off = minus(wrist, expected);
    assert!(length(off) < 0.02, "{wrist:?}");
    // The elbow is behind and below, the forearm points forward.
    assert!(
        upper[1] < -0.1 && upper[2] < lower[2] && lower[2] > 0.15,
        "{upper:?} {lower:?}"
    );
    assert!(bone(&found, "right_upper_arm")[1] < -0.25);
}

#[test]
fn who_bows_takes_the_shoulders_along() {
    // Head forward and lower, hands below the shoulders.
    let bow = [
        ("Head", [0.0, -0.12, 0.36]),
        ("L_Hand", [0.0, -0.12, 0.27]),
        ("RightHand", [0.0, -0.12, 0.27]),
    ];
    let found = world(&[standing(0.0, &[]), standing(0.0, &bow)]);
    for side in ["left", "right"] {
        let down = bone(&found, &format!("{side}_upper_arm"));
        assert!(down[2].abs() < 0.15 && down[1] < -0.2, "{side} {down:?}");
    }
}

#[test]
fn the_torso_puts_the_head_where_it_is_seen_from_the_hips() {
    let bow = [("Head", [0.0, -0.12, 0.36])];
    let found = world(&[standing(0.0, &[]), standing(0.0, &bow)]);
    let head = (SPINE..=HEAD).map(|joint| found[joint - 1].rotate(OFFSETS[joint]));
    let head = head.reduce(add).unwrap();
    let above = OFFSETS[SPINE..=HEAD].iter().copied().reduce(add).unwrap();
    let expected = Quat::from_two_vectors([0.0, 0.61, 0.0], [0.0, 0.49, 0.36]).rotate(above);
    let above_spine = |position| minus(position, OFFSETS[SPINE]);
    assert!(
        angle(above_spine(head), above_spine(expected)) < 1e-3,
        "{head:?} {expected:?}"
    );
}

#[test]
fn what_is_told_is_measured_and_not_placed() {
    let bits = |joints: &[usize]| joints.iter().fold(0_u32, |bits, j| bits | 1 << j);
    let mut trackers = Trackers::default();
    let six = standing(0.0, &[]);
    let (_, position_only) = trackers.solve(&six).unwrap();
    assert_eq!(position_only, bits(&[1, 2, 3, 4, 7, 8, 11, 12, 14, 15, 18, 19]));
    // With one more tracker on the chest and one on the left upper arm.
    let mut more = six.clone();
    let turn = Quat::from_axis_angle([0.0, 0.0, 1.0], 0.3);
    for (name, turn) in [("Chest", Quat::IDENTITY), ("Chest", turn)] {
        more.trackers.truncate(six.trackers.len());
        for name in [name, "LeftUpperArm"] {
            more.trackers.push(Tracker {
                name: name.to_owned(),
                rotation: Some(turn.to_array().map(|v| v as f32)),
                position: None,
            });
        }
        let (pose, position_only) = trackers.solve(&more).unwrap();
        assert_eq!(position_only, bits(&[1, 2, 4, 11, 12, 14, 15, 18, 19]));
        assert_eq!(pose.joints.len(), 6 + 4 + 8);
    }
    // The torso follows the chest's tracker, not the head's.
    assert!(trackers.world[SPINE].unwrap().angle_to(turn) < 1e-3);
}

#[test]
fn hands_that_lie_far_off_at_first_do_not_tear_the_shoulders_off() {
    let mut trackers = Trackers::default();
    let hands = [("L_Hand", [1.4, -0.1, 0.0]), ("RightHand", [-1.4, -0.1, 0.0])];
    trackers.solve(&standing(0.0, &hands)).unwrap();
    assert_eq!(trackers.raised, [-MAX_RAISED; 2]);
}

#[test]
fn what_is_lost_is_not_measured_and_nobody_is_no_frame() {
    let mut trackers = Trackers::default();
    let whole = standing(0.0, &[]);
    let of = |pose: &PoseUpdate| {
        pose.joints
            .iter()
            .map(|j| JOINTS[j.id as usize])
            .collect::<Vec<_>>()
    };
    assert_eq!(of(trackers.solve(&whole).unwrap().0).len(), 6 + 8 + 4);
    let mut partial = whole.clone();
    for lost in [2, 4] {
        partial.trackers[lost] = Tracker {
            name: partial.trackers[lost].name.clone(),
            ..Tracker::default()
        };
    }
    let found = of(trackers.solve(&partial).unwrap().0);
    assert_eq!(found.len(), 4 + 4 + 4);
    assert!(found.iter().all(|joint| !joint.starts_with("left")), "{found:?}");
    for tracker in &mut partial.trackers {
        tracker.rotation = None;
    }
    assert!(trackers.solve(&partial).is_none());
}
