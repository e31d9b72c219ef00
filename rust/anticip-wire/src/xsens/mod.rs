//! Xsens MVN: the network streamer's `MXTP02` datagrams (position and quaternion of every segment), UDP port 9763.
//!
//! Big-endian. A header of 24 bytes: `MXTP02`, u32 sample counter, u8 datagram counter (the high bit: the last of its
//! sample), u8 items, u32 time code (milliseconds), u8 character, u8 body, prop and finger segments, two reserved
//! bytes, u16 payload size (older programs leave the last bytes zero). Then items of 32 bytes: u32 segment id from 1,
//! position `x y z` in metres (in centimetres by the vendor's document; the body's size shows which), rotation
//! `w x y z`.
//!
//! Transforms are in world coordinates, z up, x forward; in T-pose every rotation is the identity. A cyclic permutation
//! of the axes makes y up and z forward. Segments 1 to 23 are the body; props and fingers are skipped.
//!
//! A sample may come in several datagrams, in any order; it becomes a frame once all have come, or when the next sample
//! begins. If MVN sends fewer samples than it captures, the counter skips; frames are numbered by its smallest step. If
//! the counter stands still, a new time code is a new sample, and so is new content of a sample in a single datagram.
//! Only one character is decoded: the first complete one, until it has been absent for 200 datagrams of others.

use std::hash::{DefaultHasher, Hasher};

use crate::WireError;
use crate::bytes::{array, put_f32s_be, slice};
use crate::frame_numbers::{FrameNumbers, MAX_REORDER};
use crate::pose::PoseUpdate;
use crate::source::{Active, Source, Update};
use crate::world::{WorldBody, world_transforms};

/// Number of segments of the body.
pub const SEGMENTS: usize = 23;

/// Names of the segments; a segment's id is its index plus one.
pub const SEGMENT_NAMES: [&str; SEGMENTS] = [
    "Pelvis",
    "L5",
    "L3",
    "T12",
    "T8",
    "Neck",
    "Head",
    "Right Shoulder",
    "Right Upper Arm",
    "Right Forearm",
    "Right Hand",
    "Left Shoulder",
    "Left Upper Arm",
    "Left Forearm",
    "Left Hand",
    "Right Upper Leg",
    "Right Lower Leg",
    "Right Foot",
    "Right Toe",
    "Left Upper Leg",
    "Left Lower Leg",
    "Left Foot",
    "Left Toe",
];

/// Parent indices of the segments.
pub const SEGMENT_PARENTS: [i32; SEGMENTS] = [
    -1, 0, 1, 2, 3, 4, 5, 4, 7, 8, 9, 4, 11, 12, 13, 0, 15, 16, 17, 0, 19, 20, 21,
];

/// Bytes of the header.
const HEADER: usize = 24;
/// Bytes of an item.
const ITEM: usize = 32;

/// Whether this is a datagram of MVN's network streamer, of any message type.
pub fn recognises(datagram: &[u8]) -> bool {
    datagram.starts_with(b"MXTP") && datagram.len() >= 6 && datagram[4..6].iter().all(u8::is_ascii_digit)
}

/// The sample that is being assembled.
#[derive(Clone, Copy, Debug)]
struct Sample {
    counter: u32,
    /// Consecutive number of its frame.
    number: u32,
    time_ms: u32,
    /// Bit per datagram: received.
    received: u128,
    /// Number of datagrams, once the last one has come.
    parts: Option<u32>,
    is_finished: bool,
    /// Hash of the content, if the sample is a single datagram.
    content_hash: Option<u64>,
}

/// Assembles frames from datagrams; see the module documentation.
#[derive(Clone, Debug)]
pub struct XsensAssembler {
    body: WorldBody,
    character: Active<u8>,
    sample: Option<Sample>,
    numbers: FrameNumbers,
}

impl Default for XsensAssembler {
    fn default() -> Self {
        Self {
            body: WorldBody::new(
                &SEGMENT_NAMES,
                &SEGMENT_PARENTS,
                &[[1.0, 0.0, 0.0, 0.0]; SEGMENTS],
            ),
            character: Active::default(),
            sample: None,
            numbers: FrameNumbers::default(),
        }
    }
}

/// What was expected instead of another message type of MVN, and the setting to change.
fn expected(message_type: &[u8]) -> &'static str {
    match message_type {
        b"01" => {
            "MXTP02 but MXTP01 (Euler angles): choose Position + Orientation (Quaternion) in MVN's network streamer"
        }
        b"05" => {
            "MXTP02 but MXTP05 (Unity3D): choose Position + Orientation (Quaternion) in MVN's network streamer"
        }
        _ => "pose of MVN (MXTP02): choose Position + Orientation (Quaternion) in MVN's network streamer",
    }
}

impl XsensAssembler {
    /// The sample that a datagram belongs to, finishing the current one if a new one begins; `None` if the datagram is
    /// late.
    fn sample_for(
        &mut self,
        counter: u32,
        time_ms: u32,
        content_hash: Option<u64>,
        on_update: &mut dyn FnMut(Update<'_>),
    ) -> Option<&mut Sample> {
        match self.sample {
            Some(current) if current.counter == counter => {
                if current.is_finished {
                    // A sample has one time and, in a single datagram, one content: others mean that the counter stands
                    // still.
                    let is_other_content = content_hash
                        .zip(current.content_hash)
                        .is_some_and(|(a, b)| a != b);
                    if current.time_ms == time_ms && !is_other_content {
                        return None;
                    }
                    let number = self.numbers.repeat(counter);
                    self.begin_sample(counter, number, time_ms);
                }
            }
            current => {
                let counts_back = current.map_or(0, |current| current.counter.wrapping_sub(counter));
                if (1..=MAX_REORDER).contains(&counts_back) {
                    return None;
                }
                // Missing parts of an incomplete sample are not an error of this datagram.
                let _ = self.finish_sample(on_update);
                if (1..u32::MAX / 2).contains(&counts_back) {
                    self.body.reset_skeleton();
                }
                let number = self.numbers.number(counter);
                self.begin_sample(counter, number, time_ms);
            }
        }
        self.sample.as_mut()
    }

    fn begin_sample(&mut self, counter: u32, number: u32, time_ms: u32) {
        self.body.begin_frame(None);
        self.sample = Some(Sample {
            counter,
            number,
            time_ms,
            received: 0,
            parts: None,
            is_finished: false,
            content_hash: None,
        });
    }

    /// Delivers the current sample, complete or not, unless that was done.
    fn finish_sample(&mut self, on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let Some(sample) = self.sample.as_mut().filter(|sample| !sample.is_finished) else {
            return Ok(());
        };
        sample.is_finished = true;
        self.body.pose.seq = Some(sample.number);
        self.body.pose.time = Some(f64::from(sample.time_ms) / 1000.0);
        self.body.detect_unit();
        self.body.finish_frame(on_update)
    }
}

/// The big-endian integer at offset `at`, which is there.
fn word(data: &[u8], at: usize) -> u32 {
    array(data, at).map_or(0, u32::from_be_bytes)
}

/// Hash of a datagram's items.
fn hash(items: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(items);
    hasher.finish()
}

impl Source for XsensAssembler {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        if !recognises(datagram) {
            return Err(WireError::alien("MVN datagram (MXTP02)"));
        }
        if &datagram[4..6] != b"02" {
            // MVN may be set to send other message types beside the pose.
            if self.character.id.is_some() {
                return Ok(());
            }
            return Err(WireError::alien(expected(&datagram[4..6])));
        }
        let header = slice(datagram, 0, HEADER, "the header")?;
        let (counter, time_ms) = (word(header, 6), word(header, 12));
        let [part, items, character] = [10, 11, 16].map(|at: usize| header[at]);
        let payload = slice(datagram, HEADER, usize::from(items) * ITEM, "the segments")?;
        match self.character.accept(character) {
            None => return Ok(()),
            Some(true) => {
                self.body.reset_skeleton();
                self.sample = None;
                self.numbers.restart();
            }
            Some(false) => {}
        }
        let part_number = u32::from(part & 0x7f);
        let is_last = part & 0x80 != 0;
        let content_hash = (is_last && part_number == 0).then(|| hash(payload));
        let Some(sample) = self.sample_for(counter, time_ms, content_hash, on_update) else {
            // Reported once per sample, at its last datagram.
            if is_last {
                on_update(Update::Late(self.numbers.number(counter)));
            }
            return Ok(());
        };
        sample.content_hash = content_hash;
        sample.received |= 1 << part_number;
        if is_last {
            sample.parts = Some(part_number + 1);
        }
        let received = sample.received.trailing_ones();
        let is_complete = sample.parts.is_some_and(|parts| received >= parts);
        for item in payload.as_chunks::<ITEM>().0 {
            let id = word(item, 0) as usize;
            if (1..=SEGMENTS).contains(&id) {
                let [x, y, z, qw, qx, qy, qz] =
                    std::array::from_fn(|i| f32::from_bits(word(item, 4 + 4 * i)));
                self.body.set_joint(id - 1, [qw, qy, qz, qx], [y, z, x]);
            }
        }
        let result = if is_complete {
            self.finish_sample(on_update)
        } else {
            Ok(())
        };
        if self.body.is_not_a_body(&result) {
            // A tracked object is a character of its own: another one may be a body.
            self.character = Active::default();
        }
        result
    }
}

/// Appends a frame of the whole body to `out`: one datagram of 760 bytes, as MVN sends it without props and fingers, of
/// character 0. A missing `seq` or `time` is sent as 0. The pose is parent-local; the pelvis' position is that in the
/// world.
///
/// # Errors
/// [`WireError::Unencodable`] if a joint's id exceeds 22.
pub fn encode_frame(pose: &PoseUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    if !pose.has_ids_below(SEGMENTS) {
        return Err(WireError::unencodable("a segment of MVN is 0 to 22"));
    }
    out.extend_from_slice(b"MXTP02");
    out.extend_from_slice(&pose.seq.unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&[0x80, SEGMENTS as u8]);
    let milliseconds = (pose.time.unwrap_or(0.0) * 1000.0).round() as u64 as u32;
    out.extend_from_slice(&milliseconds.to_be_bytes());
    out.extend_from_slice(&[0, SEGMENTS as u8, 0, 0, 0, 0]);
    out.extend_from_slice(&((SEGMENTS * ITEM) as u16).to_be_bytes());
    for (id, joint) in world_transforms(pose, &SEGMENT_PARENTS).iter().enumerate() {
        out.extend_from_slice(&(id as u32 + 1).to_be_bytes());
        let ([y, z, x], [w, qy, qz, qx]) = (joint.position, joint.rotation);
        put_f32s_be(out, &[x, y, z, w, qx, qy, qz]);
    }
    Ok(())
}
