//! The VMC protocol: humanoid bones over OSC, UDP port 39539.
//!
//! Read are `/VMC/Ext/Bone/Pos ,sfffffff` and `/VMC/Ext/Root/Pos ,sfffffff` (name, position, quaternion
//! `x, y, z, w`, local to the parent) and `/VMC/Ext/T ,f` (the sender's seconds); any number may be `f`, `d`, `i` or
//! `h`, but for a clock of whole numbers alone, which is ignored. Other addresses and further arguments are ignored;
//! a message of these with too few or wrongly typed arguments is dropped.
//!
//! Unity is left-handed: positions become `(x, y, -z)`, quaternions `w, x, y, z = (-qw, qx, qy, -qz)`. The
//! root's transform is composed into the hips; of who sends no hips, a root that is not at the origin is the hips.
//!
//! VMC marks no frames. [`VmcAssembler`] makes them. A frame ends at a bone that it already has and at a second `T`;
//! message by message, at `T` as well. A bundle ends one where it has `T` after bones, as VirtualMotionCapture's
//! last bundle of a frame has; of who sends no `T` so, where the frame has every bone of the body that the one before
//! had, or where that had come in one bundle. A `T` that begins a bundle, and without any `T` hips that do, begin a frame. So a frame may come in several
//! bundles, and several in one. Bones that a frame lacks keep their last pose and are listed with `fresh` false;
//! bones never seen are not listed.

mod bones;
mod encode;

pub use bones::{BONE_NAMES, BONE_PARENTS, BONES};
pub use encode::encode_frame;

use crate::WireError;
use crate::figure::product;
use crate::osc;
use crate::pose::{Joint, PoseUpdate, is_position, is_rotation};
use crate::source::{Source, Update};

const BONE: &[u8] = b"/VMC/Ext/Bone/Pos";
const ROOT: &[u8] = b"/VMC/Ext/Root/Pos";
const TIME: &[u8] = b"/VMC/Ext/T";
/// Bits of the bones that frames are told by: all but eyes, jaw and fingers, which some send at a rate of their own.
const BODY: u64 = ((1 << 21) - 1) | (1 << 54);

#[derive(Clone, Copy, Debug)]
struct Transform {
    rotation: [f32; 4],
    position: [f32; 3],
}

const IDENTITY: Transform = Transform {
    rotation: [1.0, 0.0, 0.0, 0.0],
    position: [0.0; 3],
};

impl Transform {
    /// Whether this is a rotation; composing none would only cost bits.
    fn turns(&self) -> bool {
        self.rotation[1..] != [0.0; 3]
    }

    /// `self` after `inner`: where the child is in the space that `self` is in.
    fn then(&self, inner: &Self) -> Self {
        let [x, y, z] = inner.position;
        if !self.turns() {
            let [rx, ry, rz] = self.position;
            return Self {
                rotation: inner.rotation,
                position: [rx + x, ry + y, rz + z],
            };
        }
        let q = self.rotation.map(f64::from);
        let scale = 1.0 / q.iter().map(|v| v * v).sum::<f64>();
        let moved = product(
            product(q, [0.0, x.into(), y.into(), z.into()]),
            [q[0], -q[1], -q[2], -q[3]],
        );
        let turned = product(q, inner.rotation.map(f64::from)).map(|v| (v * scale.sqrt()) as f32);
        let mut position = self.position;
        for (out, v) in position.iter_mut().zip(&moved[1..]) {
            *out = (f64::from(*out) + v * scale) as f32;
        }
        Self {
            rotation: turned,
            position,
        }
    }
}

/// Whether the first message is one of VMC.
pub fn recognises(datagram: &[u8]) -> bool {
    osc::first_address(datagram).is_some_and(|address| address.starts_with(b"/VMC/"))
}

impl Source for VmcAssembler {
    fn decode(&mut self, datagram: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let poses = self.feed(datagram)?;
        poses.iter().for_each(|pose| take(Update::Frame(pose)));
        Ok(())
    }

    fn left_out(&self) -> Option<&'static str> {
        self.left_out
    }
}

/// Makes frames of datagrams; see the module's documentation. Allocates only until it has seen its busiest
/// datagram.
#[derive(Clone, Debug)]
pub struct VmcAssembler {
    pose: [Transform; BONES],
    root: Transform,
    /// The hips' bit: whether the root ever was not at the origin; whether it is told in this frame.
    carries: u64,
    rooted: u64,
    /// Bit per bone: ever received.
    seen: u64,
    /// Bit per bone: received in the frame being assembled.
    fresh: u64,
    /// Bit per bone of the body: told in this frame, usable or not, and in the one before.
    received: u64,
    usual: u64,
    /// Bundles with bones of this frame; whether the one before was whole in one.
    bundles: u32,
    single: bool,
    /// The sender's clock for the frame being assembled.
    time: Option<f64>,
    /// What a bundle that has had no bone yet says of the clock, while a frame is begun: whose it is the next bone tells.
    opening: Option<f64>,
    /// Whether this bundle has had a bone of the body, and `T` after one.
    has_bone: bool,
    closes: bool,
    /// Whether there was ever a `T`, and one that closed a bundle with bones.
    timed: bool,
    time_closes: bool,
    /// The bone expected next: senders keep their order.
    guess: usize,
    unusable: u32,
    /// Why the first bone was that could not be used.
    left_out: Option<&'static str>,
    poses: Vec<PoseUpdate>,
    ready: usize,
}

impl Default for VmcAssembler {
    fn default() -> Self {
        Self::new()
    }
}

impl VmcAssembler {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self {
            pose: [IDENTITY; BONES],
            root: IDENTITY,
            carries: 0,
            rooted: 0,
            seen: 0,
            fresh: 0,
            received: 0,
            usual: 0,
            bundles: 0,
            single: false,
            time: None,
            opening: None,
            has_bone: false,
            closes: false,
            timed: false,
            time_closes: false,
            guess: 0,
            unusable: 0,
            left_out: None,
            poses: Vec::new(),
            ready: 0,
        }
    }

    /// The frames completed by the last [`feed`](Self::feed), oldest first.
    pub fn poses(&self) -> &[PoseUpdate] {
        &self.poses[..self.ready]
    }

    /// Takes one datagram in and returns the frames it completes, oldest first: usually one for a bundle with a body,
    /// none or one for a part of it.
    ///
    /// # Errors
    /// [`WireError::Alien`] if it is no OSC, [`WireError::Truncated`] or [`WireError::Malformed`] if a
    /// bundle's sizes do not fit; then nothing of the datagram was used. [`WireError::Malformed`] as well if it
    /// speaks of bones and none of them could be read.
    pub fn feed(&mut self, datagram: &[u8]) -> Result<&[PoseUpdate], WireError> {
        self.ready = 0;
        let bundled = osc::is_bundle(datagram);
        if !bundled && osc::message(datagram).is_none() {
            return Err(match datagram.first() {
                Some(b'/') => WireError::Truncated {
                    what: "an OSC message",
                    at: 0,
                    needed: datagram.len() + 1,
                    left: datagram.len(),
                },
                _ => WireError::Alien {
                    expected: "VMC datagram",
                },
            });
        }
        osc::check(datagram)?;
        (self.has_bone, self.closes, self.opening) = (false, false, None);
        let (mut read, mut lost) = (0, None);
        osc::walk(datagram, &mut |message| match message {
            Some(message) if message.address == BONE => match self.read(&message, bundled) {
                Ok(()) => read += 1,
                Err(reason) => {
                    self.left_out.get_or_insert(reason);
                    lost = Some(reason);
                }
            },
            Some(message) => self.apply(&message, bundled),
            None => {}
        });
        if bundled {
            self.end_bundle();
        }
        match lost {
            Some(reason) if read == 0 => Err(WireError::Malformed { reason, at: 0 }),
            _ => Ok(self.poses()),
        }
    }

    /// Takes a bone, or says what is wrong with it.
    fn read(&mut self, message: &osc::Message<'_>, bundled: bool) -> Result<(), &'static str> {
        let (name, numbers) = named(message)?;
        let Some(id) = bones::find(name, self.guess) else {
            let is_last = name == b"LastBone";
            return is_last
                .then_some(())
                .ok_or("a bone by a name that Unity's humanoid does not have");
        };
        self.tell(id, bundled);
        if let Some(transform) = transform(message.tags, numbers)? {
            self.pose[id] = transform;
            self.seen |= 1 << id;
            self.fresh |= 1 << id;
        } else {
            self.unusable += 1;
            self.left_out
                .get_or_insert("a bone's numbers are no place and rotation");
        }
        Ok(())
    }

    fn apply(&mut self, message: &osc::Message<'_>, bundled: bool) {
        match message.address {
            ROOT => {
                let told = named(message).and_then(|(_, numbers)| transform(message.tags, numbers));
                if let Ok(Some(transform)) = told {
                    self.carries |= u64::from(transform.turns() || transform.position != [0.0; 3]);
                    (self.root, self.rooted) = (transform, 1);
                }
            }
            TIME => {
                // Whole numbers alone are milliseconds or count something; among others they are seconds.
                let counts = !self.timed && matches!(message.tags.first(), Some(b'i' | b'h'));
                if let Some([seconds]) = osc::numbers(message.tags, message.arguments)
                    && seconds.is_finite()
                    && !counts
                {
                    self.tick(seconds, bundled);
                }
            }
            _ => {}
        }
    }

    /// Whether the frame being assembled has a bone of the body.
    fn is_begun(&self) -> bool {
        self.fresh & BODY != 0
    }

    /// A bone is told, whether or not its numbers can be used.
    fn tell(&mut self, id: usize, bundled: bool) {
        let bit = 1 << id;
        self.guess = id + 1;
        let begins = bundled && id == 0 && !self.has_bone && !self.timed;
        if let Some(seconds) = self.opening.take() {
            self.flush();
            self.time = Some(seconds);
        } else if self.is_begun() && (begins || self.fresh & bit != 0) {
            self.flush();
        }
        if bit & BODY != 0 {
            self.received |= bit;
            self.bundles += u32::from(bundled && !self.has_bone);
            self.has_bone = true;
        }
    }

    /// The sender's clock. Some send it before the bones, some after them: a frame takes the first it gets.
    fn tick(&mut self, seconds: f64, bundled: bool) {
        self.timed = true;
        if !self.is_begun() {
            self.time = Some(seconds);
        } else if self.time.is_some() {
            if self.time != Some(seconds) {
                self.flush();
            }
            self.time = Some(seconds);
        } else if !bundled {
            self.time = Some(seconds);
            self.flush();
        } else if self.has_bone {
            self.time = Some(seconds);
            (self.closes, self.time_closes) = (true, true);
        } else {
            self.opening = Some(seconds);
        }
    }

    /// Completes the frame being assembled, if this bundle was its last one.
    fn end_bundle(&mut self) {
        if let Some(seconds) = self.opening.take() {
            // No bone came after it.
            self.time = Some(seconds);
            self.closes = true;
        }
        let is_last = !self.time_closes && (self.single || self.is_whole());
        if self.is_begun() && (self.closes || is_last) {
            self.flush();
        }
    }

    /// Whether the frame being assembled has every bone of the body that the one before had.
    fn is_whole(&self) -> bool {
        self.received & self.usual == self.usual
    }

    /// Completes the frame being assembled.
    fn flush(&mut self) {
        if self.poses.len() == self.ready {
            self.poses.push(PoseUpdate::default());
        }
        let out = &mut self.poses[self.ready];
        self.ready += 1;
        out.clear();
        out.time = self.time.take();
        out.unusable = std::mem::take(&mut self.unusable);
        // The hips move with the root, whether or not they are told themselves.
        let seen = self.seen | self.carries;
        let fresh = self.fresh | (self.carries & std::mem::take(&mut self.rooted));
        for (id, bone) in self.pose.iter().enumerate() {
            let bit = 1 << id;
            if seen & bit == 0 {
                continue;
            }
            let Transform { rotation, position } = if id == 0 { self.root.then(bone) } else { *bone };
            if id == 0 {
                out.root = Some(position);
            }
            out.joints.push(Joint {
                id: id as u16,
                rotation,
                position,
                fresh: fresh & bit != 0,
            });
        }
        self.single = self.bundles == 1 && self.usual != 0 && self.is_whole();
        self.usual = std::mem::take(&mut self.received);
        (self.fresh, self.bundles) = (0, 0);
        // What follows in the same bundle is another frame's.
        (self.has_bone, self.closes) = (false, false);
    }
}

const EXPECTED: &str = "a transform without a name and seven numbers";

/// The name that a message begins with, and what follows it.
#[inline]
fn named<'a>(message: &osc::Message<'a>) -> Result<(&'a [u8], &'a [u8]), &'static str> {
    let name = osc::string(message.arguments).filter(|_| message.tags.starts_with(b"s"));
    name.ok_or(EXPECTED)
}

/// What the seven numbers behind a name say, right-handed; nothing where they are no transform.
#[inline]
fn transform(tags: &[u8], numbers: &[u8]) -> Result<Option<Transform>, &'static str> {
    let tags = tags.strip_prefix(b"s").unwrap_or_default();
    let [px, py, pz, qx, qy, qz, qw] = osc::numbers(tags, numbers).ok_or(EXPECTED)?.map(|v| v as f32);
    let transform = Transform {
        rotation: [-qw, qx, qy, -qz],
        position: [px, py, -pz],
    };
    let usable = is_rotation(&transform.rotation) && is_position(&transform.position);
    Ok(usable.then_some(transform))
}
