//! VRChat's trackers over OSC, as SlimeVR and others send them, UDP port 9000.
//!
//! Read are `/tracking/trackers/N/position ,fff` (metres) and `/tracking/trackers/N/rotation ,fff` (degrees, Unity's: turned
//! about z, then x, then y), N being 1 to 8 or `head`. VRChat numbers no parts of the body; [`TRACKERS`] are SlimeVR's
//! numbers, which others follow. Unity's axes become right-handed, z negated.
//!
//! A frame is what the frame before had, told again, in a bundle or message by message; there are no times in it. A tracker that is not
//! told again stays where it was.

use crate::WireError;
use crate::figure::{degrees, turned};
use crate::osc;
use crate::pose::{Tracker, TrackerUpdate, is_position, is_rotation};
use crate::source::{Source, Update};

/// What numbers a tracker has in its address, and the part of the body.
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

const ADDRESS: &[u8] = b"/tracking/trackers/";
/// A body that faces ahead in Unity looks along z, which is negated here.
const AHEAD: [f32; 3] = [0.0, 0.0, -1.0];

/// Whether the first message is one of a tracker.
pub fn recognises(datagram: &[u8]) -> bool {
    osc::first_address(datagram).is_some_and(|address| address.starts_with(ADDRESS))
}

/// Makes frames of datagrams; see the module's documentation.
#[derive(Clone, Debug)]
pub struct VrchatAssembler {
    update: TrackerUpdate,
    /// Bits: what was told since the last frame, and what that had. Two a tracker: its place, its rotation.
    sweep: u32,
    usual: u32,
}

impl Default for VrchatAssembler {
    fn default() -> Self {
        let tracker = |(_, joint): (&str, &str)| Tracker {
            name: joint.to_owned(),
            ..Tracker::default()
        };
        Self {
            update: TrackerUpdate {
                ahead: Some(AHEAD),
                trackers: TRACKERS.map(tracker).to_vec(),
                ..TrackerUpdate::default()
            },
            sweep: 0,
            usual: 0,
        }
    }
}

impl VrchatAssembler {
    fn apply(&mut self, message: &osc::Message<'_>, take: &mut dyn FnMut(Update<'_>)) {
        let Some((number, turns)) = part(message.address) else {
            return;
        };
        let Some(values) = three(message) else { return };
        let bit = 1 << (2 * number + usize::from(turns));
        let tracker = |update: &mut TrackerUpdate| {
            let tracker = &mut update.trackers[number];
            if turns {
                tracker.rotation = Some(turn(values));
            } else {
                let [x, y, z] = values;
                tracker.position = Some([x, y, -z]);
            }
        };
        if self.sweep & bit != 0 {
            self.flush(take);
        }
        self.sweep |= bit;
        tracker(&mut self.update);
    }

    /// Completes the frame.
    fn flush(&mut self, take: &mut dyn FnMut(Update<'_>)) {
        self.usual = std::mem::take(&mut self.sweep);
        if self.update.trackers.iter().any(|t| t.rotation.is_some()) {
            take(Update::Trackers(&self.update));
        }
    }
}

impl Source for VrchatAssembler {
    fn decode(&mut self, datagram: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        if !osc::is_bundle(datagram) && osc::message(datagram).is_none() {
            return Err(WireError::Alien {
                expected: "VRChat tracker datagram",
            });
        }
        osc::check(datagram)?;
        osc::walk(datagram, &mut |message| {
            if let Some(message) = message {
                self.apply(&message, take);
            }
        });
        if self.usual != 0 && self.sweep & self.usual == self.usual {
            self.flush(take);
        }
        Ok(())
    }
}

/// Which tracker an address is of, and whether of its rotation.
fn part(address: &[u8]) -> Option<(usize, bool)> {
    let rest = address.strip_prefix(ADDRESS)?;
    let (rest, turns) = match rest.strip_suffix(b"/rotation") {
        Some(rest) => (rest, true),
        None => (rest.strip_suffix(b"/position")?, false),
    };
    let number = TRACKERS
        .iter()
        .position(|(number, _)| number.as_bytes() == rest)?;
    Some((number, turns))
}

/// The first three numbers of a message, if they are a place or angles.
fn three(message: &osc::Message<'_>) -> Option<[f32; 3]> {
    let values = osc::numbers(message.tags, message.arguments)?.map(|v| v as f32);
    is_position(&values).then_some(values)
}

/// Of Unity's degrees about x, y, z, which turns about z, then x, then y; right-handed.
fn turn([x, y, z]: [f32; 3]) -> [f32; 4] {
    let [w, x, y, z] = turned([y, x, z]);
    [w, -x, -y, z]
}

/// The way back.
fn angles([w, x, y, z]: [f32; 4]) -> [f32; 3] {
    let [y, x, z] = degrees([w, -x, -y, z]);
    [x, y, z]
}

/// Appends a frame to `out`, one bundle: what the trackers of [`TRACKERS`], in that order, tell.
///
/// # Errors
/// [`WireError::Unencodable`] if there are more of them, or one tells no rotation or place.
pub fn encode_frame(trackers: &[Tracker], out: &mut Vec<u8>) -> Result<(), WireError> {
    let usable = |tracker: &Tracker| {
        tracker.rotation.is_none_or(|q| is_rotation(&q)) && tracker.position.is_none_or(|p| is_position(&p))
    };
    if trackers.len() > TRACKERS.len() || !trackers.iter().all(usable) {
        return Err(WireError::Unencodable {
            reason: "VRChat has nine trackers, of finite places and rotations",
        });
    }
    osc::put_bundle(out);
    for (tracker, (number, _)) in trackers.iter().zip(TRACKERS) {
        let place = tracker.position.map(|[x, y, z]| [x, y, -z]);
        for (what, values) in [("position", place), ("rotation", tracker.rotation.map(angles))] {
            let Some(values) = values else { continue };
            osc::put_element(out, |out| {
                osc::put_string(out, &format!("/tracking/trackers/{number}/{what}"));
                osc::put_string(out, ",fff");
                values
                    .iter()
                    .for_each(|v| out.extend_from_slice(&v.to_be_bytes()));
            });
        }
    }
    Ok(())
}
