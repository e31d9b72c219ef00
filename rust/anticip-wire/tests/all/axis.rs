//! The BVH broadcast as the vendor's reader documents it (NeuronDataReader's `BvhDataHeader`), byte by byte.

use anticip_wire::axis::{AxisDecoder, BONES, default_skeleton, encode_frame};
use anticip_wire::{Joint, PoseUpdate, SkeletonUpdate, Source, Update, WireError, recognise};
use proptest::prelude::*;

const LEFT_ARM: usize = 13 + 23 + 1;

fn header(count: u16, full: bool, reference: bool, avatar: u32, frame: u32) -> Vec<u8> {
    let mut out = vec![0xff, 0xdd, 0, 0, 1, 1];
    out.extend(count.to_le_bytes());
    out.extend([u8::from(full), u8::from(reference)]);
    out.extend(avatar.to_le_bytes());
    out.extend(b"Avatar00".iter().chain(&[0; 24]));
    out.extend(frame.to_le_bytes());
    out.extend([0; 12]);
    out.extend([0xff, 0xee]);
    out
}

/// A motion line in T-pose with the hips 95 cm high and the left arm lowered about z.
fn line(full: bool, reference: bool, degrees: f32) -> Vec<f32> {
    let mut out = if reference { vec![7.0; 6] } else { Vec::new() };
    for (id, offset) in default_skeleton().offsets.iter().enumerate() {
        if id == 0 {
            out.extend([1.0, 95.0, 2.0]);
        } else if full {
            out.extend(offset.map(|v| v * 100.0));
        }
        out.extend([0.0, 0.0, if id == LEFT_ARM { degrees } else { 0.0 }]);
    }
    out
}

fn binary(full: bool, reference: bool, avatar: u32, frame: u32, degrees: f32) -> Vec<u8> {
    let numbers = line(full, reference, degrees);
    let mut out = header(numbers.len() as u16, full, reference, avatar, frame);
    numbers.iter().for_each(|v| out.extend(v.to_le_bytes()));
    out
}

fn text(full: bool, degrees: f32) -> Vec<u8> {
    let numbers: Vec<String> = line(full, false, degrees)
        .iter()
        .map(|v| format!("{v:.4}"))
        .collect();
    format!("0 Avatar00 {} ||\r\n", numbers.join(" ")).into_bytes()
}

fn decoded(decoder: &mut AxisDecoder, data: &[u8]) -> (usize, Vec<PoseUpdate>) {
    let (mut skeletons, mut frames) = (0, Vec::new());
    decoder
        .decode(data, &mut |update| match update {
            Update::Skeleton(SkeletonUpdate { names, .. }) => {
                assert_eq!(names.len(), BONES);
                skeletons += 1;
            }
            Update::Frame(pose) => frames.push(pose.clone()),
            other => panic!("{other:?}"),
        })
        .expect("decodes");
    (skeletons, frames)
}

#[test]
fn binary_and_text_with_and_without_displacement_agree() {
    assert_eq!(default_skeleton().names[LEFT_ARM], "LeftArm");
    for data in [
        binary(true, false, 0, 9, -40.0),
        binary(false, false, 0, 9, -40.0),
        binary(true, true, 0, 9, -40.0),
        binary(false, true, 0, 9, -40.0),
        text(true, -40.0),
        text(false, -40.0),
    ] {
        assert_eq!(recognise(&data), Some("axis"));
        let (skeletons, frames) = decoded(&mut AxisDecoder::default(), &data);
        assert_eq!((skeletons, frames.len()), (1, 1));
        let pose = &frames[0];
        assert_eq!(pose.joints.len(), BONES);
        assert_eq!(
            pose.root.map(|r| r.map(|v| (v * 100.0).round())),
            Some([1.0, 95.0, 2.0])
        );
        let half = (-20.0_f32).to_radians();
        for joint in &pose.joints {
            let expected = if usize::from(joint.id) == LEFT_ARM {
                [half.cos(), 0.0, 0.0, half.sin()]
            } else {
                [1.0, 0.0, 0.0, 0.0]
            };
            assert!(
                joint
                    .rotation
                    .iter()
                    .zip(expected)
                    .all(|(a, b)| (a - b).abs() < 1e-6)
            );
        }
    }
    assert_eq!(
        decoded(&mut AxisDecoder::default(), &binary(true, false, 0, 9, 0.0)).1[0].seq,
        Some(9)
    );
}

#[test]
fn names_in_text_may_be_anything() {
    let line_text = String::from_utf8(text(true, -40.0)).expect("ASCII");
    let plain = decoded(&mut AxisDecoder::default(), line_text.as_bytes());
    assert_eq!(plain.1.len(), 1);
    let (before, after) = line_text.split_once("Avatar00").expect("is named");
    let ascii = ["", "My Char", "Anna 2", "7", "12 34", "nan"].map(str::as_bytes);
    let zoe_in_latin_1 = b"Zo\xeb";
    let actor_in_gbk = b"\xd1\xdd\xd4\xb1 \x81|";
    for name in ascii
        .into_iter()
        .chain(["Zoë", "演员"].map(str::as_bytes))
        .chain([&zoe_in_latin_1[..], actor_in_gbk])
    {
        let named = [before.as_bytes(), name, after.as_bytes()].concat();
        assert_eq!(recognise(&named), Some("axis"));
        assert_eq!(decoded(&mut AxisDecoder::default(), &named), plain, "{name:?}");
    }
    // Three more numbers are another bone.
    let other = line_text.replace("||", "0 0 0 ||");
    let refused = AxisDecoder::default().decode(other.as_bytes(), &mut |_| ());
    assert!(matches!(refused, Err(WireError::Malformed { .. })));
}

#[test]
fn the_default_skeleton_is_170_cm_tall() {
    let body = default_skeleton();
    let mut places = body.offsets.clone();
    for bone in 1..BONES {
        let parent = places[body.parents[bone] as usize];
        (0..3).for_each(|i| places[bone][i] += parent[i]);
    }
    let at = |name: &str| {
        let bone = body.names.iter().position(|known| known == name).unwrap();
        places[bone].map(|v| (100.0 * v).round())
    };
    assert_eq!(at("Hips"), [0.0; 3]);
    assert_eq!(at("Head"), [0.0, 62.0, 1.0]);
    for (end, [x, y, z]) in [
        ("Hand", [69.0, 47.0, 0.0]),
        ("HandThumb3", [79.0, 47.0, 3.0]),
        ("HandIndex3", [84.0, 47.0, 2.0]),
        ("HandMiddle3", [84.0, 47.0, 1.0]),
        ("HandRing3", [84.0, 47.0, -1.0]),
        ("HandPinky3", [83.0, 47.0, -2.0]),
        ("Foot", [10.0, -84.0, 0.0]),
    ] {
        assert_eq!(at(&format!("Left{end}")), [x, y, z], "{end}");
        assert_eq!(at(&format!("Right{end}")), [-x, y, z], "{end}");
    }
}

#[test]
fn another_avatar_takes_over_when_the_first_is_absent() {
    let mut decoder = AxisDecoder::default();
    assert_eq!(decoded(&mut decoder, &binary(true, false, 3, 0, 0.0)).1.len(), 1);
    for frame in 0..200 {
        assert!(
            decoded(&mut decoder, &binary(true, false, 4, frame, 0.0))
                .1
                .is_empty()
        );
    }
    let (skeletons, frames) = decoded(&mut decoder, &binary(true, false, 4, 200, 0.0));
    assert_eq!((skeletons, frames.len()), (1, 1));
}

#[test]
fn a_binary_frame_may_come_in_two_datagrams() {
    let whole = |frame| binary(true, false, 0, frame, -40.0);
    let mut decoder = AxisDecoder::default();
    let mut seqs = |data: &[u8]| -> Vec<_> {
        decoded(&mut decoder, data)
            .1
            .iter()
            .map(|pose| pose.seq)
            .collect()
    };
    for frame in 0..3 {
        assert_eq!(seqs(&whole(frame)[..1024]), []);
        assert_eq!(seqs(&whole(frame)[1024..]), [Some(frame)]);
    }
    // A first part without its second is dropped when the next frame begins.
    assert_eq!(seqs(&whole(3)[..1024]), []);
    assert_eq!(seqs(&whole(4)), [Some(4)]);
    // A second one in a row is reported.
    assert_eq!(seqs(&whole(5)[..1024]), []);
    let cut = |data: &[u8], decoder: &mut AxisDecoder| decoder.decode(data, &mut |_| ());
    assert!(matches!(
        cut(&whole(6)[..1024], &mut decoder),
        Err(WireError::Truncated {
            what: "the numbers",
            ..
        })
    ));
    assert_eq!(decoded(&mut decoder, &whole(6)[1024..]).1[0].seq, Some(6));
    assert!(matches!(
        cut(&whole(6)[1024..], &mut decoder),
        Err(WireError::Alien { .. })
    ));
}

#[test]
fn skipping_frame_numbers_become_consecutive() {
    let mut decoder = AxisDecoder::default();
    // 16 arrives late; then the counter restarts; then it stands still.
    let frames = [8, 12, 20, 16, 24, 1000, 4, 8, 8];
    let numbers = frames.map(|frame| decoded(&mut decoder, &binary(true, false, 0, frame, 0.0)).1[0].seq);
    assert_eq!(numbers, [8, 9, 11, 10, 12, 256, 4, 5, 5].map(Some));
}

#[test]
fn malformed_datagrams_are_refused() {
    let decode = |data: &[u8]| AxisDecoder::default().decode(data, &mut |_| ());
    let whole = binary(true, false, 0, 0, 0.0);
    assert!(matches!(decode(b"hello"), Err(WireError::Alien { .. })));
    assert!(matches!(
        decode(&whole[..40]),
        Err(WireError::Truncated {
            what: "the header",
            ..
        })
    ));
    assert!(matches!(
        decode(b"0 a 1 2 3 ||"),
        Err(WireError::Malformed { .. })
    ));
    assert!(matches!(
        decode(&header(0, true, false, 0, 0)),
        Err(WireError::Malformed { .. })
    ));
}

proptest! {
    #[test]
    fn frames_round_trip(
        turns in prop::collection::vec(prop::array::uniform4(-1.0_f32..1.0), BONES), seq in any::<u32>()
    ) {
        let joints = turns.iter().enumerate().filter_map(|(id, turn)| {
            let norm = turn.iter().map(|v| v * v).sum::<f32>().sqrt();
            (norm > 0.1).then(|| Joint {
                id: id as u16, rotation: turn.map(|v| v / norm), position: [0.1, 0.2, 0.3], fresh: true,
            })
        });
        let sent = PoseUpdate { seq: Some(seq), joints: joints.collect(), ..PoseUpdate::default() };
        let mut out = Vec::new();
        encode_frame(&sent, &mut out).unwrap();
        let (_, frames) = decoded(&mut AxisDecoder::default(), &out);
        prop_assert_eq!(frames[0].seq, Some(seq));
        for joint in &sent.joints {
            let back = frames[0].joint(joint.id).unwrap();
            let dot: f32 = joint.rotation.iter().zip(back.rotation).map(|(a, b)| a * b).sum();
            prop_assert!(dot.abs() > 0.99999, "{:?} {:?}", joint, back);
        }
    }
}
