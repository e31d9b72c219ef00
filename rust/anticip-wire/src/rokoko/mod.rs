//! Rokoko Studio: custom streaming as JSON v3, plain or as an LZ4 frame, UDP port 14043.
//!
//! A message is one object with `version`, `fps` and `scene`, which has `timestamp` (seconds) and `actors`, each with
//! `name`, `meta` and `body`: per joint `position {x, y, z}` in metres and `rotation {x, y, z, w}`, both in world
//! coordinates with Unity's left-handed axes, y up. The T-pose rotations are not the identity but those of the vendor's
//! plug-ins (rokoko-studio-live-blender, `core/animation_lists.py`). The conversion to right-handed axes is that of
//! VMC: `(x, y, -z)` and `w, x, y, z = (-w, x, y, -z)`.
//!
//! Only one actor is decoded: the first with a complete body, until it has been absent for 200 messages with others.
//! Parsing JSON allocates.

mod message;

use std::fmt::Write as _;
use std::io::Read;

use lz4_flex::frame::FrameDecoder;

use crate::WireError;
use crate::pose::PoseUpdate;
use crate::source::{Active, Source, Update};
use crate::world::{WorldBody, world_transforms};
use message::{Message, Scene};

/// Number of joints of the body.
pub const JOINTS: usize = 21;

/// Names of the joints.
pub const JOINT_NAMES: [&str; JOINTS] = [
    "hip",
    "spine",
    "chest",
    "neck",
    "head",
    "leftShoulder",
    "leftUpperArm",
    "leftLowerArm",
    "leftHand",
    "rightShoulder",
    "rightUpperArm",
    "rightLowerArm",
    "rightHand",
    "leftUpLeg",
    "leftLeg",
    "leftFoot",
    "leftToe",
    "rightUpLeg",
    "rightLeg",
    "rightFoot",
    "rightToe",
];

/// Parents of the joints.
pub const JOINT_PARENTS: [i32; JOINTS] = [
    -1, 0, 1, 2, 3, 2, 5, 6, 7, 2, 9, 10, 11, 0, 13, 14, 15, 0, 17, 18, 19,
];

const R: f32 = std::f32::consts::FRAC_1_SQRT_2;

/// World rotations of the joints in T-pose, right-handed.
pub const REST: [[f32; 4]; JOINTS] = [
    [1.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 1.0],
    [0.0, 0.0, 0.0, 1.0],
    [0.0, 0.0, 0.0, 1.0],
    [0.0, 0.0, 0.0, 1.0],
    [R, 0.0, 0.0, -R],
    [0.5, -0.5, -0.5, -0.5],
    [0.5, -0.5, -0.5, -0.5],
    [0.5, -0.5, -0.5, -0.5],
    [R, 0.0, 0.0, R],
    [0.5, -0.5, 0.5, 0.5],
    [0.5, -0.5, 0.5, 0.5],
    [0.5, -0.5, 0.5, 0.5],
    [R, 0.0, -R, 0.0],
    [R, 0.0, -R, 0.0],
    [0.0, 0.0, R, R],
    [0.0, 0.0, R, R],
    [R, 0.0, R, 0.0],
    [R, 0.0, R, 0.0],
    [0.0, 0.0, R, R],
    [0.0, 0.0, R, R],
];

/// First bytes of an LZ4 frame.
const LZ4_MAGIC: &[u8] = b"\x04\x22\x4d\x18";
/// Maximum size of an uncompressed message, in bytes; the rest is cut off.
const MAX_MESSAGE: u64 = 1 << 20;
const EXPECTED: &str = "Rokoko Studio JSON v3 datagram: choose JSON v3 in Studio's custom streaming";

/// Whether this looks like a message of Studio: an LZ4 frame, or a JSON object that has a scene, actors or trackers.
pub fn recognises(datagram: &[u8]) -> bool {
    let head = &datagram[..datagram.len().min(512)];
    let contains = |word: &[u8]| head.windows(word.len()).any(|part| part == word);
    datagram.starts_with(LZ4_MAGIC)
        || (datagram.starts_with(b"{")
            && (contains(b"\"scene\"") || contains(b"\"actors\"") || contains(b"\"trackers\"")))
}

/// Decoder of Studio's messages; see the module documentation.
#[derive(Clone, Debug)]
pub struct RokokoDecoder {
    body: WorldBody,
    actor: Active<String>,
    /// Buffer for uncompressed messages.
    text: Vec<u8>,
}

impl Default for RokokoDecoder {
    fn default() -> Self {
        Self {
            body: WorldBody::new(&JOINT_NAMES, &JOINT_PARENTS, &REST),
            actor: Active::default(),
            text: Vec::new(),
        }
    }
}

impl RokokoDecoder {
    fn decode_json(&mut self, text: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let message: Message = serde_json::from_slice(text)
            .map_err(|error| WireError::malformed(error.column(), "not the JSON of Rokoko Studio"))?;
        let version = message.version();
        let is_other_version =
            |scene: &Scene| version < 3.0 || (scene.actors.is_empty() && !scene.newtons.is_empty());
        let Some(scene) = message.scene.filter(|scene| !is_other_version(scene)) else {
            return Err(WireError::alien(EXPECTED));
        };
        let is_active = |name: &str| self.actor.id.as_deref() == Some(name);
        let actors = || {
            scene
                .actors
                .iter()
                .filter_map(|actor| Some((actor.name.as_ref(), actor.body()?)))
        };
        let Some((name, body)) = actors()
            .find(|(name, _)| is_active(name))
            .or_else(|| actors().find(|(_, body)| body.0.iter().all(Option::is_some)))
            .or_else(|| actors().next())
        else {
            // The scene is empty, or has only props and faces.
            return Ok(());
        };
        match self.actor.accept(name.to_owned()) {
            None => return Ok(()),
            Some(true) => self.body.reset_skeleton(),
            Some(false) => {}
        }
        self.body
            .begin_frame(message.fps.filter(|fps| fps.is_finite() && *fps > 0.0));
        self.body.pose.time = Some(scene.timestamp).filter(|time| time.is_finite());
        for (id, bone) in body.0.iter().enumerate() {
            if let Some(bone) = bone {
                let ([x, y, z], [qx, qy, qz, qw]) = (bone.position(), bone.rotation());
                self.body.set_joint(id, [-qw, qx, qy, -qz], [x, y, -z]);
            }
        }
        let result = self.body.finish_frame(on_update);
        if self.body.is_not_a_body(&result) {
            // Not a person: another actor may be one.
            self.actor = Active::default();
        }
        result
    }
}

impl Source for RokokoDecoder {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        if datagram.starts_with(b"{") {
            return self.decode_json(datagram, on_update);
        }
        if !datagram.starts_with(LZ4_MAGIC) {
            return Err(WireError::alien(EXPECTED));
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let result = match FrameDecoder::new(datagram)
            .take(MAX_MESSAGE)
            .read_to_end(&mut text)
        {
            Ok(_) => self.decode_json(&text, on_update),
            Err(_) => Err(WireError::malformed(0, "an LZ4 frame that does not unpack")),
        };
        self.text = text;
        result
    }
}

/// Appends a frame of one actor with the whole body to `out`, as plain JSON; a missing `time` is sent as 0. The pose is
/// parent-local; the hips' position is that in the world.
///
/// # Errors
/// [`WireError::Unencodable`] if a joint's id exceeds 20, or a number is not finite.
pub fn encode_frame(pose: &PoseUpdate, fps: f64, out: &mut Vec<u8>) -> Result<(), WireError> {
    let mut numbers = pose
        .joints
        .iter()
        .flat_map(|j| j.rotation.into_iter().chain(j.position));
    let is_finite = numbers.all(f32::is_finite) && (fps + pose.time.unwrap_or(0.0)).is_finite();
    if !pose.has_ids_below(JOINTS) || !is_finite {
        return Err(WireError::unencodable(
            "a joint of Rokoko is 0 to 20, its numbers, the time and the rate finite",
        ));
    }
    let mut text = format!(
        concat!(
            r#"{{"version":3.0,"fps":{:.1},"scene":{{"timestamp":{},"#,
            r#""actors":[{{"name":"pyanticip","color":[255,255,255],"meta":{{"hasGloves":false,"hasLeftGlove":false,"#,
            r#""hasRightGlove":false,"hasBody":true,"hasFace":false}},"#,
            r#""dimensions":{{"totalHeight":1.8,"hipHeight":1.0}},"body":{{"#
        ),
        fps,
        pose.time.unwrap_or(0.0)
    );
    for (id, joint) in world_transforms(pose, &JOINT_PARENTS).iter().enumerate() {
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
