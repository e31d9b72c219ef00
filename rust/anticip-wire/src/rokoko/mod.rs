//! Rokoko Studio: custom streaming as JSON v3, plain or as an LZ4 frame, UDP port 14043.
//!
//! One object: `version`, `fps`, `scene` with `timestamp` (seconds) and `actors`, each with `name`, `meta` and `body`:
//! by joint `position {x, y, z}` in metres and `rotation {x, y, z, w}`, both in the world, in Unity's left-handed axes,
//! y up. The rotations in T-pose are not the identity; they are those of the vendor's plug-ins (rokoko-studio-live-blender,
//! `core/animation_lists.py`). Everything becomes right-handed as VMC does: `(x, y, -z)` and `(-w, x, y, -z)`.
//!
//! Of several actors the first with a whole body is heard, another one when that has been away for 200 messages with
//! others. Reading JSON allocates.

mod message;

use std::fmt::Write as _;
use std::io::Read;

use lz4_flex::frame::FrameDecoder;

use crate::WireError;
use crate::figure::{Figure, place};
use crate::pose::PoseUpdate;
use crate::source::{Active, Source, Update};
use message::{Message, Scene};

/// Joints of the body.
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

/// Rotations of the joints in the world in T-pose, right-handed.
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

/// What begins an LZ4 frame.
const LZ4: &[u8] = b"\x04\x22\x4d\x18";
/// A message is never longer than this.
const LONGEST: u64 = 1 << 20;
const EXPECTED: &str = "Rokoko Studio JSON v3 datagram: choose JSON v3 in Studio's custom streaming";

/// Whether this looks like a message of Studio: an LZ4 frame, or an object of JSON that speaks of a scene or of actors.
pub fn recognises(datagram: &[u8]) -> bool {
    let head = &datagram[..datagram.len().min(512)];
    let says = |word: &[u8]| head.windows(word.len()).any(|part| part == word);
    datagram.starts_with(LZ4)
        || (datagram.starts_with(b"{")
            && (says(b"\"scene\"") || says(b"\"actors\"") || says(b"\"trackers\"")))
}

/// Makes frames of messages; see the module's documentation.
#[derive(Clone, Debug)]
pub struct RokokoDecoder {
    figure: Figure,
    actor: Active<String>,
    text: Vec<u8>,
}

impl Default for RokokoDecoder {
    fn default() -> Self {
        Self {
            figure: Figure::new(&JOINT_NAMES, &JOINT_PARENTS, &REST),
            actor: Active::default(),
            text: Vec::new(),
        }
    }
}

impl RokokoDecoder {
    fn read(&mut self, text: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let message: Message = serde_json::from_slice(text).map_err(|error| WireError::Malformed {
            reason: "not the JSON of Rokoko Studio",
            at: error.column(),
        })?;
        let version = message.version();
        let is_other =
            |scene: &Scene| version < 3.0 || (scene.actors.is_empty() && !scene.newtons.is_empty());
        let Some(scene) = message.scene.filter(|scene| !is_other(scene)) else {
            return Err(WireError::Alien { expected: EXPECTED });
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
            // Nobody is in the scene, or only props and faces.
            return Ok(());
        };
        match self.actor.accept(name.to_owned()) {
            None => return Ok(()),
            Some(true) => self.figure.forget(),
            Some(false) => {}
        }
        self.figure
            .begin(message.fps.filter(|fps| fps.is_finite() && *fps > 0.0));
        self.figure.pose.time = Some(scene.timestamp).filter(|time| time.is_finite());
        for (id, bone) in body.0.iter().enumerate() {
            if let Some(bone) = bone {
                let ([x, y, z], [qx, qy, qz, qw]) = (bone.position(), bone.rotation());
                self.figure.put(id, [-qw, qx, qy, -qz], [x, y, -z]);
            }
        }
        let told = self.figure.end(take);
        if self.figure.is_no_body(&told) {
            // Whoever is next may be one.
            self.actor = Active::default();
        }
        told
    }
}

impl Source for RokokoDecoder {
    fn decode(&mut self, datagram: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        if datagram.starts_with(b"{") {
            return self.read(datagram, take);
        }
        if !datagram.starts_with(LZ4) {
            return Err(WireError::Alien { expected: EXPECTED });
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let result = match FrameDecoder::new(datagram).take(LONGEST).read_to_end(&mut text) {
            Ok(_) => self.read(&text, take),
            Err(_) => Err(WireError::Malformed {
                reason: "an LZ4 frame that does not unpack",
                at: 0,
            }),
        };
        self.text = text;
        result
    }
}

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
        || !(fps + pose.time.unwrap_or(0.0)).is_finite()
    {
        return Err(WireError::Unencodable {
            reason: "a joint of Rokoko is 0 to 20, its numbers, the time and the rate finite",
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
