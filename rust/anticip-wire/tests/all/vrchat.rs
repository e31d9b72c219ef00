//! VRChat trackers, encoded by `rosc`. The Python tests use SlimeVR's arithmetic.

use crate::common::decode;
use anticip_wire::vrchat::{TRACKERS, VrchatAssembler, encode_frame};
use anticip_wire::{Tracker, TrackerUpdate, WireError, recognise};
use proptest::prelude::*;
use rosc::{OscMessage, OscPacket, OscType, encoder};

fn message(address: &str, values: &[f32]) -> Vec<u8> {
    let message = OscMessage {
        addr: address.to_owned(),
        args: values.iter().map(|v| OscType::Float(*v)).collect(),
    };
    encoder::encode(&OscPacket::Message(message)).unwrap()
}

fn decoded(source: &mut VrchatAssembler, data: &[u8]) -> Vec<TrackerUpdate> {
    let updates = decode(source, data).unwrap();
    assert!(updates.skeletons.is_empty() && updates.frames.is_empty());
    updates.trackers
}

#[test]
fn a_frame_is_complete_when_all_of_the_previous_one_has_come_again() {
    let mut source = VrchatAssembler::default();
    let places = |n: f32| message("/tracking/trackers/1/position", &[n, 1.0, 2.0]);
    let turns = |n: f32| message("/tracking/trackers/head/rotation", &[0.0, n, 0.0]);
    assert_eq!(recognise(&places(0.0)), Some("vrchat"));
    // The first frame ends where a value comes again, the second with its last message.
    assert!(decoded(&mut source, &places(0.0)).is_empty());
    assert!(decoded(&mut source, &turns(90.0)).is_empty());
    let first = decoded(&mut source, &places(0.5));
    let second = decoded(&mut source, &turns(0.0));
    assert_eq!([first.len(), second.len()], [1, 1]);
    let of = |update: &TrackerUpdate, joint: &str| {
        let found = update.trackers.iter().find(|tracker| tracker.name == joint);
        found.unwrap().clone()
    };
    let whole = OscMessage {
        addr: "/tracking/trackers/1/position".to_owned(),
        args: vec![OscType::Int(2), OscType::Double(1.5), OscType::Long(-3)],
    };
    let third = [encoder::encode(&OscPacket::Message(whole)).unwrap(), turns(0.0)];
    let third = third.map(|data| decoded(&mut source, &data));
    assert_eq!(of(&third[1][0], "hips").position, Some([2.0, 1.5, 3.0]));
    // Unity's z axis is reversed, and so is a rotation about y.
    assert_eq!(of(&first[0], "hips").position, Some([0.0, 1.0, -2.0]));
    assert_eq!(of(&second[0], "hips").position, Some([0.5, 1.0, -2.0]));
    let [w, x, y, z] = of(&first[0], "head").rotation.unwrap();
    let half = 0.5_f32.sqrt();
    assert!((w - half).abs() < 1e-6 && (y + half).abs() < 1e-6 && x.abs() < 1e-6 && z.abs() < 1e-6);
    assert_eq!(of(&second[0], "head").position, None);
}

#[test]
fn who_lies_down_keeps_the_numbers_of_slimevr() {
    // Hips, left and right foot and upper chest; then as VRChat's documentation lists them.
    let body = [
        [0.0, 1.0, 0.0],
        [-0.1, 0.1, 0.0],
        [0.1, 0.1, 0.0],
        [0.0, 1.3, 0.0],
    ];
    let names = |numbers: [u8; 4], is_lying: bool| {
        let mut source = VrchatAssembler::default();
        let mut found = Vec::new();
        for _ in 0..2 {
            for (number, [x, y, z]) in numbers.iter().zip(body) {
                let place = if is_lying { [x, z + 0.1, y] } else { [x, y, z] };
                let data = message(&format!("/tracking/trackers/{number}/position"), &place);
                found.extend(decoded(&mut source, &data));
            }
            found.extend(decoded(
                &mut source,
                &message("/tracking/trackers/1/rotation", &[0.0; 3]),
            ));
        }
        let trackers = &found[0].trackers;
        numbers.map(|number| trackers[usize::from(number) - 1].name.clone())
    };
    let expected = ["hips", "left_foot", "right_foot", "upper_chest"];
    assert_eq!(names([1, 2, 3, 6], false), expected);
    assert_eq!(names([1, 2, 3, 6], true), expected);
    assert_eq!(names([1, 3, 4, 2], false), expected);
}

#[test]
fn who_sits_or_squats_keeps_the_numbers_of_slimevr() {
    // Hips, feet, thighs (their trackers are at the knees), upper chest and upper arms.
    let heights = |hips: f32| [hips, 0.08, 0.08, 0.52, 0.52, hips + 0.4, hips + 0.2, hips + 0.2];
    let across = [0.0, -0.1, 0.1, -0.12, 0.12, 0.0, -0.25, 0.25];
    for hips in [0.55, 0.5, 0.4] {
        let mut source = VrchatAssembler::default();
        let mut found = Vec::new();
        for _ in 0..2 {
            for ((number, _), (x, y)) in TRACKERS.iter().zip(across.into_iter().zip(heights(hips))) {
                for kind in ["position", "rotation"] {
                    let values = if kind == "position" { [x, y, 0.0] } else { [0.0; 3] };
                    let data = message(&format!("/tracking/trackers/{number}/{kind}"), &values);
                    found.extend(decoded(&mut source, &data));
                }
            }
        }
        let names = found[0].trackers.iter().map(|tracker| tracker.name.as_str());
        assert!(names.eq(TRACKERS.map(|(_, joint)| joint)), "{hips}");
    }
}

#[test]
fn a_tracker_that_joins_in_a_handstand_changes_no_numbers() {
    let mut source = VrchatAssembler::default();
    // Hips, feet and, switched on last, the upper chest.
    let mut send = |heights: &[(u8, f32)]| {
        let mut found = Vec::new();
        for _ in 0..2 {
            for (number, y) in heights {
                let place = [0.1 * f32::from(*number), *y, 0.0];
                let data = message(&format!("/tracking/trackers/{number}/position"), &place);
                found.extend(decoded(&mut source, &data));
            }
            let data = message("/tracking/trackers/1/rotation", &[0.0; 3]);
            found.extend(decoded(&mut source, &data));
        }
        found.pop().unwrap()
    };
    send(&[(1, 1.0), (2, 0.1), (3, 0.1)]);
    let last = send(&[(1, 1.0), (2, 1.8), (3, 1.8), (6, 0.7)]);
    let names = last.trackers.iter().map(|tracker| tracker.name.as_str());
    assert!(names.eq(TRACKERS.map(|(_, joint)| joint)));
}

#[test]
fn other_messages_are_ignored() {
    let mut source = VrchatAssembler::default();
    for data in [
        message("/tracking/trackers/9/position", &[0.0; 3]),
        message("/tracking/trackers/1/colour", &[0.0; 3]),
        message("/tracking/trackers/1/rotation", &[0.0; 2]),
        message("/tracking/trackers/1/rotation", &[0.0, f32::NAN, 0.0]),
        message("/avatar/parameters/x", &[0.0; 3]),
    ] {
        for _ in 0..3 {
            assert!(decoded(&mut source, &data).is_empty());
        }
    }
    assert!(matches!(
        decode(&mut source, b"hello"),
        Err(WireError::Alien { .. })
    ));
}

#[test]
fn every_tracker_has_an_address_of_its_own() {
    let tracker = |n: usize| Tracker {
        position: Some([n as f32; 3]),
        ..Tracker::default()
    };
    let mut out = Vec::new();
    encode_frame(&(0..9).map(tracker).collect::<Vec<_>>(), &mut out).unwrap();
    for (number, _) in TRACKERS {
        let address = format!("/tracking/trackers/{number}/position");
        assert!(out.windows(address.len()).any(|part| part == address.as_bytes()));
    }
    assert!(encode_frame(&(0..10).map(tracker).collect::<Vec<_>>(), &mut out).is_err());
}

/// Random rotations, including those that look straight up or down.
fn rotations() -> impl Strategy<Value = [f32; 4]> {
    let half = std::f32::consts::FRAC_1_SQRT_2;
    let upright = (0.0_f32..3.0, any::<bool>()).prop_map(move |(turn, up)| {
        let (sin, cos) = turn.sin_cos();
        let x = if up { half } else { -half };
        [cos * half, cos * x, sin * half, -sin * x]
    });
    prop_oneof![prop::array::uniform4(-1.0_f32..1.0), upright]
}

proptest! {
    #[test]
    fn frames_round_trip(
        random_trackers in prop::collection::vec((rotations(), prop::array::uniform3(-3.0_f32..3.0)), 1..=9)
    ) {
        let norm = |q: &[f32; 4]| q.iter().map(|v| v * v).sum::<f32>().sqrt();
        prop_assume!(random_trackers.iter().all(|(q, _)| norm(q) > 0.3));
        let tracker = |(q, place): &([f32; 4], [f32; 3])| Tracker {
            name: String::new(),
            rotation: Some(q.map(|v| v / norm(q))),
            position: Some(*place),
        };
        let trackers: Vec<Tracker> = random_trackers.iter().map(tracker).collect();
        let mut out = Vec::new();
        encode_frame(&trackers, &mut out).unwrap();
        let mut source = VrchatAssembler::default();
        decoded(&mut source, &out);
        let found = decoded(&mut source, &out);
        for (sent, decoded_tracker) in trackers.iter().zip(&found[0].trackers) {
            prop_assert_eq!(sent.position, decoded_tracker.position);
            let (a, b) = (sent.rotation.unwrap(), decoded_tracker.rotation.unwrap());
            let dot: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            prop_assert!(dot.abs() > 0.9999, "{:?} {:?}", sent, decoded_tracker);
        }
    }
}
