//! VRChat's trackers over OSC, as SlimeVR and others send them, UDP port 9000.
//!
//! The messages are `/tracking/trackers/N/position ,fff` (metres) and `/tracking/trackers/N/rotation ,fff` (Unity's
//! Euler angles in degrees, about z, then x, then y), with N from 1 to 8 or `head`. Negating z makes the axes
//! right-handed.
//!
//! VRChat does not assign the numbers to parts of the body. [`TRACKERS`] is the assignment of SlimeVR; if the first
//! positions contradict it, parts are assigned by where the trackers are, as VRChat does (many senders go through
//! hips, chest, feet, knees and elbows).
//!
//! A frame is complete when every value of the previous frame has come again, in a bundle or message by message. Frames
//! have no times. A tracker that is missing keeps its last transform.

use crate::WireError;
use crate::bytes::put_f32s_be;
use crate::osc;
use crate::pose::{Tracker, TrackerUpdate, is_position, is_rotation};
use crate::source::{Source, Update};
use crate::world::{from_euler_yxz, product, to_euler_yxz};

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
/// Index of the head's tracker.
const HEAD: usize = TRACKERS.len() - 1;
/// A foot is at least this far below hips and thighs, metres.
const MIN_LEG: f32 = 0.1;
/// Feet that show left and right are at least this far apart, metres.
const MIN_STRIDE: f32 = 0.05;
/// The trackers of a standing body, which alone tells its parts, extend at least this far upwards, metres.
const MIN_HEIGHT: f32 = 0.5;
/// Hips that are less than this above the feet, metres, may be below the knees: the body sits or squats.
const MIN_STANCE: f32 = 0.6;
/// Trackers of hips and chest are this close to the middle of the feet, relative to the feet's distance.
const CENTRAL: f32 = 0.25;
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
    /// Values received in any frame.
    known: u32,
    /// Whether the numbers are known to be SlimeVR's, whatever the body does later.
    is_slimevr: bool,
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
            known: 0,
            is_slimevr: false,
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
        if !self.is_slimevr && self.previous & !self.known != 0 {
            self.known |= self.previous;
            self.is_slimevr = assign_parts(&mut self.update.trackers);
        }
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

/// Names the trackers of a standing body by where they are, if SlimeVR's numbers cannot be meant; returns whether
/// hips and a foot show that they are.
fn assign_parts(trackers: &mut [Tracker]) -> bool {
    let height = |index: usize| trackers[index].position.map(|[_, y, _]| y);
    let (hips, feet, thighs) = (height(0), height(1).or(height(2)), height(3).or(height(4)));
    let is_above = |upper: Option<f32>, lower: Option<f32>, by: f32| {
        upper.zip(lower).is_none_or(|(upper, lower)| upper > lower + by)
    };
    if is_above(hips, feet, MIN_LEG)
        && is_above(thighs, feet, MIN_LEG)
        && (is_above(hips, thighs, 0.0) || !is_above(hips, feet, MIN_STANCE))
        && is_above(height(5), hips, 0.0)
    {
        return hips.is_some() && feet.is_some();
    }
    let mut placed: Vec<(usize, [f32; 3])> = (0..HEAD)
        .filter_map(|index| Some((index, trackers[index].position?)))
        .collect();
    placed.sort_by(|(_, a), (_, b)| a[1].total_cmp(&b[1]));
    let [(_, a), (_, b), .., (_, top)] = placed[..] else {
        return false;
    };
    let (x, z) = (a[0] - b[0], a[2] - b[2]);
    if x.hypot(z) < MIN_STRIDE || top[1] - a[1] < MIN_HEIGHT {
        return false;
    }
    // How far a place is from the middle of the feet, towards foot `a`, in units of their distance.
    let across =
        |p: [f32; 3]| ((p[0] - (a[0] + b[0]) / 2.0) * x + (p[2] - (a[2] + b[2]) / 2.0) * z) / (x * x + z * z);
    let is_central = |p: [f32; 3]| across(p).abs() < CENTRAL;
    let hips = placed[2..]
        .iter()
        .position(|(_, p)| is_central(*p))
        .map(|at| at + 2);
    let facing = hips
        .and_then(|at| trackers[placed[at].0].rotation)
        .or(trackers[HEAD].rotation);
    let [forward_x, forward_z] = facing.map_or([0.0, -1.0], heading);
    // Left is up crossed with forward.
    let a_is_left = x * forward_z - z * forward_x > 0.0;
    let knees = if placed.len() > 3 && !is_central(placed[2].1) {
        4
    } else {
        2
    };
    for tracker in &mut trackers[..HEAD] {
        tracker.name.clear();
    }
    for (rank, (index, place)) in placed.iter().enumerate() {
        let side = if (across(*place) > 0.0) == a_is_left {
            "left"
        } else {
            "right"
        };
        trackers[*index].name = match rank {
            _ if rank < 2 => format!("{side}_foot"),
            _ if Some(rank) == hips => "hips".to_owned(),
            _ if is_central(*place) => "upper_chest".to_owned(),
            _ if rank < knees => format!("{side}_upper_leg"),
            _ => format!("{side}_upper_arm"),
        };
    }
    false
}

/// Where the forward axis of a tracker points, x and z.
fn heading(q: [f32; 4]) -> [f32; 2] {
    let [w, x, y, z] = q.map(f64::from);
    let forward = [0.0, 0.0, 0.0, FORWARD_AXIS[2].into()];
    let [_, forward_x, _, forward_z] = product(product([w, x, y, z], forward), [w, -x, -y, -z]);
    [forward_x as f32, forward_z as f32]
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
