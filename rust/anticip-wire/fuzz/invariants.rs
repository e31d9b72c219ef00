//! Invariants that hold for any bytes, checked by the fuzz targets and, on stable, by `tests/all/fuzz.rs`.

use anticip_wire::axis::{self, AxisDecoder};
use anticip_wire::mocopi::{self, MocopiDecoder};
use anticip_wire::native::{self, NativeDecoder};
use anticip_wire::natnet::{self, NatnetDecoder};
use anticip_wire::recording::{self, Next};
use anticip_wire::rokoko::{self, RokokoDecoder};
use anticip_wire::vmc::{self, VmcAssembler};
use anticip_wire::vrchat::{self, VrchatAssembler};
use anticip_wire::xsens::{self, XsensAssembler};
use anticip_wire::{
    MAX_JOINTS, PoseUpdate, SkeletonUpdate, Source, TrackerUpdate, Update, WireError, crc32c,
};

/// What a decoder delivered; the invariants of each update have been checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Updates {
    pub skeletons: Vec<SkeletonUpdate>,
    pub frames: Vec<PoseUpdate>,
    pub trackers: Vec<TrackerUpdate>,
    pub late: Vec<u32>,
}

impl Updates {
    /// Decodes a datagram and appends what it completes.
    pub fn decode(&mut self, source: &mut dyn Source, data: &[u8]) -> Result<(), WireError> {
        let result = source.decode(data, &mut |update| match update {
            Update::Skeleton(update) => {
                skeleton(update);
                self.skeletons.push(update.clone());
            }
            Update::Frame(update) => {
                pose(update);
                self.frames.push(update.clone());
            }
            Update::Trackers(update) => {
                trackers(update);
                self.trackers.push(update.clone());
            }
            Update::Late(number) => self.late.push(number),
        });
        if let Err(error) = &result {
            assert!(!error.to_string().contains('\n'));
        }
        result
    }
}

/// Decodes datagrams, valid or not, by one new decoder.
fn decode_all<S: Source + Default>(datagrams: &[&[u8]]) -> Updates {
    let (mut source, mut updates) = (S::default(), Updates::default());
    for data in datagrams {
        let _ = updates.decode(&mut source, data);
    }
    updates
}

/// Encodes a value that was decoded, and decodes it again.
fn decode_again<S: Source + Default>(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>) -> Updates {
    let (mut out, mut updates) = (Vec::new(), Updates::default());
    encode(&mut out).expect("what was decoded can be encoded");
    let result = updates.decode(&mut S::default(), &out);
    result.expect("what was encoded can be decoded");
    updates
}

/// A pose has finite transforms of distinct joints and a finite time.
fn pose(pose: &PoseUpdate) {
    let mut seen = [false; MAX_JOINTS];
    for joint in &pose.joints {
        let is_repeated = std::mem::replace(&mut seen[usize::from(joint.id)], true);
        assert!(!is_repeated, "a joint twice");
        let mut numbers = joint.rotation.iter().chain(&joint.position);
        assert!(numbers.all(|v| v.is_finite()));
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
    let mut parents = skeleton.parents.iter();
    assert!(parents.all(|parent| (-1..joints as i32).contains(parent)));
    assert!(skeleton.offsets.iter().flatten().all(|v| v.is_finite()));
}

/// Trackers have finite transforms or none.
fn trackers(update: &TrackerUpdate) {
    for tracker in &update.trackers {
        let mut numbers = tracker
            .rotation
            .iter()
            .flatten()
            .chain(tracker.position.iter().flatten());
        assert!(numbers.all(|v| v.is_finite()));
        assert!(tracker.rotation.is_none_or(|q| q != [0.0; 4]));
    }
    assert!(update.time.is_none_or(f64::is_finite));
}

/// mocopi: no panic; decoded values survive encoding and decoding.
pub fn mocopi(data: &[u8]) {
    let Updates {
        skeletons, frames, ..
    } = decode_all::<MocopiDecoder>(&[data]);
    for frame in frames.iter().filter(|frame| !frame.joints.is_empty()) {
        let bits = frame.time.map_or(u32::MAX, |seconds| (seconds as f32).to_bits());
        let again = decode_again::<MocopiDecoder>(|out| mocopi::encode_frame(frame, bits, frame.time, out));
        let again = &again.frames[0];
        assert_eq!(again.joints, frame.joints);
        assert_eq!((again.seq, again.time), (frame.seq, frame.time));
    }
    for skeleton in &skeletons {
        let again = decode_again::<MocopiDecoder>(|out| mocopi::encode_skeleton(skeleton, out));
        assert_eq!(again.skeletons[0], *skeleton);
    }
}

/// VMC: no panic, twice in a row; a completed frame survives encoding and decoding.
pub fn vmc(data: &[u8]) {
    let Some(frame) = decode_all::<VmcAssembler>(&[data, data]).frames.pop() else {
        return;
    };
    let again = decode_again::<VmcAssembler>(|out| vmc::encode_frame(&frame, out)).frames;
    assert_eq!(again.len(), 1);
    let mut joints = again[0].joints.iter().zip(&frame.joints);
    assert!(joints.all(|(a, b)| a.rotation == b.rotation && a.id == b.id));
}

/// Xsens: no panic, for a datagram alone or repeated; an encoded frame keeps its number.
pub fn xsens(data: &[u8]) {
    if let Some(frame) = decode_all::<XsensAssembler>(&[data, data]).frames.pop() {
        let mut out = Vec::new();
        xsens::encode_frame(&frame, &mut out).expect("decoded joints are segments");
        // Joints whose sum is not a valid position are left out.
        let again = decode_all::<XsensAssembler>(&[&out]).frames.pop();
        assert!(again.is_none_or(|again| again.seq == frame.seq));
    }
}

/// Rokoko: no panic; an encoded frame is valid JSON.
pub fn rokoko(data: &[u8]) {
    if let Some(frame) = decode_all::<RokokoDecoder>(&[data, data]).frames.pop() {
        decode_again::<RokokoDecoder>(|out| rokoko::encode_frame(&frame, 60.0, out));
    }
}

/// Axis: no panic; an encoded frame can be decoded.
pub fn axis(data: &[u8]) {
    if let Some(frame) = decode_all::<AxisDecoder>(&[data, data]).frames.pop() {
        decode_again::<AxisDecoder>(|out| axis::encode_frame(&frame, out));
    }
}

/// NatNet: no panic, after definitions and repeated; a decoded body and its frame can be encoded.
pub fn natnet(data: &[u8]) {
    // A definition first, and the bytes as a frame or as another definition.
    let definition = include_bytes!("seeds/natnet/definitions-41");
    let mut updates = decode_all::<NatnetDecoder>(&[definition, data, data]);
    let mut out = Vec::new();
    if let Some(body) = updates.skeletons.pop() {
        let _ = natnet::encode_skeleton(&body, &mut out);
        if let Some(frame) = updates.frames.pop() {
            let _ = natnet::encode_frame(&frame, &body.parents, &mut out);
        }
    }
}

/// VRChat trackers: no panic, also repeated; decoded trackers can be encoded and decoded.
pub fn vrchat(data: &[u8]) {
    let mut updates = decode_all::<VrchatAssembler>(&[data, data]);
    assert!(
        updates.skeletons.is_empty() && updates.frames.is_empty(),
        "a body"
    );
    if let Some(update) = updates.trackers.pop() {
        decode_again::<VrchatAssembler>(|out| vrchat::encode_frame(&update.trackers, out));
    }
}

/// This project's own datagrams: no panic; a decoded skeleton survives encoding and decoding.
pub fn native(data: &[u8]) {
    for skeleton in decode_all::<NativeDecoder>(&[data]).skeletons {
        let again = decode_again::<NativeDecoder>(|out| native::encode_skeleton(&skeleton, out));
        assert_eq!(again.skeletons, [skeleton]);
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
