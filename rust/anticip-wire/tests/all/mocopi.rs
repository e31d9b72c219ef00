//! mocopi datagrams: the two real packets, and damaged ones.

use crate::common::real;
use anticip_wire::mocopi::{
    BONE_NAMES, BONE_PARENTS, MocopiKind, MocopiPacket, decode, encode_frame, encode_skeleton, stream_seconds,
};
use anticip_wire::{Joint, PoseUpdate, SkeletonUpdate, WireError};

fn stand_in_frame() -> Vec<u8> {
    let joints = (0..27)
        .map(|id| Joint {
            id,
            rotation: [1.0, 0.0, 0.0, 0.0],
            position: [0.0, 0.1, 0.0],
            fresh: true,
        })
        .collect();
    let pose = PoseUpdate {
        seq: Some(7),
        joints,
        ..PoseUpdate::default()
    };
    let mut out = Vec::new();
    encode_frame(&pose, 1.5f32.to_bits(), Some(1.7e9), &mut out).unwrap();
    out
}

fn stand_in_skeleton() -> Vec<u8> {
    let skeleton = SkeletonUpdate {
        names: Vec::new(),
        parents: BONE_PARENTS.to_vec(),
        offsets: vec![[0.0, 0.1, 0.0]; 27],
        rest: vec![[1.0, 0.0, 0.0, 0.0]; 27],
        rate: None,
    };
    let mut out = Vec::new();
    encode_skeleton(&skeleton, &mut out).unwrap();
    out
}

/// What a field of so many bytes holds.
fn value<const N: usize>(bytes: &mut [u8], name: [u8; 4]) -> &mut [u8; N] {
    let at = bytes.windows(4).position(|part| *part == name).unwrap();
    bytes[at + 4..].first_chunk_mut().unwrap()
}

#[test]
fn the_real_frame_is_read_and_written_byte_for_byte() {
    let Some(mut bytes) = real("sample_fram.bin") else {
        return;
    };
    let mut packet = MocopiPacket::default();
    assert_eq!(decode(&bytes, &mut packet), Ok(MocopiKind::Frame));
    assert_eq!(packet.pose.seq, Some(1));
    assert_eq!(packet.pose.joints.len(), 27);
    assert_eq!(packet.pose.unusable, 0);
    assert!(
        packet
            .pose
            .joints
            .iter()
            .enumerate()
            .all(|(i, joint)| usize::from(joint.id) == i && joint.fresh)
    );
    // The app's clock at the time of capture, December 2023.
    assert!((1.70e9..1.71e9).contains(&packet.pose.time.unwrap()));
    assert_eq!(packet.pose.root, Some(packet.pose.joints[0].position));
    assert!(
        (0.8..1.1).contains(&packet.pose.root.unwrap()[1]),
        "hips are about a metre above the floor"
    );
    let mut again = Vec::new();
    let time_bits = u32::from_le_bytes(*value(&mut bytes, *b"time"));
    encode_frame(&packet.pose, time_bits, packet.pose.time, &mut again).unwrap();
    *value(&mut bytes, *b"ipad") = [0; 8];
    assert_eq!(again, bytes);
}

#[test]
fn the_real_skeleton_is_read_and_written_byte_for_byte() {
    let Some(mut bytes) = real("sample_skdf.bin") else {
        return;
    };
    let mut packet = MocopiPacket::default();
    assert_eq!(decode(&bytes, &mut packet), Ok(MocopiKind::Skeleton));
    assert_eq!(packet.skeleton.parents, BONE_PARENTS);
    assert_eq!(packet.skeleton.names, BONE_NAMES);
    let mut again = Vec::new();
    encode_skeleton(&packet.skeleton, &mut again).unwrap();
    *value(&mut bytes, *b"ipad") = [0; 8];
    assert_eq!(again, bytes);
}

#[test]
fn every_cut_of_a_datagram_is_an_error() {
    let mut seeds = vec![stand_in_frame(), stand_in_skeleton()];
    seeds.extend(
        ["sample_fram.bin", "sample_skdf.bin"]
            .into_iter()
            .filter_map(real),
    );
    let mut packet = MocopiPacket::default();
    for seed in seeds {
        for end in 0..seed.len() {
            let error = decode(&seed[..end], &mut packet).unwrap_err();
            if end < 8 {
                assert_eq!(
                    error,
                    WireError::Alien {
                        expected: "mocopi datagram"
                    }
                );
            } else {
                assert!(matches!(error, WireError::Truncated { .. }), "{end}: {error}");
            }
        }
        assert!(decode(&seed, &mut packet).is_ok());
    }
}

#[test]
fn unknown_and_missing_fields_are_accepted() {
    let frame = stand_in_frame();
    let mut packet = MocopiPacket::default();
    // An unknown trailing field.
    let mut newer = frame.clone();
    newer.extend_from_slice(b"\x03\0\0\0zzzzabc");
    assert_eq!(decode(&newer, &mut packet), Ok(MocopiKind::Frame));
    // Without uttm, the stream's own clock counts.
    let mut older = Vec::new();
    let pose = packet.pose.clone();
    encode_frame(&pose, 1.5f32.to_bits(), None, &mut older).unwrap();
    assert_eq!(older.len(), frame.len() - 16);
    assert_eq!(decode(&older, &mut packet), Ok(MocopiKind::Frame));
    assert_eq!(packet.pose.time, Some(1.5));
}

#[test]
fn a_datagram_with_nothing_in_it_for_us_is_alien() {
    let frame = stand_in_frame();
    let mut packet = MocopiPacket::default();
    let alien = Err(WireError::Alien {
        expected: "mocopi datagram",
    });
    assert_eq!(decode(b"", &mut packet), alien);
    assert_eq!(decode(b"/VMC/Ext/T\0\0,f\0\0\x3f\x80\0\0", &mut packet), alien);
    let mut other = frame[..43 + 26 + 8].to_vec();
    other.extend_from_slice(b"\0\0\0\0evnt");
    assert_eq!(decode(&other, &mut packet), alien);
    let mut renamed = frame.clone();
    renamed[16] = b'S';
    assert_eq!(decode(&renamed, &mut packet), alien);
}

#[test]
fn a_bone_that_is_no_transform_is_left_out_and_counted() {
    let mut packet = MocopiPacket::default();
    decode(&stand_in_frame(), &mut packet).unwrap();
    let mut pose = packet.pose.clone();
    pose.joints[3].rotation = [f32::NAN; 4];
    pose.joints[5].rotation = [0.0; 4];
    pose.joints[0].position = [f32::INFINITY, 0.0, 0.0];
    let mut out = Vec::new();
    encode_frame(&pose, 0, None, &mut out).unwrap();
    assert_eq!(decode(&out, &mut packet), Ok(MocopiKind::Frame));
    assert_eq!(
        (packet.pose.unusable, packet.pose.joints.len(), packet.pose.root),
        (3, 24, None)
    );
    assert_eq!(packet.pose.joint(4).map(|j| j.id), Some(4));
    // A repeated bone id is refused.
    pose.joints[4].id = 2;
    out.clear();
    encode_frame(&pose, 0, None, &mut out).unwrap();
    assert!(matches!(
        decode(&out, &mut packet),
        Err(WireError::Malformed { .. })
    ));
}

#[test]
fn skeletons_must_be_trees_of_dense_ids() {
    let mut skeleton = SkeletonUpdate {
        names: Vec::new(),
        parents: vec![-1, 2, 1],
        offsets: vec![[0.0; 3]; 3],
        rest: vec![[1.0, 0.0, 0.0, 0.0]; 3],
        rate: None,
    };
    let mut out = Vec::new();
    assert!(encode_skeleton(&skeleton, &mut out).is_err());
    skeleton.parents = vec![-1, 0, 1];
    encode_skeleton(&skeleton, &mut out).unwrap();
    let mut packet = MocopiPacket::default();
    assert_eq!(decode(&out, &mut packet), Ok(MocopiKind::Skeleton));
    assert_eq!(packet.skeleton.names, ["root", "torso_1", "torso_2"]);
    // The last bone's id becomes 9: a hole. Its record begins 64 bytes before the end.
    let at = out.len() - 64 + 8 + 8;
    out[at] = 9;
    assert!(matches!(
        decode(&out, &mut packet),
        Err(WireError::Malformed { .. })
    ));
}

#[test]
fn the_four_bytes_of_time_are_seconds_or_nothing() {
    assert_eq!(stream_seconds(0), Some(0.0));
    assert_eq!(stream_seconds(2.5f32.to_bits()), Some(2.5));
    for bits in [
        16_000,
        (-1.0f32).to_bits(),
        f32::NAN.to_bits(),
        f32::INFINITY.to_bits(),
    ] {
        assert_eq!(stream_seconds(bits), None);
    }
}
