//! VRChat's trackers over OSC, as SlimeVR and others send them, UDP port 9000.
//!
//! The messages are `/tracking/trackers/N/position ,fff` (metres) and `/tracking/trackers/N/rotation ,fff` (Unity's
//! Euler angles in degrees, about z, then x, then y), with N from 1 to 8 or `head`. VRChat does not assign the numbers
//! to parts of the body; [`TRACKERS`] is the assignment of SlimeVR, which others follow. Negating z makes the axes
//! right-handed.
//!
//! A frame is complete when every value of the previous frame has come again, in a bundle or message by message. Frames
//! have no times. A tracker that is missing keeps its last transform.

use crate::WireError;
use crate::bytes::put_f32s_be;
use crate::osc;
use crate::pose::{Tracker, TrackerUpdate, is_position, is_rotation};
use crate::source::{Source, Update};
use crate::world::{from_euler_yxz, to_euler_yxz};

/// Number in the address, and part of the body, of each tracker.
pub const TRACKERS: [(&str, &str); 9] = [
    ("1", "hips"),
    ("2", "left_foot"),
    ("3", "right_foot"),
    ("4", "left_upper_leg"),
    ("5", "right_upper_leg"),
    ("6", "upper_chest"),
    ("7", "left_upper_arm"),
    ("8", "right_upper_arm"),
    ("head", "head"),
];

const ADDRESS_PREFIX: &[u8] = b"/tracking/trackers/";
/// Forward axis of a tracker: z in Unity, which is negated here.
const FORWARD_AXIS: [f32; 3] = [0.0, 0.0, -1.0];

/// Whether the first message is a tracker's.
pub fn recognises(datagram: &[u8]) -> bool {
    osc::first_address(datagram).is_some_and(|address| address.starts_with(ADDRESS_PREFIX))
}

/// Decoder of tracker messages; see the module documentation.
#[derive(Clone, Debug)]
pub struct VrchatAssembler {
    update: TrackerUpdate,
    /// Values received since the last frame, two bits per tracker: position, rotation.
    received: u32,
    /// Values of the last frame.
    previous: u32,
}

impl Default for VrchatAssembler {
    fn default() -> Self {
        let tracker = |(_, joint): (&str, &str)| Tracker {
            name: joint.to_owned(),
            ..Tracker::default()
        };
        Self {
            update: TrackerUpdate {
                forward_axis: Some(FORWARD_AXIS),
                trackers: TRACKERS.map(tracker).to_vec(),
                ..TrackerUpdate::default()
            },
            received: 0,
            previous: 0,
        }
    }
}

impl VrchatAssembler {
    fn apply(&mut self, message: &osc::Message<'_>, on_update: &mut dyn FnMut(Update<'_>)) {
        let Some((index, is_angles)) = parse_address(message.address) else {
            return;
        };
        let Some(values) = three_numbers(message) else {
            return;
        };
        let bit = 1 << (2 * index + usize::from(is_angles));
        if self.received & bit != 0 {
            self.flush(on_update);
        }
        self.received |= bit;
        let tracker = &mut self.update.trackers[index];
        if is_angles {
            tracker.rotation = Some(from_unity_euler(values));
        } else {
            let [x, y, z] = values;
            tracker.position = Some([x, y, -z]);
        }
    }

    /// Completes the frame; it is delivered once any rotation is known.
    fn flush(&mut self, on_update: &mut dyn FnMut(Update<'_>)) {
        self.previous = std::mem::take(&mut self.received);
        if self.update.trackers.iter().any(|t| t.rotation.is_some()) {
            on_update(Update::Trackers(&self.update));
        }
    }
}

impl Source for VrchatAssembler {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        if !osc::is_bundle(datagram) && osc::message(datagram).is_none() {
            return Err(WireError::alien("VRChat tracker datagram"));
        }
        osc::check(datagram)?;
        osc::walk(datagram, &mut |message| {
            if let Some(message) = message {
                self.apply(&message, on_update);
            }
        });
        if self.previous != 0 && self.received & self.previous == self.previous {
            self.flush(on_update);
        }
        Ok(())
    }
}

/// The index of the tracker that an address names, and whether it is for its rotation.
fn parse_address(address: &[u8]) -> Option<(usize, bool)> {
    let rest = address.strip_prefix(ADDRESS_PREFIX)?;
    let (rest, is_angles) = match rest.strip_suffix(b"/rotation") {
        Some(rest) => (rest, true),
        None => (rest.strip_suffix(b"/position")?, false),
    };
    let index = TRACKERS
        .iter()
        .position(|(number, _)| number.as_bytes() == rest)?;
    Some((index, is_angles))
}

/// The first three numbers of a message, if they are valid.
fn three_numbers(message: &osc::Message<'_>) -> Option<[f32; 3]> {
    let values = osc::numbers(message.tags, message.arguments)?.map(|v| v as f32);
    is_position(&values).then_some(values)
}

/// The right-handed rotation of Unity's Euler angles: degrees about x, y and z, applied about z, then x, then y.
fn from_unity_euler([x, y, z]: [f32; 3]) -> [f32; 4] {
    let [w, x, y, z] = from_euler_yxz([y, x, z]);
    [w, -x, -y, z]
}

/// The inverse of [`from_unity_euler`].
fn to_unity_euler([w, x, y, z]: [f32; 4]) -> [f32; 3] {
    let [y, x, z] = to_euler_yxz([w, -x, -y, z]);
    [x, y, z]
}

/// Appends a frame to `out` as one bundle. `trackers` are in the order of [`TRACKERS`]; their unknown values are left
/// out.
///
/// # Errors
/// [`WireError::Unencodable`] if there are more than nine trackers, or a rotation or position is invalid.
pub fn encode_frame(trackers: &[Tracker], out: &mut Vec<u8>) -> Result<(), WireError> {
    let is_valid = |tracker: &Tracker| {
        tracker.rotation.is_none_or(|q| is_rotation(&q)) && tracker.position.is_none_or(|p| is_position(&p))
    };
    if trackers.len() > TRACKERS.len() || !trackers.iter().all(is_valid) {
        return Err(WireError::unencodable(
            "VRChat has nine trackers, of finite places and rotations",
        ));
    }
    osc::put_bundle(out);
    for (tracker, (number, _)) in trackers.iter().zip(TRACKERS) {
        let position = tracker.position.map(|[x, y, z]| [x, y, -z]);
        for (name, values) in [
            ("position", position),
            ("rotation", tracker.rotation.map(to_unity_euler)),
        ] {
            let Some(values) = values else { continue };
            osc::put_element(out, |out| {
                osc::put_string(out, &format!("/tracking/trackers/{number}/{name}"));
                osc::put_string(out, ",fff");
                put_f32s_be(out, &values);
            });
        }
    }
    Ok(())
}
