//! The live front end: from datagrams to rows.

use crate::common::{
    MS, Sender, WINDOW, canonical, declaration, encoded, feed_all, front, native_frame, rows, update,
};
use anticip_geometry::Quat;
use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{Distributor, FrontConfig, FrontOutput, LiveFront, Source, motion_features, standard};
use anticip_wire::{Joint, PoseUpdate, SkeletonUpdate, mocopi, native, vmc};

#[test]
fn every_protocol_gives_the_canonical_motion_frame_by_frame() {
    let xsens = Source::from_name("xsens").expect("known");
    for source in [Source::Mocopi, Source::Vmc, Source::Msgpack, xsens] {
        let mut front = front(source);
        let outputs = feed_all(&mut front, &Sender::new(source).stream(100, 50.0));
        assert_eq!(outputs.len(), 100, "{source:?}");
        for (i, out) in outputs.iter().enumerate() {
            assert_eq!((out.rows.len(), out.seq, out.reset), (1, i as u64, i == 0));
            let (pose, hips) = canonical(i as f64 / 50.0);
            for (q, expected) in out.poses[0].iter().zip(pose) {
                let q = Quat::from_array(q.map(f64::from)).normalize();
                assert!(q.angle_to(expected) < 1e-5);
            }
            assert!((f64::from(out.root[2]) - hips[2]).abs() < 1e-5);
            assert!(out.valid);
        }
        let c = front.counters();
        assert_eq!((c.packets, c.frames, c.emitted, c.resets), (100, 100, 100, 1));
        assert_eq!(
            c.lost + c.doubled + c.reordered + c.malformed + c.alien + c.truncated + c.filled,
            0
        );
    }
}

#[test]
fn what_leaves_is_what_the_batch_makes_of_it() {
    let mut front = front(Source::Mocopi);
    let outputs = feed_all(&mut front, &Sender::new(Source::Mocopi).stream(120, 50.0));
    let poses: Vec<_> = outputs.iter().map(|o| o.poses[0]).collect();
    let roots: Vec<_> = outputs.iter().map(|o| o.root).collect();
    let batch = motion_features(&poses, &roots, &front.mask(), WINDOW).expect("fits");
    let batch: Vec<_> = batch.iter().map(|r| r.map(f32::to_bits)).collect();
    assert_eq!(rows(&outputs), batch);
}

#[test]
fn arrival_does_not_matter() {
    let declaring = ["xsens", "rokoko"].map(|name| Source::from_name(name).expect("known"));
    for source in [
        Source::Mocopi,
        Source::Vmc,
        Source::Msgpack,
        declaring[0],
        declaring[1],
    ] {
        let datagrams = Sender::new(source).stream(60, 33.0);
        let (mut calm, mut rough) = (front(source), front(source));
        let mut last = 0;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (i, datagram) in datagrams.iter().enumerate() {
            let sent = i as i64 * 30 * MS;
            a.extend(calm.feed(datagram, sent, "").cloned());
            last = last.max(77 + sent + (i as i64 * 7919 % 83) * MS);
            b.extend(rough.feed(datagram, last, "").cloned());
        }
        assert!(rows(&a) == rows(&b), "{source:?}");
        let times = |o: &[FrontOutput]| o.iter().map(|o| (o.seq, o.t_source_ns)).collect::<Vec<_>>();
        assert_eq!(times(&a), times(&b));
    }
}

#[test]
fn a_coarse_clock_does_not_delay_a_source_of_50_hz() {
    // VMC's seconds are binary32: their resolution is a quarter of a millisecond after an hour, four after ten hours.
    let sender = Sender::new(Source::Vmc);
    for start in [0.0, 600.0, 3600.0, 20_000.0, 40_000.0] {
        let mut front = front(Source::Vmc);
        for i in 0..100u32 {
            let out = front.feed(&sender.frame(i, start + f64::from(i) * 0.02), 0, "");
            assert_eq!(
                out.map(|o| (o.seq, o.rows.len())),
                Some((u64::from(i), 1)),
                "{start}"
            );
        }
    }
}

#[test]
fn gaps_are_filled_with_the_next_packet_and_long_ones_begin_anew() {
    for (missing, filled, resets) in [(1, 1, 1), (25, 25, 1), (26, 0, 2)] {
        let mut front = front(Source::Mocopi);
        let all = Sender::new(Source::Mocopi).stream(120, 50.0);
        let kept: Vec<_> = all[..50].iter().chain(&all[50 + missing..]).cloned().collect();
        let outputs = feed_all(&mut front, &kept);
        let back = &outputs[50];
        // The frame that ends a gap is held until the next one, which shows the speed of the movement.
        let has_pending = u64::from(missing > 3 && resets == 1);
        assert_eq!(back.rows.len() as u64, filled + 1 + has_pending);
        assert_eq!(back.seq, 50 + missing as u64 + has_pending);
        assert_eq!(back.reset, resets == 2);
        assert_eq!(u64::from(back.filled), filled);
        let c = front.counters();
        assert_eq!((c.lost, c.filled, c.resets), (missing as u64, filled, resets));
        assert_eq!(outputs.len(), kept.len() - has_pending as usize);
        let dance = |i: u64| canonical(i as f64 / 50.0).0;
        if has_pending == 1 {
            // Half a second crossed with the speeds of both its ends is close to the true movement.
            let pose = outputs[50]
                .poses
                .last()
                .expect("a row")
                .map(|q| Quat::from_array(q.map(f64::from)).normalize());
            assert!(
                pose.iter()
                    .zip(dance(back.seq))
                    .all(|(q, d)| q.angle_to(d) < 1e-4)
            );
        }
    }
}

#[test]
fn a_skeleton_that_comes_late_changes_nothing_and_another_one_begins_anew() {
    let sender = Sender::new(Source::Mocopi);
    let mut front = front(Source::Mocopi);
    let datagrams = sender.stream(20, 50.0);
    feed_all(&mut front, &datagrams[..10]);
    let mut own = declaration(&standard::mocopi(), None);
    for offset in &mut own.offsets {
        *offset = offset.map(|v| v * 1.1);
    }
    let skdf = |own: &SkeletonUpdate| encoded(|out| mocopi::encode_skeleton(own, out));
    assert!(front.feed(&skdf(&own), 0, "").is_none());
    let out = front.feed(&datagrams[10], 0, "").expect("a frame");
    assert!(!out.reset && out.seq == 10);
    // The same bones, all rotated: poses now have another meaning.
    own.rest[0] = [0.0, 1.0, 0.0, 0.0];
    assert!(front.feed(&skdf(&own), 0, "").is_none());
    assert!(front.feed(&datagrams[11], 0, "").expect("a frame").reset);
    assert!(!front.feed(&datagrams[12], 0, "").expect("a frame").reset);
    assert_eq!(front.counters().malformed, 0);
}

#[test]
fn a_mocopi_whose_offsets_are_placeholders_plays_with_the_standard_body() {
    let datagrams = Sender::new(Source::Mocopi).stream(120, 50.0);
    for placeholder in [[0.0; 3], [0.0, 0.1, 0.0]] {
        let mut own = declaration(&standard::mocopi(), None);
        own.offsets.fill(placeholder);
        let (mut plain, mut placed) = (front(Source::Mocopi), front(Source::Mocopi));
        let skdf = encoded(|out| mocopi::encode_skeleton(&own, out));
        assert!(placed.feed(&skdf, 0, "").is_none());
        assert!(rows(&feed_all(&mut placed, &datagrams)) == rows(&feed_all(&mut plain, &datagrams)));
        assert_eq!(placed.refusal(), None);
    }
}

fn native_skeleton(skeleton: &SkeletonUpdate) -> Vec<u8> {
    encoded(|out| native::encode_skeleton(skeleton, out))
}

/// A skeleton that is not a body.
fn chair() -> Vec<u8> {
    native_skeleton(&SkeletonUpdate {
        names: vec!["seat".into()],
        parents: vec![-1],
        offsets: vec![[0.0; 3]],
        rest: vec![[1.0, 0.0, 0.0, 0.0]],
        rate: None,
    })
}

#[test]
fn msgpack_takes_any_mapped_skeleton_and_refuses_what_it_cannot_map() {
    let body = Distributor::compile(&standard::mocopi()).expect("maps");
    let mut front = front(Source::Msgpack);
    let frame = |number: u32, t: f64| native_frame(number, t, &update(&body, f64::from(number) / 50.0));
    // 27 joints before any skeleton are of an unknown body.
    assert!(front.feed(&frame(0, 0.0), 0, "").is_none());
    assert_eq!(front.counters().malformed, 1);
    assert_eq!(front.skeleton(), None);
    let skeleton = |rate| native_skeleton(&declaration(&standard::mocopi(), rate));
    assert!(front.feed(&skeleton(Some(50.0)), 0, "").is_none());
    assert_eq!(front.skeleton().map(<[String]>::len), Some(27));
    let mut before = 0;
    for i in 0..80 {
        // Once the rate is measured, a jittery clock does not delay a 50 Hz source.
        let t = f64::from(i) * 0.02 + if i % 2 == 0 { 0.0 } else { -0.004 };
        let out = front
            .feed(&frame(i, t), i64::from(i) * 20 * MS, "")
            .map(|o| (o.seq, o.rows.len()));
        assert!(i < 40 || out == Some((before + 1, 1)), "{i}: {out:?}");
        before = out.map_or(before, |o| o.0);
    }
    assert!(front.feed(&chair(), 0, "").is_none());
    assert_eq!(front.counters().malformed, 2);
    assert!(front.refusal().is_some());
    // Frames of a refused body are not played as another body's.
    for i in 80..85 {
        let at = f64::from(i) * 0.02;
        assert!(front.feed(&frame(i, at), i64::from(i) * 20 * MS, "").is_none());
    }
    assert_eq!(front.counters().refused, 5);
    assert!(front.feed(&skeleton(None), 1710 * MS, "").is_none());
    // Nor are they counted as lost, unlike frame 85.
    front.feed(&frame(86, 1.72), 1720 * MS, "");
    assert_eq!(front.counters().lost, 1);
    front.feed(&frame(88, 1.76), 1760 * MS, "");
    assert_eq!(front.counters().lost, 2);
    // A refused frame that comes again does not reduce the losses; frame 85 does.
    for (late, counted) in [(83, (2, 1, 0)), (85, (1, 1, 1))] {
        front.feed(&frame(late, 0.02 * f64::from(late)), 1770 * MS, "");
        let c = front.counters();
        assert_eq!((c.lost, c.doubled, c.reordered), counted, "{late}");
    }
    assert_eq!(front.counters().refused, 5);
}

#[test]
fn what_comes_twice_of_a_refused_body_is_counted_whatever_its_numbers_are() {
    let mut front = front(Source::Msgpack);
    assert!(front.feed(&chair(), 0, "").is_none());
    // The number stands still, until the times count.
    for i in 0..40 {
        let turned = [1.0, 0.01 * i as f32, 0.0, 0.0];
        let frame = encoded(|out| native::encode_frame(7, 0.02 * f64::from(i), &[turned], None, out));
        for _ in 0..2 {
            assert!(front.feed(&frame, i64::from(i) * 20 * MS, "").is_none());
        }
    }
    let c = front.counters();
    assert_eq!((c.refused + c.doubled, c.refused > 20, c.frames), (80, true, 0));
}

fn vmc_frame(pose: &PoseUpdate) -> Vec<u8> {
    encoded(|out| vmc::encode_frame(pose, out))
}

#[test]
fn a_vmc_model_without_some_bones_has_them_masked() {
    let body = Distributor::compile(&standard::vmc()).expect("maps");
    let upper_chest = 54;
    let mut front = front(Source::Vmc);
    for i in 0..10 {
        let mut pose = update(&body, f64::from(i) * 0.02);
        pose.time = Some(f64::from(i) * 0.02);
        pose.joints.retain(|j| j.id != upper_chest);
        let out = front.feed(&vmc_frame(&pose), 0, "").expect("a frame");
        assert_eq!(out.reset, i == 0);
        assert!(out.valid);
        assert_eq!(out.poses[0][3], [1.0, 0.0, 0.0, 0.0]);
    }
    let absent: Vec<usize> = (0..JOINT_COUNT).filter(|&j| !front.mask()[j]).collect();
    assert_eq!(absent, [3]);
}

#[test]
fn a_frame_between_two_of_which_one_lacks_joints_lacks_them_too() {
    // Five of 22 joints are missing at 25 Hz; the first such frame is tolerated. Of 32 grid frames, 14 without them
    // are within a tenth of the window, 15 are more.
    let body = Distributor::compile(&standard::vmc()).expect("maps");
    let lost = ["LeftShoulder", "LeftUpperArm", "LeftLowerArm", "LeftHand", "Head"];
    let lost = lost.map(|name| {
        vmc::BONE_NAMES
            .iter()
            .position(|bone| *bone == name)
            .expect("a bone") as u16
    });
    let stays_valid = |frames: u32| {
        let mut front = front(Source::Vmc);
        (0..80).all(|i| {
            let t = f64::from(i) * 0.04;
            let mut pose = update(&body, t);
            pose.time = Some(t);
            if (40..40 + frames).contains(&i) {
                pose.joints.retain(|joint| !lost.contains(&joint.id));
            }
            front
                .feed(&vmc_frame(&pose), i64::from(i) * 40 * MS, "")
                .is_none_or(|out| out.valid)
        })
    };
    assert!(stays_valid(1 + 6));
    assert!(!stays_valid(1 + 7));
}

#[test]
fn a_vmc_pose_in_two_bundles_is_one_pose() {
    let body = Distributor::compile(&standard::vmc()).expect("maps");
    let mut front = front(Source::Vmc);
    let mut last = 0;
    for i in 0..100 {
        let mut pose = update(&body, f64::from(i) * 0.02);
        pose.time = Some(f64::from(i) * 0.02);
        let rest = pose.joints.split_off(27);
        for joints in [pose.joints.clone(), rest] {
            pose.joints = joints;
            if let Some(out) = front.feed(&vmc_frame(&pose), 0, "") {
                last = out.seq;
                assert!(i < 2 || (out.valid && !out.reset), "{i}");
            }
        }
    }
    assert_eq!(last, 99);
    assert!(front.mask().iter().all(|&m| m));
    assert_eq!(front.counters().doubled, 0);
}

#[test]
fn a_source_whose_clock_stands_still_is_taken_by_arrival() {
    let sender = Sender::new(Source::Vmc);
    let mut front = front(Source::Vmc);
    let mut emitted = 0;
    for i in 0..200 {
        let mut pose = update(&sender.body, f64::from(i) * 0.02);
        pose.time = Some(3.0);
        let datagram = vmc_frame(&pose);
        emitted += usize::from(front.feed(&datagram, i64::from(i) * 20 * MS, "").is_some());
    }
    assert!(emitted > 150, "{emitted}");
    // And a source without any clock from the start.
    let mut front = LiveFront::new(Source::Vmc, FrontConfig::default()).expect("options");
    let mut emitted = 0;
    for i in 0..50 {
        let datagram = vmc_frame(&update(&sender.body, 0.02 * f64::from(i)));
        emitted += usize::from(front.feed(&datagram, i64::from(i) * 20 * MS, "").is_some());
    }
    assert_eq!(emitted, 50);
}

#[test]
fn options_are_checked_and_reset_forgets() {
    assert!(Source::from_name("kinect").is_err());
    let config = |rate, window| FrontConfig {
        rate,
        window,
        ..FrontConfig::default()
    };
    assert!(LiveFront::new(Source::Vmc, config(60.0, 256)).is_err());
    assert!(LiveFront::new(Source::Mocopi, config(50.0, 1)).is_err());
    let mut front = front(Source::Mocopi);
    let datagrams = Sender::new(Source::Mocopi).stream(50, 50.0);
    let first = rows(&feed_all(&mut front, &datagrams));
    front.reset();
    let again = feed_all(&mut front, &datagrams);
    assert_eq!(again[0].seq, 0);
    assert_eq!(rows(&again), first);
    assert_eq!(front.counters().packets, 100);
}

#[test]
fn a_told_body_that_is_not_the_one_that_moves_is_refused() {
    // The hips' axes lie across: the declared zero pose has them turned while the motion stands.
    let quarter = std::f64::consts::FRAC_PI_2;
    let turn = |angle: f64| {
        Quat::from_axis_angle([0.0, 0.0, 1.0], angle)
            .to_array()
            .map(|v| v as f32)
    };
    for source in [Source::Msgpack, Source::Mocopi] {
        let mut own = match source {
            Source::Mocopi => declaration(&standard::mocopi(), None),
            _ => declaration(&standard::canonical(), Some(50.0)),
        };
        let mut quats = vec![[1.0, 0.0, 0.0, 0.0]; own.parents.len()];
        quats[0] = turn(quarter);
        for child in (0..quats.len()).filter(|&j| own.parents[j] == 0) {
            let [x, y, z] = own.offsets[child];
            own.offsets[child] = [y, -x, z];
            quats[child] = turn(-quarter);
        }
        let skeleton = encoded(|out| match source {
            Source::Mocopi => mocopi::encode_skeleton(&own, out),
            _ => native::encode_skeleton(&own, out),
        });
        let joints = quats.iter().zip(0u16..);
        let joints = joints.map(|(&rotation, id)| Joint::new(id, rotation, [0.0; 3]));
        let mut pose = PoseUpdate {
            joints: joints.collect(),
            ..PoseUpdate::default()
        };
        let mut front = front(source);
        assert!(front.feed(&skeleton, 0, "").is_none());
        for i in 0..80u32 {
            let (at, t) = (i64::from(i) * 20 * MS, f64::from(i) / 50.0);
            pose.seq = Some(i);
            let frame = encoded(|out| match source {
                Source::Mocopi => mocopi::encode_frame(&pose, 0, Some(1.7e9 + t), out),
                _ => native::encode_frame(i, t, &quats, None, out),
            });
            assert_eq!(front.feed(&frame, at, "").is_some(), i < 49, "{source:?} {i}");
            // Declaring it again does not help.
            assert!(front.feed(&skeleton, at, "").is_none());
        }
        assert!(front.refusal().is_some_and(|r| r.contains("degrees")));
        assert_eq!(front.counters().refused, 30);
    }
}
