//! The BVH broadcast as the vendor's reader documents it (NeuronDataReader's `BvhDataHeader`), byte by byte.

use crate::common::{decode, is_close};
use crate::invariants::Updates;
use anticip_wire::axis::{AxisDecoder, BONES, default_skeleton, encode_frame};
use anticip_wire::{Joint, PoseUpdate, WireError, recognise};
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

fn decoded(decoder: &mut AxisDecoder, data: &[u8]) -> Updates {
    let updates = decode(decoder, data).unwrap();
    assert!(updates.skeletons.iter().all(|skeleton| skeleton.len() == BONES));
    updates
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
        let Updates {
            skeletons, frames, ..
        } = decoded(&mut AxisDecoder::default(), &data);
        assert_eq!((skeletons.len(), frames.len()), (1, 1));
        let pose = &frames[0];
        assert_eq!(pose.joints.len(), BONES);
        let root = pose.root.unwrap().map(|v| (v * 100.0).round());
        assert_eq!(root, [1.0, 95.0, 2.0]);
        let half = (-20.0_f32).to_radians();
        for joint in &pose.joints {
            let expected = if usize::from(joint.id) == LEFT_ARM {
                [half.cos(), 0.0, 0.0, half.sin()]
            } else {
                [1.0, 0.0, 0.0, 0.0]
            };
            assert!(is_close(&joint.rotation, &expected, 1e-6));
        }
    }
    let alone = decoded(&mut AxisDecoder::default(), &binary(true, false, 0, 9, 0.0));
    assert_eq!(alone.frames[0].seq, Some(9));
}

#[test]
fn names_in_text_may_be_anything() {
    let line_text = String::from_utf8(text(true, -40.0)).expect("ASCII");
    let plain = decoded(&mut AxisDecoder::default(), line_text.as_bytes());
    assert_eq!(plain.frames.len(), 1);
    let (before, after) = line_text.split_once("Avatar00").expect("is named");
    let utf_8 = ["", "My Char", "Anna 2", "7", "12 34", "nan", "Zoë", "演员"].map(str::as_bytes);
    let zoe_in_latin_1 = &b"Zo\xeb"[..];
    let actor_in_gbk = b"\xd1\xdd\xd4\xb1 \x81|";
    for name in utf_8.into_iter().chain([zoe_in_latin_1, actor_in_gbk]) {
        let named = [before.as_bytes(), name, after.as_bytes()].concat();
        assert_eq!(recognise(&named), Some("axis"));
        assert_eq!(decoded(&mut AxisDecoder::default(), &named), plain, "{name:?}");
    }
    // Three more numbers are another bone.
    let other = line_text.replace("||", "0 0 0 ||");
    let refused = decode(&mut AxisDecoder::default(), other.as_bytes());
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
    let mut received = |avatar, frame| {
        let updates = decoded(&mut decoder, &binary(true, false, avatar, frame, 0.0));
        (updates.skeletons.len(), updates.frames.len())
    };
    assert_eq!(received(3, 0), (1, 1));
    for frame in 0..200 {
        assert_eq!(received(4, frame), (0, 0));
    }
    assert_eq!(received(4, 200), (1, 1));
}

/// `_BvhDataHeader` of the vendor's earlier readers, before the numbers.
fn old_header(count: u32, full: bool, reference: bool, avatar: u32) -> Vec<u8> {
    let mut out = vec![0xff, 0xdd, 2, 0, 0, 1];
    for word in [count, full.into(), reference.into(), avatar] {
        out.extend(word.to_le_bytes());
    }
    out.extend(b"Char00".iter().chain(&[0; 26 + 8]));
    out.extend([0xff, 0xee]);
    out
}

#[test]
fn the_old_header_tells_avatars_apart() {
    let mut decoder = AxisDecoder::default();
    for (full, reference) in [(true, false), (true, true), (false, false), (false, true)] {
        let new = binary(full, reference, 3, 5, -40.0);
        let mut received = |avatar| {
            let mut data = old_header((new.len() as u32 - 64) / 4, full, reference, avatar);
            data.extend(&new[64..]);
            decoded(&mut decoder, &data).frames
        };
        let frames = received(3);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].seq, None);
        assert_eq!(
            frames[0].joints,
            decoded(&mut AxisDecoder::default(), &new).frames[0].joints
        );
        assert_eq!(received(4).len(), 0);
    }
}

#[test]
fn a_binary_frame_may_come_in_two_datagrams() {
    let whole = |frame| binary(true, false, 0, frame, -40.0);
    let mut decoder = AxisDecoder::default();
    let mut seqs = |data: &[u8]| -> Vec<_> {
        let frames = decoded(&mut decoder, data).frames;
        frames.iter().map(|pose| pose.seq).collect()
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
    let cut = decode(&mut decoder, &whole(6)[..1024]).unwrap_err();
    assert!(cut.to_string().contains("the numbers needs"), "{cut}");
    assert_eq!(decoded(&mut decoder, &whole(6)[1024..]).frames[0].seq, Some(6));
    let rest = decode(&mut decoder, &whole(6)[1024..]);
    assert!(matches!(rest, Err(WireError::Alien { .. })));
}

#[test]
fn skipping_frame_numbers_become_consecutive() {
    let mut decoder = AxisDecoder::default();
    // 16 arrives late; then the counter restarts; then it stands still.
    let frames = [8, 12, 20, 16, 24, 1000, 4, 8, 8];
    let numbers =
        frames.map(|frame| decoded(&mut decoder, &binary(true, false, 0, frame, 0.0)).frames[0].seq);
    assert_eq!(numbers, [8, 9, 11, 10, 12, 256, 4, 5, 5].map(Some));
}

#[test]
fn malformed_datagrams_are_refused() {
    let error_of = |data: &[u8]| decode(&mut AxisDecoder::default(), data).unwrap_err();
    let whole = binary(true, false, 0, 0, 0.0);
    assert!(matches!(error_of(b"hello"), WireError::Alien { .. }));
    assert!(error_of(&whole[..40]).to_string().contains("the header needs"));
    for bad in [&b"0 a 1 2 3 ||"[..], &header(0, true, false, 0, 0)] {
        assert!(matches!(error_of(bad), WireError::Malformed { .. }));
    }
}

proptest! {
    #[test]
    fn frames_round_trip(
        turns in prop::collection::vec(prop::array::uniform4(-1.0_f32..1.0), BONES), seq in any::<u32>()
    ) {
        let joints = turns.iter().enumerate().filter_map(|(id, turn)| {
            let norm = turn.iter().map(|v| v * v).sum::<f32>().sqrt();
            (norm > 0.1).then(|| Joint::new(id as u16, turn.map(|v| v / norm), [0.1, 0.2, 0.3]))
        });
        let sent = PoseUpdate { seq: Some(seq), joints: joints.collect(), ..PoseUpdate::default() };
        let mut out = Vec::new();
        encode_frame(&sent, &mut out).unwrap();
        let frames = decoded(&mut AxisDecoder::default(), &out).frames;
        prop_assert_eq!(frames[0].seq, Some(seq));
        for joint in &sent.joints {
            let back = frames[0].joint(joint.id).unwrap();
            let dot: f32 = joint.rotation.iter().zip(back.rotation).map(|(a, b)| a * b).sum();
            prop_assert!(dot.abs() > 0.99999, "{:?} {:?}", joint, back);
        }
    }
}
