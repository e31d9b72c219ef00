use super::{FRAME, MODELDEF};
use crate::WireError;
use crate::bytes::put_f32s_le;
use crate::pose::{MAX_JOINTS, PoseUpdate, SkeletonUpdate, is_forest};
use crate::world::world_transforms;

/// Id of the skeleton that is sent.
const SKELETON_ID: i32 = 1;

/// Appends a message of this kind.
fn put_message(kind: u16, body: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let bytes = u16::try_from(body.len())
        .map_err(|_| WireError::unencodable("a NatNet message has at most 65535 bytes"))?;
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// Appends integers.
fn put_ints(out: &mut Vec<u8>, values: &[i32]) {
    values
        .iter()
        .for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
}

/// Appends the model definition of a skeleton to `out`, as NatNet 4.1.
///
/// # Errors
/// [`WireError::Unencodable`] if it has more than [`MAX_JOINTS`] joints, its lists differ in length, its parents form
/// no tree, or the message would be too long.
pub fn encode_skeleton(skeleton: &SkeletonUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    let joints = skeleton.len();
    let fits = joints <= MAX_JOINTS && [skeleton.names.len(), skeleton.offsets.len()] == [joints; 2];
    if !fits || !is_forest(&skeleton.parents) {
        return Err(WireError::unencodable(
            "a skeleton needs as many names and offsets as parents, 256 at most, which are a tree",
        ));
    }
    let mut body = b"pyanticip\0".to_vec();
    put_ints(&mut body, &[SKELETON_ID, joints as i32]);
    for (id, name) in skeleton.names.iter().enumerate() {
        body.extend(name.bytes().filter(|byte| *byte != 0).take(255).chain([0]));
        put_ints(&mut body, &[id as i32 + 1, skeleton.parents[id] + 1]);
        put_f32s_le(&mut body, &skeleton.offsets[id]);
        put_ints(&mut body, &[0]);
    }
    let mut definitions = Vec::new();
    // One definition, of kind 2 (a skeleton).
    put_ints(&mut definitions, &[1, 2, body.len() as i32]);
    definitions.extend_from_slice(&body);
    put_message(MODELDEF, &definitions, out)
}

/// Appends a frame to `out`, as NatNet 4.1 with bones in world coordinates; a missing `seq` or `time` is sent as 0. The
/// pose is parent-local; the root's position is that in the world.
///
/// # Errors
/// [`WireError::Unencodable`] if a joint's id exceeds the parents, a parent does not precede its child, or there are
/// more than [`MAX_JOINTS`].
pub fn encode_frame(pose: &PoseUpdate, parents: &[i32], out: &mut Vec<u8>) -> Result<(), WireError> {
    let is_ordered = parents.iter().enumerate().all(|(id, parent)| *parent < id as i32);
    if !is_ordered || parents.len() > MAX_JOINTS || !pose.has_ids_below(parents.len()) {
        return Err(WireError::unencodable(
            "a joint of NatNet is one of the skeleton's, 256 at most, parents first",
        ));
    }
    let mut bones = Vec::new();
    put_ints(&mut bones, &[SKELETON_ID, parents.len() as i32]);
    for (id, bone) in world_transforms(pose, parents).iter().enumerate() {
        put_ints(&mut bones, &[(SKELETON_ID << 16) | (id as i32 + 1)]);
        let ([x, y, z], [w, qx, qy, qz]) = (bone.position, bone.rotation);
        put_f32s_le(&mut bones, &[x, y, z, qx, qy, qz, w, 0.0]);
        bones.extend_from_slice(&1_i16.to_le_bytes());
    }
    let mut body = pose.seq.unwrap_or(0).to_le_bytes().to_vec();
    // Empty sections: marker sets, other markers, rigid bodies.
    body.extend_from_slice(&[0; 24]);
    put_ints(&mut body, &[1, bones.len() as i32]);
    body.extend_from_slice(&bones);
    // Empty sections: assets, labelled markers, force plates, devices; then the time code.
    body.extend_from_slice(&[0; 32 + 8]);
    body.extend_from_slice(&pose.time.unwrap_or(0.0).to_le_bytes());
    body.extend_from_slice(&[0; 24 + 8 + 2 + 4]);
    put_message(FRAME, &body, out)
}
