//! mocopi datagrams: the two real packets, and damaged ones.

use crate::common::{decode, real};
use crate::invariants::Updates;
use anticip_wire::mocopi::{
    BONE_NAMES, BONE_PARENTS, MocopiDecoder, encode_frame, encode_skeleton, stream_seconds,
};
use anticip_wire::{Joint, PoseUpdate, SkeletonUpdate, WireError};

const ALIEN: WireError = WireError::Alien {
    expected: "mocopi datagram",
};

fn decoded(bytes: &[u8]) -> Result<Updates, WireError> {
    decode(&mut MocopiDecoder::default(), bytes)
}

fn decoded_frame(bytes: &[u8]) -> PoseUpdate {
    decoded(bytes).unwrap().frames.remove(0)
}

fn encoded(pose: &PoseUpdate, time_bits: u32, unix_time: Option<f64>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_frame(pose, time_bits, unix_time, &mut out).unwrap();
    out
}

fn encoded_skeleton(skeleton: &SkeletonUpdate) -> Vec<u8> {
    let mut out = Vec::new();
    encode_skeleton(skeleton, &mut out).unwrap();
    out
}

fn stand_in_frame() -> Vec<u8> {
    let pose = PoseUpdate {
        seq: Some(7),
        joints: (0..27)
            .map(|id| Joint::new(id, [1.0, 0.0, 0.0, 0.0], [0.0, 0.1, 0.0]))
            .collect(),
        ..PoseUpdate::default()
    };
    encoded(&pose, 1.5f32.to_bits(), Some(1.7e9))
}

fn skeleton(parents: &[i32]) -> SkeletonUpdate {
    SkeletonUpdate {
        parents: parents.to_vec(),
        offsets: vec![[0.0, 0.1, 0.0]; parents.len()],
        rest: vec![[1.0, 0.0, 0.0, 0.0]; parents.len()],
        ..SkeletonUpdate::default()
    }
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
    let pose = decoded_frame(&bytes);
    assert_eq!((pose.seq, pose.joints.len(), pose.unusable), (Some(1), 27, 0));
    let mut joints = pose.joints.iter().enumerate();
    assert!(joints.all(|(i, joint)| usize::from(joint.id) == i && joint.fresh));
    // The app's clock at the time of capture, December 2023.
    assert!((1.70e9..1.71e9).contains(&pose.time.unwrap()));
    assert_eq!(pose.root, Some(pose.joints[0].position));
    let height = pose.root.unwrap()[1];
    assert!(
        (0.8..1.1).contains(&height),
        "hips are about a metre above the floor"
    );
    let time_bits = u32::from_le_bytes(*value(&mut bytes, *b"time"));
    *value(&mut bytes, *b"ipad") = [0; 8];
    assert_eq!(encoded(&pose, time_bits, pose.time), bytes);
}

#[test]
fn the_real_skeleton_is_read_and_written_byte_for_byte() {
    let Some(mut bytes) = real("sample_skdf.bin") else {
        return;
    };
    let skeleton = decoded(&bytes).unwrap().skeletons.remove(0);
    assert_eq!(skeleton.parents, BONE_PARENTS);
    assert_eq!(skeleton.names, BONE_NAMES);
    *value(&mut bytes, *b"ipad") = [0; 8];
    assert_eq!(encoded_skeleton(&skeleton), bytes);
}

#[test]
fn every_cut_of_a_datagram_is_an_error() {
    let seeds = [stand_in_frame(), encoded_skeleton(&skeleton(&BONE_PARENTS))];
    let real = ["sample_fram.bin", "sample_skdf.bin"]
        .into_iter()
        .filter_map(real);
    for seed in seeds.into_iter().chain(real) {
        for end in 0..seed.len() {
            let error = decoded(&seed[..end]).unwrap_err();
            if end < 8 {
                assert_eq!(error, ALIEN);
            } else {
                assert!(matches!(error, WireError::Truncated { .. }), "{end}: {error}");
            }
        }
        assert!(decoded(&seed).is_ok());
    }
}

#[test]
fn unknown_and_missing_fields_are_accepted() {
    let frame = stand_in_frame();
    // An unknown trailing field.
    let newer = [&frame[..], b"\x03\0\0\0zzzzabc"].concat();
    let pose = decoded_frame(&newer);
    // Without uttm, the stream's own clock counts.
    let older = encoded(&pose, 1.5f32.to_bits(), None);
    assert_eq!(older.len(), frame.len() - 16);
    assert_eq!(decoded_frame(&older).time, Some(1.5));
}

#[test]
fn a_datagram_with_nothing_in_it_for_us_is_alien() {
    let frame = stand_in_frame();
    let unknown = [&frame[..43 + 26 + 8], b"\0\0\0\0evnt"].concat();
    let mut renamed = frame.clone();
    renamed[16] = b'S';
    for other in [b"", &b"/VMC/Ext/T\0\0,f\0\0\x3f\x80\0\0"[..], &unknown, &renamed] {
        assert_eq!(decoded(other), Err(ALIEN));
    }
}

#[test]
fn a_bone_that_is_no_transform_is_left_out_and_counted() {
    let mut pose = decoded_frame(&stand_in_frame());
    pose.joints[3].rotation = [f32::NAN; 4];
    pose.joints[5].rotation = [0.0; 4];
    pose.joints[0].position = [f32::INFINITY, 0.0, 0.0];
    let found = decoded_frame(&encoded(&pose, 0, None));
    assert_eq!((found.unusable, found.joints.len(), found.root), (3, 24, None));
    assert_eq!(found.joint(4).map(|j| j.id), Some(4));
    // A repeated bone id is refused.
    pose.joints[4].id = 2;
    let repeated = decoded(&encoded(&pose, 0, None));
    assert!(matches!(repeated, Err(WireError::Malformed { .. })));
}

#[test]
fn skeletons_must_be_trees_of_dense_ids() {
    assert!(encode_skeleton(&skeleton(&[-1, 2, 1]), &mut Vec::new()).is_err());
    let mut bytes = encoded_skeleton(&skeleton(&[-1, 0, 1]));
    let names = &decoded(&bytes).unwrap().skeletons[0].names;
    assert_eq!(names[..], ["root", "torso_1", "torso_2"]);
    // The last bone's id becomes 9: a hole. Its record begins 64 bytes before the end.
    let at = bytes.len() - 64 + 8 + 8;
    bytes[at] = 9;
    assert!(matches!(decoded(&bytes), Err(WireError::Malformed { .. })));
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
