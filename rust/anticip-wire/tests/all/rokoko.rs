//! Rokoko's JSON v3. The fuzzer's seed `rokoko.json` follows the vendor's plug-ins (the classes of
//! rokoko-studio-live-unity, the T-pose of rokoko-studio-live-blender) and was written by Python's json; `rokoko.lz4`
//! is the same message, packed by python-lz4.

use crate::common::{decode, is_close};
use anticip_wire::rokoko::{JOINT_NAMES, REST, RokokoDecoder, encode_frame};
use anticip_wire::{PoseUpdate, SkeletonUpdate, WireError, recognise};

const PLAIN: &[u8] = include_bytes!("../../fuzz/seeds/rokoko/rokoko.json");
const PACKED: &[u8] = include_bytes!("../../fuzz/seeds/rokoko/rokoko.lz4");

fn feed(
    source: &mut RokokoDecoder,
    bytes: &[u8],
) -> Result<(Option<SkeletonUpdate>, Option<PoseUpdate>), WireError> {
    let mut updates = decode(source, bytes)?;
    Ok((updates.skeletons.pop(), updates.frames.pop()))
}

fn id(name: &str) -> usize {
    JOINT_NAMES.iter().position(|known| *known == name).unwrap()
}

/// Whether two vectors, or the rotations of two quaternions, are the same.
fn close<const N: usize>(a: &[f32; N], b: &[f32; N]) -> bool {
    is_close(a, b, 1e-4) || (N == 4 && is_close(a, &b.map(|v| -v), 1e-4))
}

#[test]
fn plain_and_packed_are_the_same_body_in_t_pose() {
    for bytes in [PLAIN, PACKED] {
        assert_eq!(recognise(bytes), Some("rokoko"));
        let (skeleton, frame) = feed(&mut RokokoDecoder::default(), bytes).unwrap();
        let (skeleton, frame) = (skeleton.unwrap(), frame.unwrap());
        assert_eq!((frame.time, frame.seq), (Some(12.25), None));
        assert_eq!(skeleton.rate, Some(60.0));
        assert_eq!(frame.root, Some([0.0, 0.95, -0.0]));
        // The pose equals the rest pose, whatever axes the bones have.
        assert_eq!(frame.joints.len(), 21);
        for joint in &frame.joints {
            let id = usize::from(joint.id);
            let is_rest = close(&joint.rotation, &skeleton.rest[id]);
            assert!(is_rest, "{}", JOINT_NAMES[id]);
        }
        // All bones of a limb have the same direction in their own axes.
        for pair in [["leftLowerArm", "rightLowerArm"], ["leftLeg", "rightLeg"]] {
            let [a, b] = pair.map(|name| skeleton.offsets[id(name)]);
            assert!(close(&a.map(f32::abs), &b.map(f32::abs)), "{pair:?} {a:?} {b:?}");
        }
    }
}

#[test]
fn a_joint_turned_in_the_world_is_turned_within_its_parent() {
    // Studio's world is left-handed: a rotation by +90 degrees about y takes z to x. The whole right leg turns out.
    let mut message: serde_json::Value = serde_json::from_slice(PLAIN).unwrap();
    let half = std::f64::consts::FRAC_1_SQRT_2;
    for name in ["rightUpLeg", "rightLeg"] {
        let turned = &mut message["scene"]["actors"][1]["body"][name]["rotation"];
        // (half, y half) times the rest (half, -y half): the identity.
        let rest = ["w", "y"].map(|axis| turned[axis].as_f64().unwrap());
        assert!((rest[0] - half).abs() < 1e-4 && (rest[1] + half).abs() < 1e-4);
        *turned = serde_json::json!({"x": 0.0, "y": 0.0, "z": 0.0, "w": 2.0 * half * half});
    }
    let mut source = RokokoDecoder::default();
    let rest = feed(&mut source, PLAIN).unwrap().0.unwrap().rest;
    let (_, frame) = feed(&mut source, message.to_string().as_bytes()).unwrap();
    let frame = frame.unwrap();
    let local = |name: &str| frame.joint(id(name) as u16).unwrap().rotation;
    // The hips are the identity, so the thigh has the whole rotation; right-handed it is about -y.
    assert!(close(&local("rightUpLeg"), &[1.0, 0.0, 0.0, 0.0]));
    assert!(close(&local("rightLeg"), &rest[id("rightLeg")]));
    assert!(!close(&local("rightFoot"), &rest[id("rightFoot")]));
}

#[test]
fn actors_without_a_body_are_skipped() {
    let mut source = RokokoDecoder::default();
    assert!(feed(&mut source, PLAIN).unwrap().0.is_some());
    assert!(feed(&mut source, PLAIN).unwrap().0.is_none());
    // Another actor, with another body, takes over when the active one has been absent for long.
    let text = str::from_utf8(PLAIN).unwrap();
    let other = text.replace("\"Dancer \\u00e9\"", "\"Somebody else\"");
    for _ in 0..200 {
        assert_eq!(feed(&mut source, other.as_bytes()).unwrap(), (None, None));
    }
    assert!(feed(&mut source, PLAIN).unwrap().1.is_some());
    for _ in 0..200 {
        assert_eq!(feed(&mut source, other.as_bytes()).unwrap(), (None, None));
    }
    assert!(feed(&mut source, other.as_bytes()).unwrap().0.is_some());
    let empty = br#"{"version":3,"fps":30,"scene":{"timestamp":1.0,"actors":[],"props":[]}}"#;
    assert_eq!(feed(&mut source, empty).unwrap(), (None, None));
}

#[test]
fn an_incomplete_body_does_not_keep_another_away() {
    let mut message: serde_json::Value = serde_json::from_slice(PLAIN).unwrap();
    let actors = message["scene"]["actors"].as_array_mut().unwrap();
    let mut half = actors[1].clone();
    half["name"] = "Half".into();
    half["body"].as_object_mut().unwrap().remove("head");
    let whole = actors[1].clone();
    let of = |actors: &[&serde_json::Value]| {
        let mut message_text = message.clone();
        message_text["scene"]["actors"] = serde_json::json!(actors);
        message_text.to_string().into_bytes()
    };
    let mut source = RokokoDecoder::default();
    let (found, needed) = (20, 21);
    let partial = Err(WireError::Partial { found, needed });
    for _ in 0..2 {
        assert_eq!(feed(&mut source, &of(&[&half])), partial);
    }
    for _ in 0..2 {
        let frame = feed(&mut source, &of(&[&half, &whole])).unwrap().1.unwrap();
        assert_eq!(frame.joints.len(), 21);
    }
    // The active actor is decoded even if joints are missing.
    assert_eq!(feed(&mut source, &of(&[&half])), Ok((None, None)));
    let mut less = whole.clone();
    less["body"].as_object_mut().unwrap().remove("head");
    let frame = feed(&mut source, &of(&[&half, &less])).unwrap().1.unwrap();
    assert_eq!(frame.joints.len(), 20);
}

#[test]
fn misplaced_hips_do_not_change_the_unit() {
    let mut message: serde_json::Value = serde_json::from_slice(PLAIN).unwrap();
    message["scene"]["actors"][1]["body"]["hip"]["position"]["x"] = 40.0.into();
    let mut source = RokokoDecoder::default();
    feed(&mut source, message.to_string().as_bytes()).unwrap();
    let frame = feed(&mut source, PLAIN).unwrap().1.unwrap();
    assert_eq!(frame.root, Some([0.0, 0.95, -0.0]));
}

#[test]
fn other_versions_and_garbage_are_distinguished() {
    let decode = |bytes: &[u8]| feed(&mut RokokoDecoder::default(), bytes).unwrap_err();
    // JSON v2 has its actors at the top, and 3 for its version in some Studios.
    let old = br#"{"version":3,"timestamp":1.0,"playbackTimestamp":0,"props":[],"trackers":[],"faces":[],"actors":[]}"#;
    assert_eq!(recognise(old), Some("rokoko"));
    assert!(decode(old).to_string().contains("choose JSON v3"));
    assert!(matches!(decode(b"nothing"), WireError::Alien { .. }));
    for cut in [
        &PLAIN[..PLAIN.len() / 2],
        &PACKED[..PACKED.len() / 2],
        &PACKED[..8],
        b"{\"version\":",
    ] {
        assert!(matches!(decode(cut), WireError::Malformed { .. }));
    }
}

#[test]
fn the_version_may_be_text_and_later_ones_are_refused() {
    let mut message: serde_json::Value = serde_json::from_slice(PLAIN).unwrap();
    for version in ["3", "3.0", "\"3\"", "\"3,0\"", "\"3.0\""] {
        message["version"] = serde_json::from_str(version).unwrap();
        let text = message.to_string();
        assert!(text.contains(&format!("\"version\":{version}")));
        let (_, frame) = feed(&mut RokokoDecoder::default(), text.as_bytes()).unwrap();
        assert!(frame.is_some(), "{version}");
    }
    // As Studio 2 sends it with JSON v4 chosen.
    let later = br#"{"version":"3,0","fps":30.0,"scene":{"timestamp":29.3,"actors":[],"newtons":[{}]}}"#;
    for message_text in [&later[..], br#"{"version":"2,0","scene":{"timestamp":1.0}}"#] {
        let error = feed(&mut RokokoDecoder::default(), message_text).unwrap_err();
        assert!(error.to_string().contains("choose JSON v3"), "{error}");
    }
}

#[test]
fn in_t_pose_the_right_side_turns_as_the_left_but_for_signs() {
    for (name, [w, x, y, z]) in JOINT_NAMES.iter().zip(REST) {
        assert!((w * w + x * x + y * y + z * z - 1.0).abs() < 1e-6, "{name}");
        if let Some(part) = name.strip_prefix("left") {
            let other = REST[id(&format!("right{part}"))];
            assert!(close(&other.map(f32::abs), &[w, x, y, z].map(f32::abs)), "{name}");
        }
    }
}

#[test]
fn non_finite_numbers_are_not_sent() {
    for (time, fps) in [(f64::NAN, 60.0), (f64::INFINITY, 60.0), (1.0, f64::NAN)] {
        let pose = PoseUpdate {
            time: Some(time),
            ..PoseUpdate::default()
        };
        let sent = encode_frame(&pose, fps, &mut Vec::new());
        assert!(matches!(sent, Err(WireError::Unencodable { .. })), "{time} {fps}");
    }
}
