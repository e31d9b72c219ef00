use super::FORMAT;
use crate::WireError;
use crate::bytes::put_f32s_le;
use crate::pose::{MAX_JOINTS, PoseUpdate, SkeletonUpdate, is_forest};

/// Begins a field and returns the offset of its length.
fn open(out: &mut Vec<u8>, name: &[u8; 4]) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name);
    at
}

/// Ends the field that [`open`] began at `at`.
fn close(out: &mut [u8], at: usize) {
    // A datagram of 256 bones is far below 4 GiB.
    let length = (out.len() - at - 8) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

fn put(out: &mut Vec<u8>, name: &[u8; 4], value: &[u8]) {
    let at = open(out, name);
    out.extend_from_slice(value);
    close(out, at);
}

/// Begins a datagram; the sender's address is left zero.
fn begin(out: &mut Vec<u8>) {
    let head = open(out, b"head");
    put(out, b"ftyp", FORMAT);
    put(out, b"vrsn", &[1]);
    close(out, head);
    let sndf = open(out, b"sndf");
    put(out, b"ipad", &[0; 8]);
    put(out, b"rcvp", &12351_u16.to_le_bytes());
    close(out, sndf);
}

fn put_transform(out: &mut Vec<u8>, [w, x, y, z]: [f32; 4], [px, py, pz]: [f32; 3]) {
    let at = open(out, b"tran");
    put_f32s_le(out, &[x, y, z, w, px, py, pz]);
    close(out, at);
}

/// Appends a skeleton datagram to `out`.
///
/// # Errors
/// [`WireError::Unencodable`] if the lists differ in length, are empty or longer than [`MAX_JOINTS`], or the
/// parents are no tree.
pub fn encode_skeleton(skeleton: &SkeletonUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    let joints = skeleton.len();
    let has_all = [skeleton.offsets.len(), skeleton.rest.len()] == [joints; 2];
    if joints == 0 || joints > MAX_JOINTS || !has_all {
        return Err(WireError::unencodable(
            "a skeleton needs 1 to 256 parents, offsets and rests",
        ));
    }
    if !is_forest(&skeleton.parents) {
        return Err(WireError::unencodable("the skeleton's parents are no tree"));
    }
    begin(out);
    let skdf = open(out, b"skdf");
    let bons = open(out, b"bons");
    for (id, parent) in skeleton.parents.iter().enumerate() {
        let bone = open(out, b"bndt");
        put(out, b"bnid", &(id as u16).to_le_bytes());
        put(out, b"pbid", &(*parent as i16).to_le_bytes());
        put_transform(out, skeleton.rest[id], skeleton.offsets[id]);
        close(out, bone);
    }
    close(out, bons);
    close(out, skdf);
    Ok(())
}

/// Appends a frame datagram to `out`, with the pose's joints and `seq` (0 if missing). `time_bits` is written as
/// `time`, `unix_time` (seconds) as `uttm`, which older apps lack.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has no joint or more than [`MAX_JOINTS`].
pub fn encode_frame(
    pose: &PoseUpdate,
    time_bits: u32,
    unix_time: Option<f64>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    if pose.joints.is_empty() || pose.joints.len() > MAX_JOINTS {
        return Err(WireError::unencodable("a frame needs 1 to 256 joints"));
    }
    begin(out);
    let fram = open(out, b"fram");
    put(out, b"fnum", &pose.seq.unwrap_or(0).to_le_bytes());
    put(out, b"time", &time_bits.to_le_bytes());
    if let Some(seconds) = unix_time {
        put(out, b"uttm", &seconds.to_le_bytes());
    }
    let btrs = open(out, b"btrs");
    for joint in &pose.joints {
        let bone = open(out, b"btdt");
        put(out, b"bnid", &joint.id.to_le_bytes());
        put_transform(out, joint.rotation, joint.position);
        close(out, bone);
    }
    close(out, btrs);
    close(out, fram);
    Ok(())
}
