//! Perception Neuron: the BVH broadcast of Axis Studio (and Axis Neuron), binary or text, UDP port 7012.
//!
//! Binary, little-endian: a 64-byte header (u16 `0xddff`, u32 version, u16 number count, u8 has-displacement, u8
//! has-reference, u32 avatar, 32-byte name, u32 frame, three reserved u32, u16 `0xeeff`), then the numbers as f32, in
//! one datagram or two. The old header format has u32 count, has-displacement, has-reference and avatar, the name, two
//! reserved u32 and no frame. Text: avatar index, name (any number of words), the same numbers, `||`, separated by blanks.
//!
//! The numbers are one BVH motion line for 59 bones: six for the reference, if there is one, then per bone the
//! displacement (cm; without has-displacement only the hips have one) and the intrinsic Euler angles in degrees about
//! y, x and z. Axes are right-handed, y up, z forward; all rotations are zero in T-pose. Only one avatar is decoded:
//! the first, until it has been absent for 200 datagrams from others.

use crate::WireError;
use crate::bytes::{array, put_f32s_le, slice};
use crate::frame_numbers::FrameNumbers;
use crate::pose::{PoseUpdate, SkeletonUpdate};
use crate::source::{Active, Source, Update};
use crate::world::{from_euler_yxz, to_euler_yxz};

/// Number of bones of the body, including fingers.
pub const BONES: usize = 59;
/// Number of bones that precede the arms.
const TRUNK_BONES: usize = 13;
/// Number of bones of one arm.
const ARM_BONES: usize = 23;

/// Name, parent index and default offset (metres) of the bones that precede the arms.
const TRUNK: [(&str, i32, [f32; 3]); TRUNK_BONES] = [
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
/// Name without side, parent index within the arm (-1: the top of the spine) and default offset (metres along the arm
/// and forward) of an arm's bones.
const ARM: [(&str, i32, f32, f32); ARM_BONES] = [
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
/// Index of the bone that the shoulders are attached to.
const CHEST: i32 = 9;
/// Height of the shoulders above that bone, in metres.
const SHOULDER_HEIGHT_M: f32 = 0.1;

const HEADER: usize = 64;
/// First two bytes of a binary header.
const START_TOKEN: [u8; 2] = [0xff, 0xdd];
/// Last two bytes of a binary header.
const END_TOKEN: [u8; 2] = [0xff, 0xee];
/// Count of numbers of a reference.
const REFERENCE: usize = 6;
/// Count of numbers of a frame with a displacement for every bone.
const FULL: usize = 6 * BONES;
/// Count of numbers of a frame with a displacement for the hips only.
const SHORT: usize = 3 + 3 * BONES;
const COUNTS: [usize; 4] = [FULL, FULL + REFERENCE, SHORT, SHORT + REFERENCE];
/// Numeric words that an avatar's name may end with; as many as a bone has would be taken for another bone.
const MAX_NUMERIC_NAME_WORDS: usize = 2;
/// Change of a bone's offset, in metres, from which the datagrams describe another body.
const OFFSET_TOLERANCE_M: f32 = 1e-3;
const EXPECTED: &str = "BVH broadcast of Axis Studio";
const BAD_COUNT: &str =
    "expected 59 bones: 354 numbers with displacement, 180 without, 6 more with reference";

/// The skeleton assumed until displacements give the real offsets; its rest rotations are the identity.
#[must_use]
pub fn default_skeleton() -> SkeletonUpdate {
    let mut skeleton = SkeletonUpdate::default();
    let mut put = |name: String, parent, offset| {
        skeleton.names.push(name);
        skeleton.parents.push(parent);
        skeleton.offsets.push(offset);
        skeleton.rest.push([1.0, 0.0, 0.0, 0.0]);
    };
    for (name, parent, offset) in TRUNK {
        put(name.to_owned(), parent, offset);
    }
    for (side, sign, first) in [
        ("Right", -1.0, TRUNK_BONES),
        ("Left", 1.0, TRUNK_BONES + ARM_BONES),
    ] {
        for (name, parent, along, forward) in ARM {
            let above = if parent < 0 { CHEST } else { first as i32 + parent };
            let up = if parent < 0 { SHOULDER_HEIGHT_M } else { 0.0 };
            put(format!("{side}{name}"), above, [sign * along, up, forward]);
        }
    }
    skeleton
}

/// Whether this looks like an Axis broadcast: its two tokens, or text that starts with a digit and ends with `||`.
pub fn recognises(datagram: &[u8]) -> bool {
    if datagram.starts_with(&START_TOKEN) {
        return datagram.len() < HEADER || datagram[HEADER - 2..HEADER] == END_TOKEN;
    }
    let text = datagram.trim_ascii_end();
    text.first().is_some_and(u8::is_ascii_digit) && text.ends_with(b"||")
}

/// Decoder of Axis broadcasts; see the module documentation.
#[derive(Clone, Debug)]
pub struct AxisDecoder {
    skeleton: SkeletonUpdate,
    skeleton_sent: bool,
    avatar: Active<u32>,
    /// The first part of a frame that comes in two datagrams.
    partial: Vec<u8>,
    frame_numbers: FrameNumbers,
    /// The numbers of the datagram.
    numbers: Vec<f32>,
    pose: PoseUpdate,
}

impl Default for AxisDecoder {
    fn default() -> Self {
        Self {
            skeleton: default_skeleton(),
            skeleton_sent: false,
            avatar: Active::default(),
            partial: Vec::with_capacity(HEADER + 4 * (REFERENCE + FULL)),
            frame_numbers: FrameNumbers::default(),
            numbers: Vec::with_capacity(REFERENCE + FULL),
            pose: PoseUpdate::default(),
        }
    }
}

impl AxisDecoder {
    /// Reads a datagram's numbers into `self.numbers`; returns the avatar and, if binary, the frame.
    fn read(&mut self, datagram: &[u8]) -> Result<(u32, Option<u32>), WireError> {
        self.numbers.clear();
        if !datagram.starts_with(&START_TOKEN) {
            let bad = WireError::malformed(0, "not the text of a BVH broadcast");
            // Split as bytes: the name may be in any encoding.
            let is_separator = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'|';
            let mut words = datagram
                .split(is_separator)
                .filter(|word| !word.is_empty())
                .map(|word| std::str::from_utf8(word).unwrap_or_default());
            let avatar = words.next().and_then(|word| word.parse().ok()).ok_or(bad)?;
            // Read from the end: before the numbers stands the name, any number of words, the last of them perhaps
            // numeric.
            let numbers = words.rev().map_while(|word| word.parse::<f32>().ok());
            self.numbers.extend(numbers);
            self.numbers.reverse();
            let name_words = |count| {
                self.numbers
                    .len()
                    .checked_sub(count)
                    .filter(|surplus| *surplus <= MAX_NUMERIC_NAME_WORDS)
            };
            let name_words = COUNTS.into_iter().find_map(name_words).unwrap_or(0);
            self.numbers.drain(..name_words);
            return Ok((avatar, None));
        }
        let header = slice(datagram, 0, HEADER, "the header")?;
        let word = |at| array(header, at).map_or(0, u32::from_le_bytes);
        let count = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let body = slice(datagram, HEADER, 4 * count, "the numbers")?;
        self.numbers
            .extend(body.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
        // In the old format the flags are where the name begins now.
        let is_old = header[8..10] == [0, 0] && word(14) <= 1 && header[22] != 0;
        Ok(if is_old {
            (word(18), None)
        } else {
            (word(10), Some(word(46)))
        })
    }
}

impl Source for AxisDecoder {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let is_start = recognises(datagram);
        let has_partial = !self.partial.is_empty();
        if !is_start && !has_partial {
            return Err(WireError::alien(EXPECTED));
        }
        let mut bytes = std::mem::take(&mut self.partial);
        if is_start {
            bytes.clear();
        }
        bytes.extend_from_slice(datagram);
        let result = self.decode_frame(&bytes, on_update);
        // On macOS Axis Neuron sends a frame as two datagrams.
        let is_partial =
            is_start && datagram.len() >= HEADER && matches!(result, Err(WireError::Truncated { .. }));
        if !is_partial {
            bytes.clear();
        }
        self.partial = bytes;
        if is_partial && !has_partial {
            Ok(())
        } else {
            result
        }
    }
}

impl AxisDecoder {
    fn decode_frame(
        &mut self,
        datagram: &[u8],
        on_update: &mut dyn FnMut(Update<'_>),
    ) -> Result<(), WireError> {
        let (avatar, frame) = self.read(datagram)?;
        let count = self.numbers.len();
        let (first, is_full) = match count {
            FULL => (0, true),
            SHORT => (0, false),
            _ if count == FULL + REFERENCE => (REFERENCE, true),
            _ if count == SHORT + REFERENCE => (REFERENCE, false),
            _ => return Err(WireError::malformed(0, BAD_COUNT)),
        };
        let Some(is_new) = self.avatar.accept(avatar) else {
            return Ok(());
        };
        self.skeleton_sent &= !is_new;
        self.pose.clear();
        self.pose.seq = frame.map(|frame| self.frame_numbers.number(frame));
        let numbers = &self.numbers[first..];
        for id in 0..BONES {
            let at = if is_full { 6 * id } else { 3 * id + 3 };
            let position = if is_full || id == 0 {
                let at = if is_full { at } else { 0 };
                [0, 1, 2].map(|i| numbers[at + i] / 100.0)
            } else {
                self.skeleton.offsets[id]
            };
            let angles = if is_full { at + 3 } else { at };
            let rotation = from_euler_yxz([0, 1, 2].map(|i| numbers[angles + i]));
            self.pose.push(id as u16, rotation, position);
        }
        if self.pose.joints.is_empty() {
            return Ok(());
        }
        // Any complete frame with other offsets than before redefines the skeleton.
        if is_full && self.pose.joints.len() == BONES {
            for (offset, joint) in self.skeleton.offsets.iter_mut().zip(&self.pose.joints).skip(1) {
                if (0..3).any(|i| (offset[i] - joint.position[i]).abs() > OFFSET_TOLERANCE_M) {
                    *offset = joint.position;
                    self.skeleton_sent = false;
                }
            }
        }
        if !self.skeleton_sent {
            self.skeleton_sent = true;
            on_update(Update::Skeleton(&self.skeleton));
        }
        on_update(Update::Frame(&self.pose));
        Ok(())
    }
}

/// Appends a binary frame of the whole body to `out`, with displacement and without reference, as avatar 0; a missing
/// `seq` is sent as 0. Transforms are parent-local; the hips' position is that in the world.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has a joint beyond the 59.
pub fn encode_frame(pose: &PoseUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    if !pose.has_ids_below(BONES) {
        return Err(WireError::unencodable("a bone of Axis is 0 to 58"));
    }
    out.extend_from_slice(&START_TOKEN);
    out.extend_from_slice(&0x0101_0000_u32.to_le_bytes());
    out.extend_from_slice(&(FULL as u16).to_le_bytes());
    out.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
    let mut name = [0; 32];
    name[..10].copy_from_slice(b"pyanticip\0");
    out.extend_from_slice(&name);
    out.extend_from_slice(&pose.seq.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(&END_TOKEN);
    for id in 0..BONES {
        let (position, angles) = pose.joint(id as u16).map_or(([0.0; 3], [0.0; 3]), |joint| {
            (joint.position.map(|v| v * 100.0), to_euler_yxz(joint.rotation))
        });
        put_f32s_le(out, &position);
        put_f32s_le(out, &angles);
    }
    Ok(())
}
