//! MXTP02 as the vendor's document lays it out (MVN real-time network streaming protocol specification), byte by byte.

use crate::common::{decode, is_close};
use crate::invariants::Updates;
use anticip_wire::xsens::{SEGMENT_NAMES, XsensAssembler};
use anticip_wire::{WireError, recognise};

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

/// A decoder and what it delivered.
#[derive(Default)]
struct Stream {
    source: XsensAssembler,
    received: Updates,
}

impl Stream {
    fn feed(&mut self, bytes: &[u8]) {
        self.received.decode(&mut self.source, bytes).unwrap();
    }

    /// Feeds a sample in a single datagram, of character 0.
    fn feed_sample(&mut self, counter: u32, time_ms: u32, items: &[(u32, [f32; 3], [f32; 4])]) {
        self.feed(&datagram(header(counter, 0x80, time_ms, 0), items));
    }

    fn numbers(&self) -> Vec<u32> {
        let frames = self.received.frames.iter();
        frames.map(|frame| frame.seq.unwrap()).collect()
    }

    fn times(&self) -> Vec<f64> {
        let frames = self.received.frames.iter();
        frames.map(|frame| frame.time.unwrap()).collect()
    }
}

fn close(a: &[f32], b: &[f32]) -> bool {
    is_close(a, b, 1e-5)
}

#[test]
fn a_suit_with_gloves_is_understood_from_the_quoted_header() {
    let mut items = body(0.0);
    items.extend((24..=63).map(|id| (id, [9.0; 3], STILL)));
    let bytes = datagram(QUOTED, &items);
    assert_eq!((bytes.len(), recognise(&bytes)), (24 + 0x7e0, Some("xsens")));
    let mut stream = Stream::default();
    stream.feed(&bytes);
    let frame = &stream.received.frames[0];
    assert_eq!((frame.seq, frame.time), (Some(1007), Some(4.195)));
    assert_eq!(frame.joints.len(), 23);
    // Forward is +z, the left is +x, up is +y.
    assert_eq!(frame.root, Some([0.0, 0.95, 0.0]));
    let skeleton = &stream.received.skeletons[0];
    let offset = |name: &str| skeleton.offsets[SEGMENT_NAMES.iter().position(|n| *n == name).unwrap()];
    assert!(close(&offset("Left Upper Arm"), &[0.2, 0.0, 0.0]));
    assert!(close(&offset("Right Toe"), &[0.0, -0.08, 0.15]));
    assert!(skeleton.rest.iter().all(|q| *q == STILL));
}

#[test]
fn world_rotations_become_local() {
    let mut stream = Stream::default();
    let mut items = body(0.7);
    // The left forearm (14) and its hand turned by 90 degrees about the world's vertical, on top.
    let half = (0.7f32 + std::f32::consts::FRAC_PI_2) / 2.0;
    items[13].2 = [half.cos(), 0.0, 0.0, half.sin()];
    items[14].2 = items[13].2;
    stream.feed_sample(5, 20, &items);
    let local = |id: u16| stream.received.frames[0].joint(id).unwrap().rotation;
    assert!(close(&local(0), &[0.35f32.cos(), 0.0, 0.35f32.sin(), 0.0]));
    assert!(close(&local(12), &STILL) && close(&local(14), &STILL));
    let quarter = std::f32::consts::FRAC_1_SQRT_2;
    assert!(close(&local(13), &[quarter, 0.0, quarter, 0.0]));
}

fn units_are_detected_for(size: f32) {
    let received = [1.0, 100.0].map(|unit| {
        let mut stream = Stream::default();
        // A single misplaced segment does not change the detected unit.
        for (counter, astray) in [(1, 14), (2, 0)] {
            let mut items = body(0.4);
            let hips = items[0].1;
            for item in &mut items {
                let astray = if item.0 == astray { 40.0 } else { 0.0 };
                item.1 = [0, 1, 2].map(|i| (hips[i] + size * (item.1[i] - hips[i]) + astray) * unit);
            }
            stream.feed_sample(counter, 0, &items);
        }
        stream.received
    });
    let [metres, centimetres] = &received;
    assert_eq!(metres.frames[1].root, Some([0.0, 0.95, 0.0]));
    for (a, b) in metres.frames.iter().zip(&centimetres.frames) {
        assert!(close(&a.root.unwrap(), &b.root.unwrap()));
        for (a, b) in a.joints.iter().zip(&b.joints) {
            assert!(close(&a.position, &b.position) && a.rotation == b.rotation);
        }
    }
    let offsets = |received: &Updates| received.skeletons[0].offsets.concat();
    assert!(close(&offsets(metres), &offsets(centimetres)));
}

#[test]
fn centimetres_and_metres_are_distinguished() {
    // An upright adult, and about the size of a curled-up child.
    [1.0, 0.2].into_iter().for_each(units_are_detected_for);
}

#[test]
fn a_tracked_object_does_not_keep_a_body_away() {
    let mut stream = Stream::default();
    for step in 0..5 {
        // An object is a character with one segment; the body comes in two datagrams.
        let object = datagram(header(step, 0x80, 0, 1), &body(0.0)[..1]);
        let object = decode(&mut stream.source, &object);
        assert_eq!(object.is_err(), step == 0);
        for (part, items) in [(0, 0..12), (0x81, 12..23)] {
            let bytes = datagram(header(step, part, 0, 0), &body(0.0)[items]);
            stream.feed(&bytes);
        }
    }
    assert_eq!(stream.numbers(), [0, 1, 2, 3, 4]);
    assert_eq!(stream.received.skeletons.len(), 1);
}

#[test]
fn a_sample_in_several_datagrams_is_one_frame_in_any_order() {
    let items = body(0.3);
    let first = datagram(header(8, 0x00, 160, 0), &items[..12]);
    let second = datagram(header(8, 0x81, 160, 0), &items[12..]);
    for parts in [[&first, &second, &first], [&second, &first, &first]] {
        let mut stream = Stream::default();
        parts.into_iter().for_each(|bytes| stream.feed(bytes));
        assert_eq!(stream.numbers(), [8]);
        assert_eq!(stream.received.frames[0].joints.len(), 23);
    }
    // If one is lost, the rest is a frame once the next sample begins; joints without a parent are left out.
    let mut stream = Stream::default();
    stream.feed_sample(7, 140, &items);
    stream.feed(&second);
    stream.feed_sample(9, 180, &items);
    let joints: Vec<_> = stream.received.frames.iter().map(|f| f.joints.len()).collect();
    assert_eq!((stream.numbers(), joints), (vec![7, 8, 9], vec![23, 8, 23]));
}

#[test]
fn counters_wrap_and_restart_and_late_datagrams_are_left_out() {
    let mut stream = Stream::default();
    for counter in [u32::MAX - 1, u32::MAX, 0, u32::MAX, 1, 900, 2] {
        stream.feed_sample(counter, 0, &body(0.0));
    }
    assert_eq!(stream.numbers(), [u32::MAX - 1, u32::MAX, 0, 1, 900, 2]);
    assert_eq!(stream.received.late, [u32::MAX]);
    // A restarted stream may be another performer's.
    assert_eq!(stream.received.skeletons.len(), 2);
}

#[test]
fn a_counter_that_stands_still_gives_a_frame_for_each_time() {
    let mut stream = Stream::default();
    for time_ms in [0, 20, 20, 40, 60] {
        stream.feed_sample(0, time_ms, &body(0.3));
    }
    assert_eq!(stream.numbers(), [0, 1, 2, 3]);
    assert_eq!(stream.times(), [0.0, 0.02, 0.04, 0.06]);
}

#[test]
fn new_content_is_a_frame_if_counter_and_time_stand_still() {
    let mut stream = Stream::default();
    for turn in [0.1, 0.2, 0.2, 0.3] {
        stream.feed_sample(0, 0, &body(turn));
    }
    assert_eq!(stream.numbers(), [0, 1, 2]);
    assert_eq!(stream.times(), [0.0; 3]);
}

#[test]
fn skipping_counters_become_consecutive() {
    let mut stream = Stream::default();
    for counter in [8, 12, 16, 24, 28, 29, 30] {
        stream.feed_sample(counter, 0, &body(0.0));
    }
    assert_eq!(stream.numbers(), [8, 9, 10, 12, 13, 14, 15]);
}

#[test]
fn late_samples_are_reported_once_each() {
    let mut stream = Stream::default();
    // Every fourth sample is sent, in two datagrams.
    let (first, both) = (&[0][..], &[0, 0x81][..]);
    for (counter, parts) in [
        (8, both),
        (12, both),
        (20, both),
        (16, both),
        (12, &both[1..]),
        (20, both),
        (24, both),
        (28, first),
    ] {
        for part in parts {
            stream.feed(&datagram(header(counter, *part, 0, 0), &body(0.0)));
        }
    }
    assert_eq!(stream.numbers(), [8, 9, 11, 12]);
    assert_eq!(stream.received.late, [10, 9, 11]);
}

#[test]
fn one_character_is_decoded_until_it_is_absent() {
    // With time codes that run, stand still, or are far apart.
    for (running, ahead) in [(20, 0), (0, 0), (20, 10_000)] {
        let mut stream = Stream::default();
        for step in 0..250 {
            for character in [3, 4] {
                if character == 4 || step < 10 {
                    let (turn, ahead) = if character == 3 { (0.0, 0) } else { (1.0, ahead) };
                    let header = header(step, 0x80, running * step + ahead, character);
                    stream.feed(&datagram(header, &body(turn)));
                }
            }
        }
        let frames = stream.received.frames.iter();
        let turned: Vec<_> = frames.map(|f| f.joints[0].rotation[2] > 0.1).collect();
        // 3 was last received at 9; 4 takes over after 200 datagrams.
        assert_eq!(turned.iter().filter(|t| !**t).count(), 10);
        assert_eq!(turned.iter().filter(|t| **t).count(), 250 - 209);
        assert!(turned.is_sorted());
        assert_eq!(stream.received.skeletons.len(), 2);
    }
}

#[test]
fn a_bad_segment_after_a_restart_keeps_the_active_character() {
    let mut stream = Stream::default();
    for (counter, bad) in [(900, false), (901, false), (2, true), (3, false)] {
        let mut items = body(0.0);
        if bad {
            items[8].1 = [f32::NAN; 3];
        }
        let bytes = datagram(header(counter, 0x80, 0, 3), &items);
        let result = stream.received.decode(&mut stream.source, &bytes);
        let (found, needed) = (22, 23);
        let partial = Err(WireError::Partial { found, needed });
        assert_eq!(result, if bad { partial } else { Ok(()) });
        stream.feed(&datagram(header(counter, 0x80, 0, 4), &body(1.0)));
    }
    assert_eq!(stream.numbers(), [900, 901, 3]);
    let mut frames = stream.received.frames.iter();
    assert!(frames.all(|frame| frame.joints[0].rotation[2] == 0.0));
}

#[test]
fn other_messages_and_truncation_are_distinguished() {
    let error_of = |bytes: &[u8]| decode(&mut XsensAssembler::default(), bytes).unwrap_err();
    let good = datagram(header(1, 0x80, 0, 0), &body(0.0));
    for message in ["01", "05", "12", "20"] {
        let mut other = good.clone();
        other[4..6].copy_from_slice(message.as_bytes());
        assert_eq!(recognise(&other), Some("xsens"));
        let result = error_of(&other).to_string();
        assert!(result.contains("Position + Orientation (Quaternion)"), "{result}");
        // Beside a pose they are ignored.
        let mut stream = Stream::default();
        for bytes in [&good, &other] {
            stream.feed(bytes);
        }
        assert_eq!(stream.received.frames.len(), 1);
    }
    let angles = error_of(b"MXTP01............................").to_string();
    assert!(angles.contains("MXTP01 (Euler angles)"), "{angles}");
    for end in 0..good.len() {
        let error = error_of(&good[..end]);
        let is_cut = matches!(error, WireError::Alien { .. } | WireError::Truncated { .. });
        assert!(is_cut, "{end}: {error}");
    }
}

#[test]
fn a_body_that_is_never_complete_is_reported() {
    let mut source = XsensAssembler::default();
    let mut decode = |counter, items: &[_]| {
        let updates = decode(&mut source, &datagram(header(counter, 0x80, 0, 0), items));
        updates.map(|updates| updates.frames.len())
    };
    let (found, needed) = (15, 23);
    let partial = Err(WireError::Partial { found, needed });
    assert_eq!(decode(1, &body(0.0)[..15]), partial);
    // Once its bones are known, joints may be missing.
    assert_eq!(decode(2, &body(0.0)), Ok(1));
    assert_eq!(decode(3, &body(0.0)[..15]), Ok(1));
}
