//! Invariants that hold for any bytes, checked by the fuzz targets and, on stable, by `tests/all/fuzz.rs`.

use anticip_wire::axis::{self, AxisDecoder};
use anticip_wire::mocopi::{self, MocopiKind, MocopiPacket};
use anticip_wire::native::{self, NativeKind, NativePacket};
use anticip_wire::natnet::{self, NatnetDecoder};
use anticip_wire::recording::{self, Next};
use anticip_wire::rokoko::{self, RokokoDecoder};
use anticip_wire::vmc::{self, VmcAssembler};
use anticip_wire::vrchat::{self, VrchatAssembler};
use anticip_wire::xsens::{self, XsensAssembler};
use anticip_wire::{MAX_JOINTS, PoseUpdate, SkeletonUpdate, Source, TrackerUpdate, Update, crc32c};

/// A pose has finite transforms of distinct joints and a finite time.
fn pose(pose: &PoseUpdate) {
    let mut seen = [false; MAX_JOINTS];
    for joint in &pose.joints {
        assert!(
            !std::mem::replace(&mut seen[usize::from(joint.id)], true),
            "a joint twice"
        );
        assert!(
            joint
                .rotation
                .iter()
                .chain(&joint.position)
                .all(|v| v.is_finite())
        );
        assert!(joint.rotation.iter().any(|v| *v != 0.0));
    }
    assert!(pose.root.iter().flatten().all(|v| v.is_finite()));
    assert!(pose.time.is_none_or(f64::is_finite));
}

/// A skeleton's lists have one length, and its parents are valid indices.
fn skeleton(skeleton: &SkeletonUpdate) {
    let joints = skeleton.len();
    assert!((1..=MAX_JOINTS).contains(&joints));
    assert_eq!(
        [skeleton.names.len(), skeleton.offsets.len(), skeleton.rest.len()],
        [joints; 3]
    );
    assert!(
        skeleton
            .parents
            .iter()
            .all(|parent| (-1..joints as i32).contains(parent))
    );
    assert!(skeleton.offsets.iter().flatten().all(|v| v.is_finite()));
}

/// Trackers have finite transforms or none.
fn trackers(update: &TrackerUpdate) {
    for tracker in &update.trackers {
        let place = tracker.position.iter().flatten();
        assert!(
            tracker
                .rotation
                .iter()
                .flatten()
                .chain(place)
                .all(|v| v.is_finite())
        );
        assert!(tracker.rotation.is_none_or(|q| q != [0.0; 4]));
    }
    assert!(update.time.is_none_or(f64::is_finite));
}

/// mocopi: no panic; decoded values survive encoding and decoding.
pub fn mocopi(data: &[u8]) {
    let mut packet = MocopiPacket::default();
    let mut out = Vec::new();
    let mut again = MocopiPacket::default();
    match mocopi::decode(data, &mut packet) {
        Ok(MocopiKind::Frame) => {
            pose(&packet.pose);
            if packet.pose.joints.is_empty() {
                return;
            }
            let time = packet.pose.time;
            let bits = time.map_or(u32::MAX, |seconds| (seconds as f32).to_bits());
            mocopi::encode_frame(&packet.pose, bits, time, &mut out).expect("decoded joints are few enough");
            assert_eq!(mocopi::decode(&out, &mut again), Ok(MocopiKind::Frame));
            assert_eq!(again.pose.joints, packet.pose.joints);
            assert_eq!((again.pose.seq, again.pose.time), (packet.pose.seq, time));
        }
        Ok(MocopiKind::Skeleton) => {
            skeleton(&packet.skeleton);
            mocopi::encode_skeleton(&packet.skeleton, &mut out).expect("decoded skeletons fit");
            assert_eq!(mocopi::decode(&out, &mut again), Ok(MocopiKind::Skeleton));
            assert_eq!(again.skeleton, packet.skeleton);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

/// VMC: no panic, twice in a row; a completed frame survives encoding and decoding.
pub fn vmc(data: &[u8]) {
    let mut assembler = VmcAssembler::new();
    for _ in 0..2 {
        match assembler.feed(data) {
            Ok(poses) => poses.iter().for_each(pose),
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }
    if let Some(last) = assembler.poses().last() {
        let mut out = Vec::new();
        vmc::encode_frame(last, &mut out).expect("assembled bones are known");
        let mut again = VmcAssembler::new();
        let poses = again.feed(&out).expect("what was written is OSC");
        assert_eq!(poses.len(), 1);
        assert!(
            poses[0]
                .joints
                .iter()
                .zip(&last.joints)
                .all(|(a, b)| a.rotation == b.rotation && a.id == b.id)
        );
    }
}

/// Feeds the same bytes twice to a stateful decoder; returns the last frame.
fn decode_twice(source: &mut impl Source, data: &[u8]) -> Option<PoseUpdate> {
    let mut last = None;
    for _ in 0..2 {
        let result = source.decode(data, &mut |update| match update {
            Update::Skeleton(update) => skeleton(update),
            Update::Frame(frame) => {
                pose(frame);
                last = Some(frame.clone());
            }
            Update::Trackers(update) => trackers(update),
            Update::Late(_) => {}
        });
        if let Err(error) = result {
            assert!(!error.to_string().contains('\n'));
        }
    }
    last
}

/// Xsens: no panic, for a datagram alone or repeated; an encoded frame keeps its number.
pub fn xsens(data: &[u8]) {
    let Some(frame) = decode_twice(&mut XsensAssembler::default(), data) else {
        return;
    };
    let mut out = Vec::new();
    xsens::encode_frame(&frame, &mut out).expect("decoded joints are segments");
    let again = decode_twice(&mut XsensAssembler::default(), &out);
    // Joints whose sum is not a valid position are left out.
    assert!(again.is_none_or(|again| again.seq == frame.seq));
}

/// Rokoko: no panic; an encoded frame is valid JSON.
pub fn rokoko(data: &[u8]) {
    let Some(frame) = decode_twice(&mut RokokoDecoder::default(), data) else {
        return;
    };
    let mut out = Vec::new();
    rokoko::encode_frame(&frame, 60.0, &mut out).expect("decoded joints are Studio's and finite");
    assert!(RokokoDecoder::default().decode(&out, &mut |_| ()).is_ok());
}

/// Axis: no panic; an encoded frame can be decoded.
pub fn axis(data: &[u8]) {
    let Some(frame) = decode_twice(&mut AxisDecoder::default(), data) else {
        return;
    };
    let mut out = Vec::new();
    axis::encode_frame(&frame, &mut out).expect("decoded joints are bones");
    assert!(AxisDecoder::default().decode(&out, &mut |_| ()).is_ok());
}

/// NatNet: no panic, after definitions and repeated; a decoded body and its frame can be encoded.
pub fn natnet(data: &[u8]) {
    let mut decoder = NatnetDecoder::default();
    let (mut skeleton_update, mut last) = (None, None);
    // A definition first, and the bytes as a frame or as another definition.
    for bytes in [&include_bytes!("seeds/natnet/definitions-41")[..], data, data] {
        let result = decoder.decode(bytes, &mut |update| match update {
            Update::Skeleton(body) => {
                skeleton(body);
                skeleton_update = Some(body.clone());
            }
            Update::Frame(frame) => {
                pose(frame);
                last = Some(frame.clone());
            }
            Update::Trackers(update) => trackers(update),
            Update::Late(_) => {}
        });
        if let Err(error) = result {
            assert!(!error.to_string().contains('\n'));
        }
    }
    let mut out = Vec::new();
    if let Some(body) = skeleton_update {
        let _ = natnet::encode_skeleton(&body, &mut out);
        if let Some(frame) = last {
            let _ = natnet::encode_frame(&frame, &body.parents, &mut out);
        }
    }
}

/// VRChat trackers: no panic, also repeated; decoded trackers can be encoded and decoded.
pub fn vrchat(data: &[u8]) {
    let mut source = VrchatAssembler::default();
    let mut last = None;
    for _ in 0..2 {
        let result = source.decode(data, &mut |update| {
            let Update::Trackers(update) = update else {
                panic!("a body")
            };
            trackers(update);
            last = Some(update.clone());
        });
        if let Err(error) = result {
            assert!(!error.to_string().contains('\n'));
        }
    }
    if let Some(last) = last {
        let mut out = Vec::new();
        vrchat::encode_frame(&last.trackers, &mut out).expect("decoded values are finite");
        let mut again = VrchatAssembler::default();
        again.decode(&out, &mut |_| ()).expect("what is sent is OSC");
    }
}

/// This project's own datagrams: no panic; a decoded skeleton survives encoding and decoding.
pub fn native(data: &[u8]) {
    let mut packet = NativePacket::default();
    match native::decode(data, &mut packet) {
        Ok(NativeKind::Frame) => pose(&packet.pose),
        Ok(NativeKind::Skeleton) => {
            skeleton(&packet.skeleton);
            let mut out = Vec::new();
            native::encode_skeleton(&packet.skeleton, &mut out).expect("decoded skeletons fit");
            let mut again = NativePacket::default();
            assert_eq!(native::decode(&out, &mut again), Ok(NativeKind::Skeleton));
            assert_eq!(again.skeleton, packet.skeleton);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

/// Recordings: no panic, reading always advances, and returned payloads match their checksums.
pub fn recording(data: &[u8]) {
    let _ = recording::check_header(data);
    let mut at = 0;
    loop {
        match recording::next(data, at) {
            Next::Record { start, end } => {
                assert!(at < start && start < end && end <= data.len());
                let sum = crc32c(&data[start..end]).to_le_bytes();
                assert!(cfg!(fuzzing) || sum == data[start - 4..start]);
                at = end;
            }
            Next::Corrupt { end } => {
                assert!(at < end && end <= data.len());
                find_after(data, at);
                at = end;
            }
            Next::More { needed } => {
                assert!(
                    at + needed > data.len() && needed <= recording::MAX_RECORD + recording::RECORD_HEADER
                );
                return;
            }
            Next::Lost { .. } => return find_after(data, at),
        }
    }
}

/// After damage, [`recording::find`] returns the offset of a record.
fn find_after(data: &[u8], at: usize) {
    match recording::find(data, at + 1, true) {
        Ok(found) => assert!(found > at && matches!(recording::next(data, found), Next::Record { .. })),
        Err(end) => assert!(end == data.len().max(at + 1)),
    }
}
