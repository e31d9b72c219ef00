use super::*;

fn mask(joints: &[usize]) -> [bool; JOINT_COUNT] {
    std::array::from_fn(|j| joints.contains(&j))
}

fn frame(t: f64) -> [Quat; JOINT_COUNT] {
    std::array::from_fn(|j| Quat::from_axis_angle([0.2, 1.0, 0.1 * j as f64], 0.7 * (t + j as f64).sin()))
}

/// World rotations of a pose.
fn world(pose: &[Quat; JOINT_COUNT]) -> [Quat; JOINT_COUNT] {
    let mut out = *pose;
    for j in 1..JOINT_COUNT {
        out[j] = out[PARENTS[j] as usize] * pose[j];
    }
    out
}

#[test]
fn the_package_has_its_weights() {
    assert!(weights().is_some());
    assert!(Completion::new(&mask(&[13])).is_some());
}

#[test]
fn a_body_that_has_enough_stays_what_it_is() {
    assert!(Completion::new(&[true; JOINT_COUNT]).is_none());
    assert!(Completion::new(&[false; JOINT_COUNT]).is_none());
    assert!(Completion::new(&mask(&[HIPS])).is_none());
    assert!(Completion::new(&std::array::from_fn(|j| j <= MAX_MEASURED)).is_none());
}

#[test]
fn measured_joints_stay_where_they_were_measured_and_the_others_move() {
    for joints in [&[0, 5, 9, 13, 16, 20][..], &[5, 9, 13], &[13]] {
        let measured = mask(joints);
        let mut completion = Completion::new(&measured).unwrap();
        let mut moved = 0.0;
        for n in 0..100 {
            let mut sent = frame(f64::from(n) * 0.05);
            for j in 0..JOINT_COUNT {
                if !measured[j] {
                    sent[j] = Quat::IDENTITY;
                }
            }
            let expected = world(&sent);
            let mut complete = sent;
            completion.push(&mut complete);
            let found = world(&complete);
            for j in joints {
                assert!(found[*j].angle_to(expected[*j]) < 1e-6, "joint {j}");
                assert_eq!(completion.confidence()[*j], 1.0);
            }
            moved += complete[7].angle_to(Quat::IDENTITY);
            assert!(
                complete
                    .iter()
                    .all(|q| q.to_array().iter().all(|v| v.is_finite()))
            );
            assert!(completion.confidence().iter().all(|c| (0.0..=1.0).contains(c)));
        }
        assert!(moved > 1.0, "the upper arm is not at rest");
    }
}

#[test]
fn placed_joints_are_solved_and_the_ends_stay_where_they_were() {
    let measured = mask(&[0, 5, 9, 13, 16, 20]);
    let position_only = [1, 2, 3, 4, 7, 8, 11, 12, 14, 15, 18, 19]
        .iter()
        .fold(0, |bits, j| bits | 1 << j);
    let mut completion = Completion::with_position_only(&measured, position_only).unwrap();
    let mut moved = 0.0_f64;
    for n in 0..60 {
        // Hanging arms with bent elbows, a leaning torso and a lifted knee.
        let mut sent = [Quat::IDENTITY; JOINT_COUNT];
        let lean = 0.4 * (f64::from(n) * 0.1).sin();
        sent[SPINE] = Quat::from_axis_angle([1.0, 0.0, 0.0], lean);
        for (upper, side) in [(7, -1.0), (11, 1.0)] {
            sent[upper] = Quat::from_axis_angle([0.0, 0.0, 1.0], side * 1.2);
            sent[upper + 1] = Quat::from_axis_angle([0.0, 1.0, 0.0], side * 1.3);
        }
        sent[14] = Quat::from_axis_angle([1.0, 0.0, 0.0], -1.2);
        sent[15] = Quat::from_axis_angle([1.0, 0.0, 0.0], 1.4);
        let (expected, mut complete) = (joint_positions(&world(&sent)), sent);
        completion.push(&mut complete);
        let (rotations, found) = (world(&complete), joint_positions(&world(&complete)));
        for end in [9, 13, 16, 20] {
            let [given, solved] = [&expected, &found].map(|p| minus(p[end], found[end - 2]));
            assert!(angle(given, solved) < 1e-6, "{n} {end}");
            let off = (length(given) - length(solved)).abs();
            assert!(off < 0.1, "{n} {end} {off}");
        }
        let above = |positions: &[Vector; JOINT_COUNT]| minus(positions[HEAD], positions[SPINE]);
        let off = Quat::from_two_vectors(above(&found), above(&expected));
        assert!(off.angle_to(Quat::IDENTITY) < 0.03, "{n}");
        assert!(rotations[HEAD].angle_to(world(&sent)[HEAD]) < 1e-6);
        moved = moved.max(complete[2].angle_to(sent[2]));
    }
    assert!(moved > 0.02, "the chest is solved again");
    assert!(
        Completion::with_position_only(&mask(&[1, 2]), 0b110).is_none(),
        "nothing else is measured"
    );
}

/// A body with six measured joints whose rotations do not depend on the torso's lean, and elbows rotated about the arm
/// by `elbow`.
fn tracked_body(lean: f64, elbow: f64) -> [Quat; JOINT_COUNT] {
    let mut sent = [Quat::IDENTITY; JOINT_COUNT];
    sent[SPINE] = Quat::from_axis_angle([1.0, 0.0, 0.0], lean);
    sent[HEAD] = sent[SPINE].conj();
    for upper in [7, 11] {
        // Spread arms, whose ends do not move.
        let about = Quat::from_axis_angle([1.0, 0.0, 0.0], elbow);
        let bent = Quat::from_axis_angle([0.0, 1.0, 0.0], if upper == 7 { 0.8 } else { -0.8 });
        sent[upper] = sent[SPINE].conj() * about * bent;
        sent[upper + 1] = bent.conj() * bent.conj();
        sent[upper + 2] = bent * about.conj();
    }
    sent
}

fn complete(mut sent: [Quat; JOINT_COUNT]) -> [Quat; JOINT_COUNT] {
    let position_only = [1, 2, 3, 4, 7, 8, 11, 12].iter().fold(0, |bits, j| bits | 1 << j);
    let mut completion =
        Completion::with_position_only(&mask(&[0, 5, 9, 13, 16, 20]), position_only).unwrap();
    completion.push(&mut sent);
    sent
}

#[test]
fn shoulders_go_with_the_torso() {
    let [upright, bowed] = [0.0, 0.6].map(|lean| complete(tracked_body(lean, 0.0)));
    assert!(world(&upright)[UPPER_CHEST].angle_to(world(&bowed)[UPPER_CHEST]) > 0.5);
    for shoulder in ARMS {
        assert!(upright[shoulder].angle_to(bowed[shoulder]) < 1e-6);
    }
}

#[test]
fn elbows_are_on_the_side_where_they_were_placed() {
    let [back, down] = [0.0, -1.4].map(|elbow| joint_positions(&world(&complete(tracked_body(0.0, elbow)))));
    for elbow in [8, 12] {
        assert!(back[elbow][1] > down[elbow][1] + 0.03, "{back:?} {down:?}");
    }
}

#[test]
fn a_reset_and_a_copy_say_the_same_again() {
    let run = |completion: &mut Completion| {
        let mut out = Vec::new();
        for n in 0..20 {
            let mut pose = frame(f64::from(n) * 0.1);
            completion.push(&mut pose);
            out.push(pose.map(Quat::to_array));
        }
        out
    };
    let mut completion = Completion::new(&mask(&[0, 5, 9])).unwrap();
    let first = run(&mut completion);
    let mut copy = completion.clone();
    assert_eq!(run(&mut copy), run(&mut completion));
    completion.reset();
    assert_eq!(run(&mut completion), first);
}

#[test]
fn turning_the_whole_body_about_the_vertical_turns_it_and_no_more() {
    let turn = Quat::from_axis_angle([0.0, 1.0, 0.0], 2.0);
    let mut pair = [0, 1].map(|_| Completion::new(&mask(&[0, 5, 9, 13])).unwrap());
    for n in 0..50 {
        let mut plain = frame(f64::from(n) * 0.05);
        let mut turned = plain;
        turned[0] = turn * turned[0];
        pair[0].push(&mut plain);
        pair[1].push(&mut turned);
        assert!((turn * plain[0]).angle_to(turned[0]) < 1e-4);
        for j in 1..JOINT_COUNT {
            assert!(plain[j].angle_to(turned[j]) < 1e-3, "joint {j}");
        }
    }
}
