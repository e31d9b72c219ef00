use super::{ITEM, SEGMENT_PARENTS, SEGMENTS};
use crate::WireError;
use crate::figure::place;
use crate::pose::PoseUpdate;

/// Appends a frame of the whole body to `out`, one datagram of 760 bytes as MVN sends it without props and fingers:
/// the pose's `seq` and `time` (0 where there is none), character 0. Positions are local, the hips' is the place.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has a joint beyond the 23 segments.
pub fn encode_frame(pose: &PoseUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    if pose.joints.iter().any(|joint| usize::from(joint.id) >= SEGMENTS) {
        return Err(WireError::Unencodable {
            reason: "a segment of MVN is 0 to 22",
        });
    }
    out.extend_from_slice(b"MXTP02");
    out.extend_from_slice(&pose.seq.unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&[0x80, SEGMENTS as u8]);
    let milliseconds = (pose.time.unwrap_or(0.0) * 1000.0).round() as u64 as u32;
    out.extend_from_slice(&milliseconds.to_be_bytes());
    out.extend_from_slice(&[0, SEGMENTS as u8, 0, 0, 0, 0]);
    out.extend_from_slice(&((SEGMENTS * ITEM) as u16).to_be_bytes());
    for (id, joint) in place(pose, &SEGMENT_PARENTS).iter().enumerate() {
        out.extend_from_slice(&(id as u32 + 1).to_be_bytes());
        let ([y, z, x], [w, qy, qz, qx]) = (joint.position, joint.rotation);
        for value in [x, y, z, w, qx, qy, qz] {
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
    Ok(())
}
