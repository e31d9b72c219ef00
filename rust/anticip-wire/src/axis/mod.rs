//! Perception Neuron: the BVH broadcast of Axis Studio (and Axis Neuron), binary or text, UDP port 7012.
//!
//! Binary, little-endian: a header of 64 bytes (u16 `0xddff`, u32 version, u16 count of numbers, u8 with displacement, u8
//! with reference, u32 avatar, 32 bytes name, u32 frame, three reserved u32, u16 `0xeeff`), then so many f32; in
//! one datagram or two. Text: the avatar, its name (of any number of words), the same numbers and `||`, blanks between.
//!
//! The numbers are a line of BVH's motion for 59 bones: six of the reference where there is one; of each bone the
//! displacement (cm; without displacement of the hips alone) and degrees about y, x and z, turned in that order. Axes are
//! right-handed, y up, z forward, and in T-pose every rotation is zero. Of several avatars the first is heard, another
//! one when that has been away for 200 datagrams of others.

use crate::WireError;
use crate::bytes::array;
use crate::figure::{degrees, turned};
use crate::pose::{Joint, PoseUpdate, SkeletonUpdate, is_position, is_rotation};
use crate::source::{Active, OVERTAKEN, Source, Stride, Update};

/// Bones of the body, fingers and all.
pub const BONES: usize = 59;
/// Those before the arms; then an arm each.
const TRUNK: usize = 13;
const ARM: usize = 23;

/// Names, parents (places) and offsets (metres, of a left arm or leg) of the bones before the arms.
const BODY: [(&str, i32, [f32; 3]); TRUNK] = [
    ("Hips", -1, [0.0, 0.0, 0.0]),
    ("RightUpLeg", 0, [-0.1, 0.0, 0.0]),
    ("RightLeg", 1, [0.0, -0.42, 0.0]),
    ("RightFoot", 2, [0.0, -0.42, 0.0]),
    ("LeftUpLeg", 0, [0.1, 0.0, 0.0]),
    ("LeftLeg", 4, [0.0, -0.42, 0.0]),
    ("LeftFoot", 5, [0.0, -0.42, 0.0]),
    ("Spine", 0, [0.0, 0.1, 0.0]),
    ("Spine1", 7, [0.0, 0.13, 0.0]),
    ("Spine2", 8, [0.0, 0.14, 0.0]),
    ("Neck", 9, [0.0, 0.15, 0.0]),
    ("Neck1", 10, [0.0, 0.05, 0.0]),
    ("Head", 11, [0.0, 0.05, 0.01]),
];
/// Of an arm: parents by place in the arm, -1 the topmost bone of the spine; offsets along the arm and forward.
const LIMB: [(&str, i32, f32, f32); ARM] = [
    ("Shoulder", -1, 0.03, 0.0),
    ("Arm", 0, 0.13, 0.0),
    ("ForeArm", 1, 0.28, 0.0),
    ("Hand", 2, 0.25, 0.0),
    ("HandThumb1", 3, 0.03, 0.03),
    ("HandThumb2", 4, 0.04, 0.0),
    ("HandThumb3", 5, 0.03, 0.0),
    ("InHandIndex", 3, 0.03, 0.02),
    ("HandIndex1", 7, 0.06, 0.0),
    ("HandIndex2", 8, 0.04, 0.0),
    ("HandIndex3", 9, 0.02, 0.0),
    ("InHandMiddle", 3, 0.03, 0.01),
    ("HandMiddle1", 11, 0.06, 0.0),
    ("HandMiddle2", 12, 0.04, 0.0),
    ("HandMiddle3", 13, 0.02, 0.0),
    ("InHandRing", 3, 0.03, -0.01),
    ("HandRing1", 15, 0.06, 0.0),
    ("HandRing2", 16, 0.04, 0.0),
    ("HandRing3", 17, 0.02, 0.0),
    ("InHandPinky", 3, 0.03, -0.02),
    ("HandPinky1", 19, 0.06, 0.0),
    ("HandPinky2", 20, 0.03, 0.0),
    ("HandPinky3", 21, 0.02, 0.0),
];
/// The bone that the shoulders hang from, and how high above it.
const TOP: (i32, f32) = (9, 0.1);

const HEADER: usize = 64;
const BEGINS: [u8; 2] = [0xff, 0xdd];
const ENDS: [u8; 2] = [0xff, 0xee];
/// Numbers of a reference; with the displacement of every bone; with that of the hips alone.
const REFERENCE: usize = 6;
const FULL: usize = 6 * BONES;
const SHORT: usize = 3 + 3 * BONES;
const COUNTS: [usize; 4] = [FULL, FULL + REFERENCE, SHORT, SHORT + REFERENCE];
/// So many words at the end of a name may be numbers; as many as a bone's are one bone more.
const NAMED: usize = 2;
/// A bone whose length changes by more than this (metres) is another body's.
const SAME: f32 = 1e-3;
const EXPECTED: &str = "BVH broadcast of Axis Studio";

/// The body as it is taken to be where no displacement tells it: names, parents, offsets; rest is zero.
#[must_use]
pub fn standard() -> SkeletonUpdate {
    let mut found = SkeletonUpdate::default();
    let mut put = |name: String, parent, offset| {
        found.names.push(name);
        found.parents.push(parent);
        found.offsets.push(offset);
        found.rest.push([1.0, 0.0, 0.0, 0.0]);
    };
    for (name, parent, offset) in BODY {
        put(name.to_owned(), parent, offset);
    }
    for (side, sign, first) in [("Right", -1.0, TRUNK), ("Left", 1.0, TRUNK + ARM)] {
        for (name, parent, along, ahead) in LIMB {
            let above = if parent < 0 { TOP.0 } else { first as i32 + parent };
            let up = if parent < 0 { TOP.1 } else { 0.0 };
            put(format!("{side}{name}"), above, [sign * along, up, ahead]);
        }
    }
    found
}

/// Whether this looks like a broadcast of Axis: its two tokens, or text that begins with a number and ends with `||`.
pub fn recognises(datagram: &[u8]) -> bool {
    if datagram.starts_with(&BEGINS) {
        return datagram.len() < HEADER || datagram[HEADER - 2..HEADER] == ENDS;
    }
    let text = datagram.trim_ascii_end();
    text.first().is_some_and(u8::is_ascii_digit) && text.ends_with(b"||")
}

/// Makes frames of datagrams; see the module's documentation.
#[derive(Clone, Debug)]
pub struct AxisDecoder {
    skeleton: SkeletonUpdate,
    skeleton_sent: bool,
    avatar: Active<u32>,
    /// A frame whose rest has not come.
    begun: Vec<u8>,
    /// Frame and number of the newest.
    newest: Option<(u32, u32)>,
    stride: Stride,
    numbers: Vec<f32>,
    pose: PoseUpdate,
}

impl Default for AxisDecoder {
    fn default() -> Self {
        Self {
            skeleton: standard(),
            skeleton_sent: false,
            avatar: Active::default(),
            begun: Vec::with_capacity(HEADER + 4 * (REFERENCE + FULL)),
            newest: None,
            stride: Stride::NEW,
            numbers: Vec::with_capacity(REFERENCE + FULL),
            pose: PoseUpdate::default(),
        }
    }
}

impl AxisDecoder {
    /// Reads the numbers of a datagram; whose they are and of which frame.
    fn read(&mut self, datagram: &[u8]) -> Result<(u32, Option<u32>), WireError> {
        self.numbers.clear();
        if !datagram.starts_with(&BEGINS) {
            let bad = WireError::Malformed {
                reason: "not the text of a BVH broadcast",
                at: 0,
            };
            // By bytes: the name is in whatever encoding.
            let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'|';
            let mut words = datagram
                .split(blank)
                .filter(|word| !word.is_empty())
                .map(|word| std::str::from_utf8(word).unwrap_or_default());
            let avatar = words.next().and_then(|word| word.parse().ok()).ok_or(bad)?;
            // Its name stands between: of any words or none, the last few perhaps numbers.
            let numbers = words.rev().map_while(|word| word.parse::<f32>().ok());
            self.numbers.extend(numbers);
            self.numbers.reverse();
            let more = |whole| {
                self.numbers
                    .len()
                    .checked_sub(whole)
                    .filter(|more| *more <= NAMED)
            };
            let more = COUNTS.into_iter().find_map(more).unwrap_or(0);
            self.numbers.drain(..more);
            return Ok((avatar, None));
        }
        let (Some(count), Some(avatar), Some(frame), true) = (
            array::<2>(datagram, 6),
            array::<4>(datagram, 10),
            array::<4>(datagram, 46),
            datagram.len() >= HEADER,
        ) else {
            return Err(WireError::Truncated {
                what: "the header",
                at: 0,
                needed: HEADER,
                left: datagram.len(),
            });
        };
        let needed = 4 * usize::from(u16::from_le_bytes(count));
        let body = &datagram[HEADER..];
        let Some(body) = body.get(..needed) else {
            return Err(WireError::Truncated {
                what: "the numbers",
                at: HEADER,
                needed,
                left: body.len(),
            });
        };
        self.numbers
            .extend(body.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
        Ok((u32::from_le_bytes(avatar), Some(u32::from_le_bytes(frame))))
    }

    /// The number of a frame: one by one, where frames skip.
    fn number(&mut self, frame: u32) -> u32 {
        let (newest, number) = self.newest.unwrap_or((frame, frame));
        let step = frame.wrapping_sub(newest);
        let number = match newest.wrapping_sub(frame) {
            0 => number,
            back @ 1..=OVERTAKEN => return number.wrapping_sub(self.stride.back(back)),
            _ if step < u32::MAX / 2 => number.wrapping_add(self.stride.frames(step)),
            _ => frame,
        };
        self.newest = Some((frame, number));
        number
    }
}

impl Source for AxisDecoder {
    fn decode(&mut self, datagram: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let begins = recognises(datagram);
        let waited = !self.begun.is_empty();
        if !begins && !waited {
            return Err(WireError::Alien { expected: EXPECTED });
        }
        let mut whole = std::mem::take(&mut self.begun);
        if begins {
            whole.clear();
        }
        whole.extend_from_slice(datagram);
        let result = self.frame(&whole, take);
        // On a Mac Axis Neuron sends a frame as two datagrams.
        let waits = begins && datagram.len() >= HEADER && matches!(result, Err(WireError::Truncated { .. }));
        if !waits {
            whole.clear();
        }
        self.begun = whole;
        if waits && !waited { Ok(()) } else { result }
    }
}

impl AxisDecoder {
    fn frame(&mut self, datagram: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let (avatar, frame) = self.read(datagram)?;
        let count = self.numbers.len();
        let (first, full) = match count {
            FULL => (0, true),
            SHORT => (0, false),
            _ if count == FULL + REFERENCE => (REFERENCE, true),
            _ if count == SHORT + REFERENCE => (REFERENCE, false),
            _ => {
                return Err(WireError::Malformed {
                    reason: "expected 59 bones: 354 numbers with displacement, 180 without, 6 more with reference",
                    at: 0,
                });
            }
        };
        let Some(is_new) = self.avatar.accept(avatar) else {
            return Ok(());
        };
        self.skeleton_sent &= !is_new;
        self.pose.clear();
        self.pose.seq = frame.map(|frame| self.number(frame));
        let numbers = &self.numbers[first..];
        for id in 0..BONES {
            let at = if full { 6 * id } else { 3 * id + 3 };
            let place = if full || id == 0 {
                let at = if full { at } else { 0 };
                [0, 1, 2].map(|i| numbers[at + i] / 100.0)
            } else {
                self.skeleton.offsets[id]
            };
            let angles = if full { at + 3 } else { at };
            let rotation = turned([0, 1, 2].map(|i| numbers[angles + i]));
            if !is_rotation(&rotation) || !is_position(&place) {
                self.pose.unusable += 1;
                continue;
            }
            if id == 0 {
                self.pose.root = Some(place);
            }
            self.pose.joints.push(Joint {
                id: id as u16,
                rotation,
                position: place,
                fresh: true,
            });
        }
        if self.pose.joints.is_empty() {
            return Ok(());
        }
        // Lengths are those of the first whole frame, and of any that has other ones.
        if full && self.pose.joints.len() == BONES {
            for (offset, joint) in self.skeleton.offsets.iter_mut().zip(&self.pose.joints).skip(1) {
                if (0..3).any(|i| (offset[i] - joint.position[i]).abs() > SAME) {
                    *offset = joint.position;
                    self.skeleton_sent = false;
                }
            }
        }
        if !self.skeleton_sent {
            self.skeleton_sent = true;
            take(Update::Skeleton(&self.skeleton));
        }
        take(Update::Frame(&self.pose));
        Ok(())
    }
}

/// Appends a frame of the whole body to `out`, binary with displacement and without reference, as avatar 0: the pose's
/// `seq` (0 where there is none). Rotations and positions are local, the hips' is the place.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has a joint beyond the 59.
pub fn encode_frame(pose: &PoseUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    if pose.joints.iter().any(|joint| usize::from(joint.id) >= BONES) {
        return Err(WireError::Unencodable {
            reason: "a bone of Axis is 0 to 58",
        });
    }
    out.extend_from_slice(&BEGINS);
    out.extend_from_slice(&0x0101_0000_u32.to_le_bytes());
    out.extend_from_slice(&(FULL as u16).to_le_bytes());
    out.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
    let mut name = [0; 32];
    name[..10].copy_from_slice(b"pyanticip\0");
    out.extend_from_slice(&name);
    out.extend_from_slice(&pose.seq.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(&ENDS);
    for id in 0..BONES {
        let (place, degrees) = pose.joint(id as u16).map_or(([0.0; 3], [0.0; 3]), |joint| {
            (joint.position.map(|v| v * 100.0), degrees(joint.rotation))
        });
        for value in place.iter().chain(&degrees) {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
    Ok(())
}
