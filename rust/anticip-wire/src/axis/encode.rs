use super::{BEGINS, BONES, ENDS, FULL};
use crate::WireError;
use crate::pose::PoseUpdate;

/// Appends a frame of the whole body to `out`, binary with displacement and without reference, as avatar 0: the pose's
/// `seq` (0 where there is none). Rotations and positions are local, the hips' is the place.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has a joint beyond the 59.
pub fn encode_frame(pose: &PoseUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    if pose.joints.iter().any(|joint| usize::from(joint.id) >= BONES) {
        return Err(WireError::Unencodable {
            reason: "a bone of Axis is 0 to 58",
        });
    }
    out.extend_from_slice(&BEGINS);
    out.extend_from_slice(&0x0101_0000_u32.to_le_bytes());
    out.extend_from_slice(&(FULL as u16).to_le_bytes());
    out.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
    let mut name = [0; 32];
    name[..10].copy_from_slice(b"pyanticip\0");
    out.extend_from_slice(&name);
    out.extend_from_slice(&pose.seq.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(&ENDS);
    for id in 0..BONES {
        let (place, degrees) = pose.joint(id as u16).map_or(([0.0; 3], [0.0; 3]), |joint| {
            (joint.position.map(|v| v * 100.0), degrees(joint.rotation))
        });
        for value in place.iter().chain(&degrees) {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
    Ok(())
}

/// Degrees about y, x and z, turned in that order.
fn degrees(q: [f32; 4]) -> [f32; 3] {
    let q = q.map(f64::from);
    let norm = q.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-12);
    let [w, x, y, z] = q.map(|v| v / norm);
    let sine = 2.0 * (w * x - y * z);
    let about_x = sine.clamp(-1.0, 1.0).asin();
    let (about_y, about_z) = if sine.abs() < 0.999_999 {
        (
            (2.0 * (x * z + w * y)).atan2(1.0 - 2.0 * (x * x + y * y)),
            (2.0 * (x * y + w * z)).atan2(1.0 - 2.0 * (x * x + z * z)),
        )
    } else {
        // Straight up or down the two turn about the same axis: all of it is one's.
        ((-2.0 * (x * z - w * y)).atan2(1.0 - 2.0 * (y * y + z * z)), 0.0)
    };
    [about_y, about_x, about_z].map(|v| v.to_degrees() as f32)
}
