//! MXTP02 as the vendor's document lays it out (MVN real-time network streaming protocol specification), byte by byte.

use anticip_wire::xsens::{SEGMENT_NAMES, XsensAssembler};
use anticip_wire::{PoseUpdate, SkeletonUpdate, Source, Update, WireError, recognise};

/// A header quoted by a public reader of MVN (a plug-in for Godot), from a suit with gloves.
const QUOTED: [u8; 24] = [
    0x4d, 0x58, 0x54, 0x50, 0x30, 0x32, 0x00, 0x00, 0x03, 0xef, 0x80, 0x3f, 0x00, 0x00, 0x10, 0x63, 0x00,
    0x17, 0x00, 0x28, 0x00, 0x00, 0x07, 0xe0,
];

/// An item: segment, position, rotation.
fn item(id: u32, place: [f32; 3], turn: [f32; 4]) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    place
        .iter()
        .chain(&turn)
        .for_each(|v| out.extend(v.to_be_bytes()));
    out
}

const STILL: [f32; 4] = [1.0, 0.0, 0.0, 0.0];

/// A body in T-pose at `at` (x forward, y to the left, z up), rotated by `turn` about the vertical.
fn body(turn: f32) -> Vec<(u32, [f32; 3], [f32; 4])> {
    let (sin, cos) = (turn.sin(), turn.cos());
    let facing = [(turn / 2.0).cos(), 0.0, 0.0, (turn / 2.0).sin()];
    let place = |id: u32| -> [f32; 3] {
        let [x, y, z] = match id {
            1 => [0.0, 0.0, 0.95],
            2..=5 => [0.0, 0.0, 0.95 + 0.1 * (id - 1) as f32],
            6 => [0.0, 0.0, 1.5],
            7 => [0.0, 0.0, 1.6],
            8..=11 => [0.0, -0.03 - 0.2 * (id - 8) as f32, 1.45],
            12..=15 => [0.0, 0.03 + 0.2 * (id - 12) as f32, 1.45],
            16..=18 => [0.0, -0.1, 0.9 - 0.4 * (id - 16) as f32],
            19 => [0.15, -0.1, 0.02],
            20..=22 => [0.0, 0.1, 0.9 - 0.4 * (id - 20) as f32],
            _ => [0.15, 0.1, 0.02],
        };
        [cos * x - sin * y, sin * x + cos * y, z]
    };
    (1..=23).map(|id| (id, place(id), facing)).collect()
}

fn datagram(header: [u8; 24], items: &[(u32, [f32; 3], [f32; 4])]) -> Vec<u8> {
    let mut out = header.to_vec();
    out[11] = items.len() as u8;
    items
        .iter()
        .for_each(|&(id, place, turn)| out.extend(item(id, place, turn)));
    out
}

fn header(counter: u32, part: u8, time_ms: u32, character: u8) -> [u8; 24] {
    let mut out = [0; 24];
    out[..6].copy_from_slice(b"MXTP02");
    out[6..10].copy_from_slice(&counter.to_be_bytes());
    out[10] = part;
    out[12..16].copy_from_slice(&time_ms.to_be_bytes());
    out[16] = character;
    out[17] = 23;
    out
}

#[derive(Default)]
struct Received {
    skeletons: Vec<SkeletonUpdate>,
    frames: Vec<PoseUpdate>,
    late: Vec<u32>,
}

fn feed(source: &mut XsensAssembler, received: &mut Received, bytes: &[u8]) {
    source
        .decode(bytes, &mut |update| match update {
            Update::Skeleton(skeleton) => received.skeletons.push(skeleton.clone()),
            Update::Frame(frame) => received.frames.push(frame.clone()),
            Update::Late(number) => received.late.push(number),
            Update::Trackers(update) => panic!("{update:?}"),
        })
        .unwrap();
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5)
}

#[test]
fn a_suit_with_gloves_is_understood_from_the_quoted_header() {
    let mut items = body(0.0);
    items.extend((24..=63).map(|id| (id, [9.0; 3], STILL)));
    let bytes = datagram(QUOTED, &items);
    assert_eq!((bytes.len(), recognise(&bytes)), (24 + 0x7e0, Some("xsens")));
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    feed(&mut source, &mut received, &bytes);
    let frame = &received.frames[0];
    assert_eq!(
        (frame.seq, frame.time, frame.joints.len()),
        (Some(1007), Some(4.195), 23)
    );
    // Forward is +z, the left is +x, up is +y.
    assert_eq!(frame.root, Some([0.0, 0.95, 0.0]));
    let skeleton = &received.skeletons[0];
    let offset = |name: &str| skeleton.offsets[SEGMENT_NAMES.iter().position(|n| *n == name).unwrap()];
    assert!(close(&offset("Left Upper Arm"), &[0.2, 0.0, 0.0]));
    assert!(close(&offset("Right Toe"), &[0.0, -0.08, 0.15]));
    assert!(skeleton.rest.iter().all(|q| *q == STILL));
}

#[test]
fn world_rotations_become_local() {
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    let mut items = body(0.7);
    // The left forearm (14) and its hand turned by 90 degrees about the world's vertical, on top.
    let half = (0.7f32 + std::f32::consts::FRAC_PI_2) / 2.0;
    items[13].2 = [half.cos(), 0.0, 0.0, half.sin()];
    items[14].2 = items[13].2;
    feed(
        &mut source,
        &mut received,
        &datagram(header(5, 0x80, 20, 0), &items),
    );
    let local = |id: u16| received.frames[0].joint(id).unwrap().rotation;
    assert!(close(&local(0), &[0.35f32.cos(), 0.0, 0.35f32.sin(), 0.0]));
    assert!(close(&local(12), &STILL) && close(&local(14), &STILL));
    let quarter = std::f32::consts::FRAC_1_SQRT_2;
    assert!(close(&local(13), &[quarter, 0.0, quarter, 0.0]));
}

#[test]
fn centimetres_and_metres_are_distinguished() {
    // An upright adult, and about the size of a curled-up child.
    for size in [1.0, 0.2] {
        units_are_detected_for(size);
    }
}

fn units_are_detected_for(size: f32) {
    let received = [1.0, 100.0].map(|unit| {
        let (mut source, mut received) = (XsensAssembler::default(), Received::default());
        // A single misplaced segment does not change the detected unit.
        for (counter, astray) in [(1, 14), (2, 0)] {
            let mut items = body(0.4);
            let hips = items[0].1;
            for item in &mut items {
                let astray = if item.0 == astray { 40.0 } else { 0.0 };
                item.1 = [0, 1, 2].map(|i| (hips[i] + size * (item.1[i] - hips[i]) + astray) * unit);
            }
            feed(
                &mut source,
                &mut received,
                &datagram(header(counter, 0x80, 0, 0), &items),
            );
        }
        received
    });
    let [metres, centimetres] = &received;
    assert_eq!(metres.frames[1].root, Some([0.0, 0.95, 0.0]));
    for (a, b) in metres.frames.iter().zip(&centimetres.frames) {
        assert!(close(&a.root.unwrap(), &b.root.unwrap()));
        for (a, b) in a.joints.iter().zip(&b.joints) {
            assert!(close(&a.position, &b.position) && a.rotation == b.rotation);
        }
    }
    let offsets = |received: &Received| received.skeletons[0].offsets.concat();
    assert!(close(&offsets(metres), &offsets(centimetres)));
}

#[test]
fn a_tracked_object_does_not_keep_a_body_away() {
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    for step in 0..5 {
        // An object is a character with one segment; the body comes in two datagrams.
        let object = source.decode(&datagram(header(step, 0x80, 0, 1), &body(0.0)[..1]), &mut |_| ());
        assert_eq!(object.is_err(), step == 0);
        for (part, items) in [(0, 0..12), (0x81, 12..23)] {
            let bytes = datagram(header(step, part, 0, 0), &body(0.0)[items]);
            feed(&mut source, &mut received, &bytes);
        }
    }
    let numbers: Vec<_> = received.frames.iter().map(|f| f.seq.unwrap()).collect();
    assert_eq!((numbers, received.skeletons.len()), (vec![0, 1, 2, 3, 4], 1));
}

#[test]
fn a_sample_in_several_datagrams_is_one_frame_in_any_order() {
    let items = body(0.3);
    let (first, second) = (
        datagram(header(8, 0x00, 160, 0), &items[..12]),
        datagram(header(8, 0x81, 160, 0), &items[12..]),
    );
    for parts in [[&first, &second], [&second, &first]] {
        let (mut source, mut received) = (XsensAssembler::default(), Received::default());
        parts
            .iter()
            .for_each(|bytes| feed(&mut source, &mut received, bytes));
        feed(&mut source, &mut received, &first);
        assert_eq!((received.frames.len(), received.frames[0].joints.len()), (1, 23));
    }
    // If one is lost, the rest is a frame once the next sample begins; joints without a parent are left out.
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    feed(
        &mut source,
        &mut received,
        &datagram(header(7, 0x80, 140, 0), &items),
    );
    feed(&mut source, &mut received, &second);
    feed(
        &mut source,
        &mut received,
        &datagram(header(9, 0x80, 180, 0), &items),
    );
    let counts: Vec<_> = received
        .frames
        .iter()
        .map(|f| (f.seq.unwrap(), f.joints.len()))
        .collect();
    assert_eq!(counts, [(7, 23), (8, 8), (9, 23)]);
}

#[test]
fn counters_wrap_and_restart_and_late_datagrams_are_left_out() {
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    for counter in [u32::MAX - 1, u32::MAX, 0, u32::MAX, 1, 900, 2] {
        feed(
            &mut source,
            &mut received,
            &datagram(header(counter, 0x80, 0, 0), &body(0.0)),
        );
    }
    let counters: Vec<_> = received.frames.iter().map(|f| f.seq.unwrap()).collect();
    assert_eq!(counters, [u32::MAX - 1, u32::MAX, 0, 1, 900, 2]);
    assert_eq!(received.late, [u32::MAX]);
    // A restarted stream may be another performer's.
    assert_eq!(received.skeletons.len(), 2);
}

#[test]
fn a_counter_that_stands_still_gives_a_frame_for_each_time() {
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    for time_ms in [0, 20, 20, 40, 60] {
        feed(
            &mut source,
            &mut received,
            &datagram(header(0, 0x80, time_ms, 0), &body(0.3)),
        );
    }
    let result: Vec<_> = received.frames.iter().map(|f| (f.seq, f.time)).collect();
    let expected = [0.0, 0.02, 0.04, 0.06].map(Some);
    assert_eq!(
        result,
        [Some(0), Some(1), Some(2), Some(3)]
            .into_iter()
            .zip(expected)
            .collect::<Vec<_>>()
    );
}

#[test]
fn new_content_is_a_frame_if_counter_and_time_stand_still() {
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    for turn in [0.1, 0.2, 0.2, 0.3] {
        feed(
            &mut source,
            &mut received,
            &datagram(header(0, 0x80, 0, 0), &body(turn)),
        );
    }
    let result: Vec<_> = received.frames.iter().map(|f| (f.seq, f.time)).collect();
    assert_eq!(result, [0, 1, 2].map(|number| (Some(number), Some(0.0))));
}

#[test]
fn skipping_counters_become_consecutive() {
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    for counter in [8, 12, 16, 24, 28, 29, 30] {
        feed(
            &mut source,
            &mut received,
            &datagram(header(counter, 0x80, 0, 0), &body(0.0)),
        );
    }
    let numbers: Vec<_> = received.frames.iter().map(|f| f.seq.unwrap()).collect();
    assert_eq!(numbers, [8, 9, 10, 12, 13, 14, 15]);
}

#[test]
fn late_samples_are_reported_once_each() {
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    // Every fourth sample is sent, in two datagrams.
    let parts = [
        (8, 0),
        (8, 0x81),
        (12, 0),
        (12, 0x81),
        (20, 0),
        (20, 0x81),
        (16, 0),
        (16, 0x81),
        (12, 0x81),
        (20, 0),
        (20, 0x81),
        (24, 0),
        (24, 0x81),
    ];
    for (counter, part) in parts {
        let bytes = datagram(header(counter, part, 0, 0), &body(0.0));
        feed(&mut source, &mut received, &bytes);
    }
    let numbers: Vec<_> = received.frames.iter().map(|f| f.seq.unwrap()).collect();
    assert_eq!((numbers, received.late), (vec![8, 9, 11, 12], vec![10, 9, 11]));
}

#[test]
fn one_character_is_decoded_until_it_is_absent() {
    // With time codes that run, stand still, or are far apart.
    for (running, ahead) in [(20, 0), (0, 0), (20, 10_000)] {
        let (mut source, mut received) = (XsensAssembler::default(), Received::default());
        for step in 0..250 {
            for character in [3, 4] {
                if character == 4 || step < 10 {
                    let (turn, ahead) = if character == 3 { (0.0, 0) } else { (1.0, ahead) };
                    let header = header(step, 0x80, running * step + ahead, character);
                    feed(&mut source, &mut received, &datagram(header, &body(turn)));
                }
            }
        }
        let turned: Vec<_> = received
            .frames
            .iter()
            .map(|f| f.joints[0].rotation[2] > 0.1)
            .collect();
        // 3 was last received at 9; 4 takes over after 200 datagrams.
        assert_eq!(turned.iter().filter(|t| !**t).count(), 10);
        assert_eq!(turned.iter().filter(|t| **t).count(), 250 - 209);
        assert!(turned.is_sorted());
        assert_eq!(received.skeletons.len(), 2);
    }
}

#[test]
fn a_bad_segment_after_a_restart_keeps_the_active_character() {
    let (mut source, mut received) = (XsensAssembler::default(), Received::default());
    for (counter, bad) in [(900, false), (901, false), (2, true), (3, false)] {
        let mut items = body(0.0);
        if bad {
            items[8].1 = [f32::NAN; 3];
        }
        let bytes = datagram(header(counter, 0x80, 0, 3), &items);
        let result = source.decode(&bytes, &mut |update| {
            if let Update::Frame(frame) = update {
                received.frames.push(frame.clone());
            }
        });
        let (found, needed) = (22, 23);
        let partial = Err(WireError::Partial { found, needed });
        assert_eq!(result, if bad { partial } else { Ok(()) });
        feed(
            &mut source,
            &mut received,
            &datagram(header(counter, 0x80, 0, 4), &body(1.0)),
        );
    }
    let played: Vec<_> = received
        .frames
        .iter()
        .map(|f| (f.seq.unwrap(), f.joints[0].rotation[2]))
        .collect();
    assert_eq!(played, [(900, 0.0), (901, 0.0), (3, 0.0)]);
}

#[test]
fn other_messages_and_truncation_are_distinguished() {
    let decode = |bytes: &[u8]| XsensAssembler::default().decode(bytes, &mut |_| ()).unwrap_err();
    let good = datagram(header(1, 0x80, 0, 0), &body(0.0));
    for message in ["01", "05", "12", "20"] {
        let mut other = good.clone();
        other[4..6].copy_from_slice(message.as_bytes());
        assert_eq!(recognise(&other), Some("xsens"));
        let result = decode(&other).to_string();
        assert!(result.contains("Position + Orientation (Quaternion)"), "{result}");
        // Beside a pose they are ignored.
        let (mut source, mut received) = (XsensAssembler::default(), Received::default());
        for bytes in [&good, &other] {
            feed(&mut source, &mut received, bytes);
        }
        assert_eq!(received.frames.len(), 1);
    }
    assert!(
        decode(b"MXTP01............................")
            .to_string()
            .contains("MXTP01 (Euler angles)")
    );
    for end in 0..good.len() {
        let error = decode(&good[..end]);
        assert!(
            matches!(error, WireError::Alien { .. } | WireError::Truncated { .. }),
            "{end}: {error}"
        );
    }
}

#[test]
fn a_body_that_is_never_complete_is_reported() {
    let mut source = XsensAssembler::default();
    let mut decode =
        |counter, items: &[_]| source.decode(&datagram(header(counter, 0x80, 0, 0), items), &mut |_| ());
    let (found, needed) = (15, 23);
    let partial = Err(WireError::Partial { found, needed });
    assert_eq!(decode(1, &body(0.0)[..15]), partial);
    // Once its bones are known, joints may be missing.
    assert_eq!(decode(2, &body(0.0)), Ok(()));
    assert_eq!(decode(3, &body(0.0)[..15]), Ok(()));
}
