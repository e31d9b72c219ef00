//! Xsens MVN: the network streamer's `MXTP02` datagrams (position and quaternion of every segment), UDP port 9763.
//!
//! Big-endian. A header of 24 bytes: `MXTP02`, u32 sample counter, u8 datagram counter (the high bit: the last of its
//! sample), u8 items, u32 time code (milliseconds), u8 character, u8 body, prop and finger segments, two reserved
//! bytes, u16 payload size (older programs leave the last bytes zero). Then items of 32 bytes: u32 segment id from 1
//! on, `x y z` in metres (the vendor's document has centimetres: the body's size tells), `w x y z`.
//!
//! Both are told in the world: z up, x forward, and in T-pose every segment's rotation is the identity. A cyclic swap
//! of the axes makes that y up and z forward. Segments 1 to 23 are the body; props and fingers are passed over.
//!
//! A sample may come in several datagrams, in any order; it is a frame when all are there, or when the next one
//! begins. The counter skips where fewer samples are sent than are captured: frames are numbered by the smallest step
//! that it takes. Where it stands still, another time code is another sample, and so is another content of one datagram.
//! Of several characters the first whole one is heard, another one when that has been away for 200 datagrams of others.

use std::hash::{DefaultHasher, Hasher};

use crate::WireError;
use crate::bytes::array;
use crate::figure::{Figure, place};
use crate::pose::PoseUpdate;
use crate::source::{Active, OVERTAKEN, Source, Stride, Update};

/// Segments of the body.
pub const SEGMENTS: usize = 23;

/// Names of the segments; a segment's id is its place in here and one.
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

/// Parents of the segments, by place.
pub const SEGMENT_PARENTS: [i32; SEGMENTS] = [
    -1, 0, 1, 2, 3, 4, 5, 4, 7, 8, 9, 4, 11, 12, 13, 0, 15, 16, 17, 0, 19, 20, 21,
];

const HEADER: usize = 24;
const ITEM: usize = 32;
/// Whether these are bytes of MVN's network streamer, whatever message they are.
pub fn recognises(datagram: &[u8]) -> bool {
    datagram.starts_with(b"MXTP") && datagram.len() >= 6 && datagram[4..6].iter().all(u8::is_ascii_digit)
}

/// The sample that is being assembled.
#[derive(Clone, Copy, Debug)]
struct Sample {
    counter: u32,
    time_ms: u32,
    /// Bit per datagram: received.
    got: u128,
    /// How many datagrams it has, once the last one is there.
    parts: Option<u32>,
    done: bool,
    /// A number of what the newest datagram held, none where it is one of several.
    content: Option<u64>,
}

/// Makes frames of datagrams; see the module's documentation.
#[derive(Clone, Debug)]
pub struct XsensAssembler {
    figure: Figure,
    character: Active<u8>,
    sample: Option<Sample>,
    /// The number of the frame that is assembled.
    number: u32,
    stride: Stride,
}

impl Default for XsensAssembler {
    fn default() -> Self {
        Self {
            figure: Figure::new(
                &SEGMENT_NAMES,
                &SEGMENT_PARENTS,
                &[[1.0, 0.0, 0.0, 0.0]; SEGMENTS],
            ),
            character: Active::default(),
            sample: None,
            number: 0,
            stride: Stride::NEW,
        }
    }
}

/// What there is to do about another message of the same program.
fn expected(message: &[u8]) -> &'static str {
    match message {
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
    /// The sample of this counter, new or begun; none where it is past.
    fn sample(
        &mut self,
        counter: u32,
        time_ms: u32,
        content: Option<u64>,
        take: &mut dyn FnMut(Update<'_>),
    ) -> Option<&mut Sample> {
        if let Some(now) = self.sample {
            let back = now.counter.wrapping_sub(counter);
            // All of a sample has one time, and one content where it is one datagram: with another it is the next,
            // whose counter stands still.
            let other = content.zip(now.content).is_some_and(|(a, b)| a != b);
            let stands = back == 0 && now.done && (now.time_ms != time_ms || other);
            if (1..=OVERTAKEN).contains(&back) || (back == 0 && now.done && !stands) {
                return None;
            }
            if stands {
                self.number = self.number.wrapping_add(1);
                self.begin(counter, time_ms);
            }
            if back != 0 {
                // What is missing of a sample that was cut off says nothing of the body.
                let _ = self.finish(take);
                if back < u32::MAX / 2 {
                    self.figure.forget();
                }
            }
        }
        if self.sample.is_none_or(|now| now.counter != counter) {
            let step = self.sample.map(|now| counter.wrapping_sub(now.counter));
            self.number = match step.filter(|step| *step < u32::MAX / 2) {
                Some(step) => self.number.wrapping_add(self.stride.frames(step)),
                None => counter,
            };
            self.begin(counter, time_ms);
        }
        self.sample.as_mut()
    }

    fn begin(&mut self, counter: u32, time_ms: u32) {
        self.figure.begin(None);
        self.sample = Some(Sample {
            counter,
            time_ms,
            got: 0,
            parts: None,
            done: false,
            content: None,
        });
    }

    /// The number of the frame that a past sample is or would have been.
    fn past(&self, counter: u32) -> u32 {
        let back = self.sample.map_or(0, |now| now.counter.wrapping_sub(counter));
        self.number.wrapping_sub(self.stride.back(back))
    }

    /// Hands the sample on, as far as it is there.
    fn finish(&mut self, take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let Some(sample) = self.sample.as_mut().filter(|sample| !sample.done) else {
            return Ok(());
        };
        sample.done = true;
        self.figure.pose.seq = Some(self.number);
        self.figure.pose.time = Some(f64::from(sample.time_ms) / 1000.0);
        self.figure.guess_unit();
        self.figure.end(take)
    }
}

/// A number that datagrams share which hold the same.
fn content(items: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(items);
    hasher.finish()
}

impl Source for XsensAssembler {
    fn decode(&mut self, datagram: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let alien = |expected| Err(WireError::Alien { expected });
        if !recognises(datagram) {
            return alien("MVN datagram (MXTP02)");
        }
        if &datagram[4..6] != b"02" {
            // Beside the pose there may be whatever else was chosen.
            if self.character.id.is_some() {
                return Ok(());
            }
            return alien(expected(&datagram[4..6]));
        }
        let (Some(counter), Some([part, items]), Some(time), Some([character])) = (
            array::<4>(datagram, 6),
            array::<2>(datagram, 10),
            array::<4>(datagram, 12),
            array::<1>(datagram, 16).filter(|_| datagram.len() >= HEADER),
        ) else {
            return Err(WireError::Truncated {
                what: "the header",
                at: 0,
                needed: HEADER,
                left: datagram.len(),
            });
        };
        let body = &datagram[HEADER..];
        let needed = usize::from(items) * ITEM;
        if body.len() < needed {
            return Err(WireError::Truncated {
                what: "the segments",
                at: HEADER,
                needed,
                left: body.len(),
            });
        }
        let (counter, time_ms) = (u32::from_be_bytes(counter), u32::from_be_bytes(time));
        match self.character.accept(character) {
            None => return Ok(()),
            Some(true) => {
                self.figure.forget();
                self.sample = None;
            }
            Some(false) => {}
        }
        let number = u32::from(part & 0x7f);
        let last = part & 0x80 != 0;
        let alone = (last && number == 0).then(|| content(&body[..needed]));
        let Some(sample) = self.sample(counter, time_ms, alone, take) else {
            // Each sample has one last datagram.
            if last {
                take(Update::Past(self.past(counter)));
            }
            return Ok(());
        };
        sample.content = alone;
        sample.got |= 1 << number;
        if last {
            sample.parts = Some(number + 1);
        }
        let whole = sample
            .parts
            .is_some_and(|parts| sample.got.trailing_ones() >= parts);
        for item in body[..needed].as_chunks::<ITEM>().0 {
            let word = |at: usize| array::<4>(item, at).unwrap_or_default();
            let id = u32::from_be_bytes(word(0)) as usize;
            if (1..=SEGMENTS).contains(&id) {
                let [x, y, z, qw, qx, qy, qz] = std::array::from_fn(|i| f32::from_be_bytes(word(4 + 4 * i)));
                self.figure.put(id - 1, [qw, qy, qz, qx], [y, z, x]);
            }
        }
        let told = if whole { self.finish(take) } else { Ok(()) };
        if self.figure.is_no_body(&told) {
            // A tracked object comes as a character of its own: whoever is next may be a body.
            self.character = Active::default();
        }
        told
    }
}

/// Appends a frame of the whole body to `out`, one datagram of 760 bytes as MVN sends it without props and fingers:
/// the pose's `seq` and `time` (0 where there is none), character 0. Positions are local, the hips' is the place.
///
/// # Errors
/// [`WireError::Unencodable`] if the pose has a joint beyond the 23 segments.
pub fn encode_frame(pose: &PoseUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    if pose.joints.iter().any(|joint| usize::from(joint.id) >= SEGMENTS) {
        return Err(WireError::Unencodable {
            reason: "a segment of MVN is 0 to 22",
        });
    }
    out.extend_from_slice(b"MXTP02");
    out.extend_from_slice(&pose.seq.unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&[0x80, SEGMENTS as u8]);
    let milliseconds = (pose.time.unwrap_or(0.0) * 1000.0).round() as u64 as u32;
    out.extend_from_slice(&milliseconds.to_be_bytes());
    out.extend_from_slice(&[0, SEGMENTS as u8, 0, 0, 0, 0]);
    out.extend_from_slice(&((SEGMENTS * ITEM) as u16).to_be_bytes());
    for (id, joint) in place(pose, &SEGMENT_PARENTS).iter().enumerate() {
        out.extend_from_slice(&(id as u32 + 1).to_be_bytes());
        let ([y, z, x], [w, qy, qz, qx]) = (joint.position, joint.rotation);
        for value in [x, y, z, w, qx, qy, qz] {
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
    Ok(())
}
