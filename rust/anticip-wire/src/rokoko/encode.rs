use std::fmt::Write as _;

use super::{JOINT_NAMES, JOINT_PARENTS, JOINTS};
use crate::WireError;
use crate::figure::place;
use crate::pose::PoseUpdate;

/// Appends a frame of one actor with the whole body to `out`, as plain JSON: the pose's `time` (0 where there is none).
/// Positions are local, the hips' is the place.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has a joint beyond the 21, or a number that is none.
pub fn encode_frame(pose: &PoseUpdate, fps: f64, out: &mut Vec<u8>) -> Result<(), WireError> {
    let numbers = |joint: &crate::Joint| {
        joint
            .rotation
            .iter()
            .chain(&joint.position)
            .all(|v| v.is_finite())
    };
    if pose
        .joints
        .iter()
        .any(|joint| usize::from(joint.id) >= JOINTS || !numbers(joint))
    {
        return Err(WireError::Unencodable {
            reason: "a joint of Rokoko is 0 to 20, its numbers finite",
        });
    }
    let mut text = format!(
        r#"{{"version":3.0,"fps":{fps:.1},"scene":{{"timestamp":{},"actors":[{{"name":"pyanticip","color":[255,255,255],"meta":{{"hasGloves":false,"hasLeftGlove":false,"hasRightGlove":false,"hasBody":true,"hasFace":false}},"dimensions":{{"totalHeight":1.8,"hipHeight":1.0}},"body":{{"#,
        pose.time.unwrap_or(0.0)
    );
    for (id, joint) in place(pose, &JOINT_PARENTS).iter().enumerate() {
        let ([x, y, z], [w, qx, qy, qz]) = (joint.position, joint.rotation);
        let comma = if id == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            r#"{comma}"{}":{{"position":{{"x":{x},"y":{y},"z":{}}},"rotation":{{"x":{qx},"y":{qy},"z":{},"w":{}}}}}"#,
            JOINT_NAMES[id], -z, -qz, -w
        );
    }
    text.push_str(r#"}}],"characters":[],"props":[]}}"#);
    out.extend_from_slice(text.as_bytes());
    Ok(())
}
