//! Network faults and foreign datagrams: counted and survived.

use crate::common::{MS, Sender, declaration, encoded, feed_all, front, native_frame, update};
use anticip_motion::{Source, standard};
use anticip_wire::{Tracker, mocopi, native, vrchat};
use proptest::prelude::*;

#[test]
fn doubled_and_reordered_packets_are_counted_and_dropped() {
    let xsens = Source::from_name("xsens").expect("a protocol");
    for source in [Source::Mocopi, Source::Msgpack, xsens] {
        let mut front = front(source);
        let all = Sender::new(source).stream(20, 50.0);
        let order = [0, 1, 1, 2, 4, 3, 3, 5, 0, 6];
        let kept: Vec<_> = order.iter().map(|&i: &usize| all[i].clone()).collect();
        let outputs = feed_all(&mut front, &kept);
        let seqs: Vec<_> = outputs.iter().map(|o| o.seq).collect();
        assert_eq!(seqs, [0, 1, 2, 4, 5, 6]);
        let c = front.counters();
        assert_eq!((c.doubled, c.reordered, c.lost, c.filled), (3, 1, 0, 1));
    }
}

#[test]
fn a_number_that_stands_still_counts_nothing_until_it_goes_on() {
    let sender = Sender::new(Source::Msgpack);
    // Numbers stand still from this frame on, the time with them or not, the whole frame or not; all are sent twice.
    for (from, timed, still) in [
        (0, true, false),
        (0, false, false),
        (100, true, false),
        (100, false, false),
        (100, true, true),
    ] {
        let (mut front, mut outputs) = (front(Source::Msgpack), 0);
        for i in 0..600u32 {
            let stands = (from..400).contains(&i);
            let at = if stands && still { from } else { i };
            let t = if stands && (still || !timed) { from } else { i };
            let pose = update(&sender.body, f64::from(at) / 50.0);
            let frame = native_frame(if stands { from } else { i }, f64::from(t) / 50.0, &pose);
            for _ in 0..2 {
                outputs += u32::from(front.feed(&frame, i64::from(i) * 20 * MS, "").is_some());
            }
        }
        let c = *front.counters();
        if still {
            // A halted sender repeats its last frame.
            assert_eq!((c.frames, c.lost, c.resets), (301, 299, 2), "{from} {timed}");
            continue;
        }
        let missed = if timed { 15 } else { 50 };
        assert!(
            c.frames >= 600 - missed && c.frames <= 600,
            "{from} {timed}: {c:?}"
        );
        assert!(outputs >= 600 - missed as u32, "{from} {timed}: {outputs}");
        assert_eq!((c.lost, c.strange), (0, 0), "{from} {timed}");
    }
}

#[test]
fn truncated_malformed_and_alien_packets_are_counted_and_survived() {
    let sender = Sender::new(Source::Mocopi);
    let mut front = front(Source::Mocopi);
    let good = sender.frame(0, 0.0);
    assert!(front.feed(&good, 0, "").is_some());
    assert!(front.feed(&good[..good.len() / 2], 1, "").is_none());
    assert!(front.feed(b"hello", 2, "").is_none());
    assert!(front.feed(b"", 3, "").is_none());
    assert!(
        front
            .feed(&Sender::new(Source::Vmc).frame(0, 0.0), 4, "")
            .is_none()
    );
    let mut pose = update(&sender.body, 0.0);
    pose.seq = Some(1);
    pose.joints[26].id = 200;
    let strange = encoded(|out| mocopi::encode_frame(&pose, 0, None, out));
    assert!(front.feed(&strange, 5, "").is_none());
    let c = *front.counters();
    assert!(c.truncated >= 1 && c.alien >= 1 && c.malformed >= 1);
    assert_eq!(c.truncated + c.alien + c.malformed, 5);
    assert_eq!(front.feed(&sender.frame(1, 0.02), 6, "").map(|o| o.seq), Some(1));
}

#[test]
fn one_joint_without_a_rotation_is_held_whether_or_not_a_skeleton_was_told() {
    let sender = Sender::new(Source::Msgpack);
    for is_declared in [false, true] {
        let mut front = front(Source::Msgpack);
        if is_declared {
            let skeleton = declaration(&standard::canonical(), None);
            front.feed(&encoded(|out| native::encode_skeleton(&skeleton, out)), 0, "");
        }
        for i in 0..60u32 {
            let t = f64::from(i) * 0.02;
            let mut pose = update(&sender.body, t);
            match i {
                20..30 => pose.joints[12].rotation = [0.0; 4],
                30..40 => pose.joints[12].rotation = [f32::NAN; 4],
                40..50 => pose.root = Some([f32::NAN; 3]),
                _ => {}
            }
            let frame = native_frame(i, t, &pose);
            assert!(
                front.feed(&frame, i64::from(i) * 20 * MS, "").is_some(),
                "{is_declared} {i}"
            );
        }
        assert_eq!((front.counters().malformed, front.counters().lost), (0, 0));
    }
    // Too few joints are not a body, nor are 22 of which none is usable.
    for (joints, value) in [(21, 1.0), (22, 0.0), (23, 1.0)] {
        let frame = encoded(|out| native::encode_frame(0, 0.0, &vec![[value; 4]; joints], None, out));
        assert!(front(Source::Msgpack).feed(&frame, 0, "").is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Datagrams that are cut, doubled, swapped, altered and mixed with noise cause no panic, and the output is
    /// finite.
    #[test]
    fn nothing_in_a_datagram_can_harm(
        kind in 0..3usize,
        faults in prop::collection::vec((0..8u8, any::<u32>(), any::<u8>(), -60..60i32), 1..80),
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let source = [Source::Mocopi, Source::Vmc, Source::Msgpack][kind];
        let sender = Sender::new(source);
        let mut front = front(source);
        let (mut number, mut fed) = (0u32, 0);
        for (fault, at, byte, jump) in faults {
            number = number.wrapping_add(1);
            let mut datagram = sender.frame(number, f64::from(number) * 0.02);
            let place = at as usize % datagram.len();
            match fault {
                0 => datagram.truncate(place),
                1 => datagram[place] ^= byte | 1,
                2 => datagram = noise.clone(),
                3 => number = number.wrapping_add_signed(jump),
                4 => datagram[place..].fill(byte),
                5 => datagram.extend_from_slice(&noise),
                6 => number = at,
                _ => {}
            }
            for _ in 0..1 + fault % 2 {
                fed += 1;
                if let Some(out) = front.feed(&datagram, i64::from(at) * MS, "") {
                    prop_assert!(out.rows.len() <= 1000);
                    prop_assert!(out.rows.iter().flatten().all(|v| v.is_finite()));
                    prop_assert!(out.scalars.iter().all(|v| v.is_finite()));
                    prop_assert!(out.root.iter().chain(out.poses.iter().flatten().flatten()).all(|v| v.is_finite()));
                }
            }
        }
        let c = front.counters();
        prop_assert_eq!(c.packets, fed);
        prop_assert!(c.emitted >= c.filled);
    }
}

#[test]
fn a_foot_that_is_first_seen_at_its_hip_breaks_nothing() {
    // Within a rounding error, so that the leg is measured as a few nanometres long.
    let thigh = [0.09, -0.05];
    let mut front = front(Source::from_name("vrchat").expect("known"));
    for i in 0..60u16 {
        let lift = 0.01 * f32::from(i);
        let [x, y] = if i < 4 { thigh } else { [0.1, lift - 0.9] };
        let places = [[0.0, 0.0], [x, y], [-x, y], [0.1, 0.5], [-0.1, 0.5], [0.0, 1.3]];
        let trackers = places.map(|[x, y]| Tracker {
            rotation: Some([0.0, 0.0, 1.0, 0.0]),
            position: Some([x, y, 0.0]),
            ..Tracker::default()
        });
        let frame = encoded(|out| vrchat::encode_frame(&trackers, out));
        front.feed(&frame, i64::from(i) * 20 * MS, "");
    }
    assert!(front.counters().emitted > 50);
}
