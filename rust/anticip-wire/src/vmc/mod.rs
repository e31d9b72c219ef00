//! The VMC protocol: humanoid bones over OSC, UDP port 39539.
//!
//! The messages are `/VMC/Ext/Bone/Pos ,sfffffff` and `/VMC/Ext/Root/Pos ,sfffffff` (name, position, quaternion
//! `x, y, z, w`, local to the parent) and `/VMC/Ext/T ,f` (the sender's clock in seconds). A number may be `f`,
//! `d`, `i` or `h`, but a clock that only ever sends integers is ignored. Other addresses and further arguments are ignored;
//! messages with too few or wrongly typed arguments are dropped.
//!
//! Unity is left-handed: positions become `(x, y, -z)`, quaternions `w, x, y, z = (-qw, qx, qy, -qz)`. The root's
//! transform is composed into the hips; for a sender without hips, a root that ever left the origin serves as the hips.
//!
//! VMC does not mark frames; [`VmcAssembler`] finds their ends:
//! * A frame ends before a bone that it already has, and before a second `T` of another value.
//! * Unbundled, it also ends at a `T` that follows bones.
//! * A bundle with `T` after bones ends a frame, like the last of VirtualMotionCapture's several bundles per frame. For
//!   a sender that never does so, a bundle ends the frame if the frame has every body bone of the previous one, or if
//!   the previous one came complete in a single bundle.
//! * A `T` before the bones of its bundle begins a frame; without any `T`, so do hips that come first in a bundle.
//!
//! So a frame may span bundles, and a bundle may hold several. Bones that a frame lacks repeat their last transform
//! with `fresh` false; bones never seen are not listed.

mod bones;
mod encode;

pub use bones::{BONE_NAMES, BONE_PARENTS, BONES};
pub use encode::encode_frame;

use crate::WireError;
use crate::osc;
use crate::pose::{Joint, PoseUpdate, is_position, is_rotation};
use crate::source::{Source, Update};
use crate::world::{Transform, product};

const BONE_ADDRESS: &[u8] = b"/VMC/Ext/Bone/Pos";
const ROOT_ADDRESS: &[u8] = b"/VMC/Ext/Root/Pos";
const TIME_ADDRESS: &[u8] = b"/VMC/Ext/T";
/// Bit mask of the bones that delimit frames: all except eyes, jaw and fingers, which some senders send at another
/// rate.
const BODY_BONES: u64 = ((1 << 21) - 1) | (1 << 54);

impl Transform {
    /// Whether there is a rotation; composing the identity would only lose precision.
    fn has_rotation(&self) -> bool {
        self.rotation[1..] != [0.0; 3]
    }

    /// Composes the transforms: maps `inner`, a child's, to the parent space of `self`.
    fn compose(&self, inner: &Self) -> Self {
        let [x, y, z] = inner.position;
        if !self.has_rotation() {
            let [rx, ry, rz] = self.position;
            return Self {
                rotation: inner.rotation,
                position: [rx + x, ry + y, rz + z],
            };
        }
        let q = self.rotation.map(f64::from);
        let scale = 1.0 / q.iter().map(|v| v * v).sum::<f64>();
        let rotated = product(
            product(q, [0.0, x.into(), y.into(), z.into()]),
            [q[0], -q[1], -q[2], -q[3]],
        );
        let rotation = product(q, inner.rotation.map(f64::from)).map(|v| (v * scale.sqrt()) as f32);
        let mut position = self.position;
        for (out, v) in position.iter_mut().zip(&rotated[1..]) {
            *out = (f64::from(*out) + v * scale) as f32;
        }
        Self { rotation, position }
    }
}

/// Whether the first message is VMC's.
pub fn recognises(datagram: &[u8]) -> bool {
    osc::first_address(datagram).is_some_and(|address| address.starts_with(b"/VMC/"))
}

impl Source for VmcAssembler {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let is_bundled = osc::is_bundle(datagram);
        if !is_bundled && osc::message(datagram).is_none() {
            return Err(match datagram.first() {
                Some(b'/') => WireError::Truncated {
                    what: "an OSC message",
                    at: 0,
                    needed: datagram.len() + 1,
                    left: datagram.len(),
                },
                _ => WireError::alien("VMC datagram"),
            });
        }
        osc::check(datagram)?;
        (self.has_bone, self.has_closing_time, self.leading_time) = (false, false, None);
        let (mut bones_read, mut dropped) = (0, None);
        osc::walk(datagram, &mut |message| match message {
            Some(message) if message.address == BONE_ADDRESS => {
                match self.read_bone(&message, is_bundled, on_update) {
                    Ok(()) => bones_read += 1,
                    Err(reason) => {
                        self.unplayed_reason.get_or_insert(reason);
                        dropped = Some(reason);
                    }
                }
            }
            Some(message) => self.read_other(&message, is_bundled, on_update),
            None => {}
        });
        if is_bundled {
            self.end_bundle(on_update);
        }
        match dropped {
            Some(reason) if bones_read == 0 => Err(WireError::malformed(0, reason)),
            _ => Ok(()),
        }
    }

    fn unplayed_reason(&self) -> Option<&'static str> {
        self.unplayed_reason
    }
}

#[derive(Clone, Debug)]
struct Bones([Transform; BONES]);

impl Default for Bones {
    fn default() -> Self {
        Self([Transform::default(); BONES])
    }
}

/// Assembles frames from datagrams; see the module documentation.
///
/// A datagram whose sizes are inconsistent is an error, and nothing of it is used. One that has bones, none of which
/// can be read, is an error too, but its other messages count.
#[derive(Clone, Debug, Default)]
pub struct VmcAssembler {
    /// Last known transform of each bone.
    bones: Bones,
    root: Transform,
    /// The hips' bit (1) if the root ever left the origin, else 0.
    root_moved: u64,
    /// The hips' bit (1) if this frame has a root, else 0.
    root_received: u64,
    /// Bit per bone: ever received with a valid transform.
    seen: u64,
    /// Bit per bone: received with a valid transform in this frame.
    fresh: u64,
    /// Bit per body bone: received in this frame, valid or not.
    received: u64,
    /// Bit per body bone: received in the previous frame.
    previous: u64,
    /// Number of bundles with body bones of this frame.
    bundles: u32,
    /// Whether the previous frame came complete in a single bundle.
    was_single_bundle: bool,
    /// The sender's clock of this frame.
    time: Option<f64>,
    /// A `T` before any bone of its bundle, within a frame: a bone after it makes it the next frame's.
    leading_time: Option<f64>,
    /// Whether this bundle has a body bone.
    has_bone: bool,
    /// Whether this bundle has a `T` after a body bone.
    has_closing_time: bool,
    /// Whether the sender ever sent a usable `T`.
    sends_time: bool,
    /// Whether the sender ever sent a `T` after the bones of a bundle.
    sends_closing_time: bool,
    /// The id expected next, as senders keep their order.
    next_id: usize,
    unusable: u32,
    /// Why the first unplayable bone was dropped.
    unplayed_reason: Option<&'static str>,
    /// The frame that was delivered last.
    pose: PoseUpdate,
}

impl VmcAssembler {
    /// Reads a bone message; the error is the reason for which it is dropped.
    fn read_bone(
        &mut self,
        message: &osc::Message<'_>,
        is_bundled: bool,
        on_update: &mut dyn FnMut(Update<'_>),
    ) -> Result<(), &'static str> {
        let (name, numbers) = split_name(message)?;
        let Some(id) = bones::find(name, self.next_id) else {
            let is_known = bones::UNPLAYED.iter().any(|bone| bone.eq_ignore_ascii_case(name));
            return is_known
                .then_some(())
                .ok_or("a bone by a name that Unity's humanoid does not have");
        };
        self.on_bone(id, is_bundled, on_update);
        if let Some(transform) = read_transform(message.tags, numbers)? {
            self.bones.0[id] = transform;
            self.seen |= 1 << id;
            self.fresh |= 1 << id;
        } else {
            self.unusable += 1;
            self.unplayed_reason
                .get_or_insert("a bone's numbers are no place and rotation");
        }
        Ok(())
    }

    /// Reads a message of the root or of the clock.
    fn read_other(
        &mut self,
        message: &osc::Message<'_>,
        is_bundled: bool,
        on_update: &mut dyn FnMut(Update<'_>),
    ) {
        match message.address {
            ROOT_ADDRESS => {
                let root = split_name(message).and_then(|(_, numbers)| read_transform(message.tags, numbers));
                if let Ok(Some(transform)) = root {
                    self.root_moved |= u64::from(transform.has_rotation() || transform.position != [0.0; 3]);
                    (self.root, self.root_received) = (transform, 1);
                }
            }
            TIME_ADDRESS => {
                // A clock that sends only integers has milliseconds or a counter; among floats integers are whole
                // seconds.
                let is_integer_clock = !self.sends_time && matches!(message.tags.first(), Some(b'i' | b'h'));
                if let Some([seconds]) = osc::numbers(message.tags, message.arguments)
                    && seconds.is_finite()
                    && !is_integer_clock
                {
                    self.on_time(seconds, is_bundled, on_update);
                }
            }
            _ => {}
        }
    }

    /// Whether the current frame has a valid body bone.
    fn has_body_bone(&self) -> bool {
        self.fresh & BODY_BONES != 0
    }

    /// Ends the current frame if a bone begins the next one, and registers the bone, valid or not.
    fn on_bone(&mut self, id: usize, is_bundled: bool, on_update: &mut dyn FnMut(Update<'_>)) {
        let bit = 1 << id;
        self.next_id = id + 1;
        let is_first_hips = is_bundled && id == 0 && !self.has_bone && !self.sends_time;
        if let Some(seconds) = self.leading_time.take() {
            self.flush(on_update);
            self.time = Some(seconds);
        } else if self.has_body_bone() && (is_first_hips || self.fresh & bit != 0) {
            self.flush(on_update);
        }
        if bit & BODY_BONES != 0 {
            self.received |= bit;
            self.bundles += u32::from(is_bundled && !self.has_bone);
            self.has_bone = true;
        }
    }

    /// Registers the sender's clock, which comes before or after a frame's bones; a frame takes its first one.
    fn on_time(&mut self, seconds: f64, is_bundled: bool, on_update: &mut dyn FnMut(Update<'_>)) {
        self.sends_time = true;
        if !self.has_body_bone() {
            self.time = Some(seconds);
        } else if self.time.is_some() {
            if self.time != Some(seconds) {
                self.flush(on_update);
            }
            self.time = Some(seconds);
        } else if !is_bundled {
            self.time = Some(seconds);
            self.flush(on_update);
        } else if self.has_bone {
            self.time = Some(seconds);
            (self.has_closing_time, self.sends_closing_time) = (true, true);
        } else {
            self.leading_time = Some(seconds);
        }
    }

    /// Completes the current frame if this bundle was its last one.
    fn end_bundle(&mut self, on_update: &mut dyn FnMut(Update<'_>)) {
        if let Some(seconds) = self.leading_time.take() {
            // No bone followed, so it is this frame's.
            self.time = Some(seconds);
            self.has_closing_time = true;
        }
        let is_last = !self.sends_closing_time && (self.was_single_bundle || self.is_complete());
        if self.has_body_bone() && (self.has_closing_time || is_last) {
            self.flush(on_update);
        }
    }

    /// Whether the current frame has every body bone of the previous one.
    fn is_complete(&self) -> bool {
        self.received & self.previous == self.previous
    }

    /// Completes the current frame.
    fn flush(&mut self, on_update: &mut dyn FnMut(Update<'_>)) {
        let out = &mut self.pose;
        out.clear();
        out.time = self.time.take();
        out.unusable = std::mem::take(&mut self.unusable);
        // A root that moves makes the hips known and fresh even without a message of their own.
        let seen = self.seen | self.root_moved;
        let fresh = self.fresh | (self.root_moved & std::mem::take(&mut self.root_received));
        for (id, bone) in self.bones.0.iter().enumerate() {
            let bit = 1 << id;
            if seen & bit == 0 {
                continue;
            }
            let Transform { rotation, position } = if id == 0 { self.root.compose(bone) } else { *bone };
            if id == 0 {
                out.root = Some(position);
            }
            out.joints.push(Joint {
                fresh: fresh & bit != 0,
                ..Joint::new(id as u16, rotation, position)
            });
        }
        self.was_single_bundle = self.bundles == 1 && self.previous != 0 && self.is_complete();
        self.previous = std::mem::take(&mut self.received);
        (self.fresh, self.bundles) = (0, 0);
        // The rest of the bundle belongs to the next frame.
        (self.has_bone, self.has_closing_time) = (false, false);
        on_update(Update::Frame(&self.pose));
    }
}

const EXPECTED: &str = "a transform without a name and seven numbers";

/// Splits a message's arguments into the leading name and the rest.
#[inline]
fn split_name<'a>(message: &osc::Message<'a>) -> Result<(&'a [u8], &'a [u8]), &'static str> {
    let name = osc::string(message.arguments).filter(|_| message.tags.starts_with(b"s"));
    name.ok_or(EXPECTED)
}

/// The right-handed transform of the seven numbers after a name; `None` if it is invalid.
#[inline]
fn read_transform(tags: &[u8], numbers: &[u8]) -> Result<Option<Transform>, &'static str> {
    let tags = tags.strip_prefix(b"s").unwrap_or_default();
    let [px, py, pz, qx, qy, qz, qw] = osc::numbers(tags, numbers).ok_or(EXPECTED)?.map(|v| v as f32);
    let transform = Transform {
        rotation: [-qw, qx, qy, -qz],
        position: [px, py, -pz],
    };
    let is_valid = is_rotation(&transform.rotation) && is_position(&transform.position);
    Ok(is_valid.then_some(transform))
}
