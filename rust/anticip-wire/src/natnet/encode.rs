use super::{FRAME, MODELDEF};
use crate::WireError;
use crate::figure::place;
use crate::pose::{MAX_JOINTS, PoseUpdate, SkeletonUpdate, is_forest};

/// The skeleton's id in what is sent.
const ID: i32 = 1;

fn message(kind: u16, body: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let bytes = u16::try_from(body.len()).map_err(|_| WireError::Unencodable {
        reason: "a NatNet message has at most 65535 bytes",
    })?;
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// Appends the definition of a skeleton to `out`, as NatNet 4.1.
///
/// # Errors
/// [`WireError::Unencodable`] if it has more than [`MAX_JOINTS`] joints or is too long, its lists are not of one length, or
/// its parents are no tree.
pub fn encode_skeleton(skeleton: &SkeletonUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    let joints = skeleton.len();
    let fits = joints <= MAX_JOINTS && [skeleton.names.len(), skeleton.offsets.len()] == [joints; 2];
    if !fits || !is_forest(&skeleton.parents) {
        return Err(WireError::Unencodable {
            reason: "a skeleton needs as many names and offsets as parents, 256 at most, which are a tree",
        });
    }
    let mut body = b"pyanticip\0".to_vec();
    body.extend_from_slice(&ID.to_le_bytes());
    body.extend_from_slice(&(skeleton.len() as i32).to_le_bytes());
    for (id, name) in skeleton.names.iter().enumerate() {
        body.extend(name.bytes().filter(|byte| *byte != 0).take(255).chain([0]));
        for value in [id as i32 + 1, skeleton.parents[id] + 1] {
            body.extend_from_slice(&value.to_le_bytes());
        }
        for value in skeleton.offsets[id] {
            body.extend_from_slice(&value.to_le_bytes());
        }
        body.extend_from_slice(&0_i32.to_le_bytes());
    }
    let mut whole = Vec::new();
    for value in [1, 2, body.len() as i32] {
        whole.extend_from_slice(&i32::to_le_bytes(value));
    }
    whole.extend_from_slice(&body);
    message(MODELDEF, &whole, out)
}

/// Appends a frame to `out`, as NatNet 4.1 with bones in the world: the pose's `seq` and `time` (0 where there is none), joints
/// of a body with these parents. Rotations and positions of the pose are local, the first's is the place.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has a joint beyond the parents, or there are more than [`MAX_JOINTS`].
pub fn encode_frame(pose: &PoseUpdate, parents: &[i32], out: &mut Vec<u8>) -> Result<(), WireError> {
    let ordered = parents.iter().enumerate().all(|(id, parent)| *parent < id as i32);
    if !ordered
        || parents.len() > MAX_JOINTS
        || pose
            .joints
            .iter()
            .any(|joint| usize::from(joint.id) >= parents.len())
    {
        return Err(WireError::Unencodable {
            reason: "a joint of NatNet is one of the skeleton's, 256 at most, parents first",
        });
    }
    let mut bones = Vec::new();
    for value in [ID, parents.len() as i32] {
        bones.extend_from_slice(&value.to_le_bytes());
    }
    for (id, bone) in place(pose, parents).iter().enumerate() {
        bones.extend_from_slice(&((ID << 16) | (id as i32 + 1)).to_le_bytes());
        let ([x, y, z], [w, qx, qy, qz]) = (bone.position, bone.rotation);
        for value in [x, y, z, qx, qy, qz, w, 0.0] {
            bones.extend_from_slice(&value.to_le_bytes());
        }
        bones.extend_from_slice(&1_i16.to_le_bytes());
    }
    let mut body = pose.seq.unwrap_or(0).to_le_bytes().to_vec();
    // Marker sets, other markers, rigid bodies: none, of no bytes.
    body.extend_from_slice(&[0; 24]);
    body.extend_from_slice(&1_i32.to_le_bytes());
    body.extend_from_slice(&(bones.len() as i32).to_le_bytes());
    body.extend_from_slice(&bones);
    // Assets, labelled markers, force plates, devices; time code.
    body.extend_from_slice(&[0; 32 + 8]);
    body.extend_from_slice(&pose.time.unwrap_or(0.0).to_le_bytes());
    body.extend_from_slice(&[0; 24 + 8 + 2 + 4]);
    message(FRAME, &body, out)
}
