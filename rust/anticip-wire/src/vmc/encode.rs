use super::{BONE_NAMES, BONES};
use crate::WireError;
use crate::bytes::put_f32s_be;
use crate::osc::{put_bundle, put_element, put_string};
use crate::pose::PoseUpdate;

/// Writes `,sfffffff` in Unity's axes.
fn put_transform(
    out: &mut Vec<u8>,
    address: &str,
    name: &str,
    [w, x, y, z]: [f32; 4],
    [px, py, pz]: [f32; 3],
) {
    put_string(out, address);
    put_string(out, ",sfffffff");
    put_string(out, name);
    put_f32s_be(out, &[px, py, -pz, x, y, -z, -w]);
}

/// Appends a frame to `out` as one bundle: `/VMC/Ext/OK 1`, `/VMC/Ext/T` if the pose has a time, the root at the
/// origin, then the pose's bones (4588 bytes for all 55 with a time). The hips' position is that in the world.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has no bone, more than 55, or an id above 54.
pub fn encode_frame(pose: &PoseUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    if pose.joints.is_empty() || pose.joints.len() > BONES {
        return Err(WireError::unencodable("a VMC frame needs 1 to 55 bones"));
    }
    put_bundle(out);
    put_element(out, |out| {
        put_string(out, "/VMC/Ext/OK");
        put_string(out, ",i");
        out.extend_from_slice(&1i32.to_be_bytes());
    });
    if let Some(seconds) = pose.time {
        put_element(out, |out| {
            put_string(out, "/VMC/Ext/T");
            put_string(out, ",f");
            out.extend_from_slice(&(seconds as f32).to_be_bytes());
        });
    }
    // `put_transform` negates w and z: this is sent as Unity's identity at the origin.
    put_element(out, |out| {
        put_transform(
            out,
            "/VMC/Ext/Root/Pos",
            "root",
            [-1.0, 0.0, 0.0, -0.0],
            [0.0, 0.0, -0.0],
        )
    });
    for joint in &pose.joints {
        let Some(name) = BONE_NAMES.get(usize::from(joint.id)) else {
            return Err(WireError::unencodable("a VMC bone id is 0 to 54"));
        };
        put_element(out, |out| {
            put_transform(out, "/VMC/Ext/Bone/Pos", name, joint.rotation, joint.position)
        });
    }
    Ok(())
}
