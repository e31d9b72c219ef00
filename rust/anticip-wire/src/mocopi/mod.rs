//! Sony mocopi: the `sony motion format` datagrams of UDP port 12351.
//!
//! A datagram is a sequence of fields, each `u32 length, 4-byte name, value`, little-endian; some values contain fields
//! themselves. Every datagram has `head` (`ftyp`, `vrsn`) and `sndf` (`ipad`, `rcvp`), then either `skdf` (the
//! skeleton, at the start and every few seconds) or `fram` (a frame). Fields with other names are skipped at every
//! level, so that newer apps, which add `tmcd` time codes and more, can be read.
//!
//! Transforms are parent-local, right-handed, y up, in metres. Quaternions are sent as `x, y, z, w`; only their order
//! changes, so encoding a decoded datagram gives the same bytes except for the sender's address and the clock that is
//! not read.
//!
//! A frame has up to two clocks. `time` is four bytes: apps that fill it write the seconds since the start of the
//! stream as binary32 (Sony's own receiver library returns a float too); `uttm`, in newer apps only, is Unix time in
//! seconds as binary64. [`PoseUpdate::time`] is `uttm` if there is one, else `time`.

mod encode;

pub use encode::{encode_frame, encode_skeleton};

use crate::WireError;
use crate::bytes::{array, f32s_le};
use crate::pose::{MAX_JOINTS, PoseUpdate, SkeletonUpdate, is_forest, is_position, is_rotation};
use crate::source::{Source, Update};

/// Number of bones of all known mocopi skeletons.
pub const BONES: usize = 27;

/// Names of the bones, by id.
pub const BONE_NAMES: [&str; BONES] = [
    "root",
    "torso_1",
    "torso_2",
    "torso_3",
    "torso_4",
    "torso_5",
    "torso_6",
    "torso_7",
    "neck_1",
    "neck_2",
    "head",
    "l_shoulder",
    "l_up_arm",
    "l_low_arm",
    "l_hand",
    "r_shoulder",
    "r_up_arm",
    "r_low_arm",
    "r_hand",
    "l_up_leg",
    "l_low_leg",
    "l_foot",
    "l_toes",
    "r_up_leg",
    "r_low_leg",
    "r_foot",
    "r_toes",
];

/// Parents of the bones, by id.
pub const BONE_PARENTS: [i32; BONES] = [
    -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 7, 11, 12, 13, 7, 15, 16, 17, 0, 19, 20, 21, 0, 23, 24, 25,
];

const FORMAT: &[u8] = b"sony motion format";
const EXPECTED: &str = "mocopi datagram";

/// Decoder of mocopi datagrams; it reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct MocopiDecoder {
    pose: PoseUpdate,
    skeleton: SkeletonUpdate,
    seen: Seen,
}

/// Whether this begins like every mocopi datagram.
pub fn recognises(datagram: &[u8]) -> bool {
    let head = &datagram[..datagram.len().min(64)];
    head.get(4..8) == Some(b"head") && head.windows(FORMAT.len()).any(|part| part == FORMAT)
}

/// The set of bone ids seen in a datagram.
#[derive(Clone, Debug, Default)]
struct Seen([u64; MAX_JOINTS / 64]);

impl Seen {
    /// Inserts `id`; false if it is out of range or already there.
    fn insert(&mut self, id: u16) -> bool {
        let Some(word) = self.0.get_mut(usize::from(id) / 64) else {
            return false;
        };
        let bit = 1u64 << (id % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// The seconds of a frame's `time` field: binary32, zero or a positive normal number. Anything else is `None`: a small
/// integer would read as a subnormal, and its unit is unknown.
pub fn stream_seconds(time_bits: u32) -> Option<f64> {
    let seconds = f32::from_bits(time_bits);
    (time_bits == 0 || (seconds.is_normal() && seconds > 0.0)).then_some(f64::from(seconds))
}

/// One field; `at` is the offset of its value in the datagram.
struct Field<'a> {
    name: [u8; 4],
    at: usize,
    value: &'a [u8],
}

/// Iterator over the fields of `data`, which begins at offset `at` of the datagram.
struct Fields<'a> {
    data: &'a [u8],
    at: usize,
    /// Whether `data` is the datagram itself: then missing bytes mean that it was cut short.
    is_outermost: bool,
}

impl<'a> Fields<'a> {
    fn of(field: &Field<'a>) -> Self {
        Self {
            data: field.value,
            at: field.at,
            is_outermost: false,
        }
    }

    fn next(&mut self) -> Result<Option<Field<'a>>, WireError> {
        if self.data.is_empty() {
            return Ok(None);
        }
        let (Some(length), Some(name)) = (array::<4>(self.data, 0), array::<4>(self.data, 4)) else {
            return Err(self.short("a field's length and name", 8));
        };
        let rest = &self.data[8..];
        let length = u32::from_le_bytes(length) as usize;
        let Some((value, after)) = rest.split_at_checked(length) else {
            return Err(self.short("a field", length.saturating_add(8)));
        };
        let field = Field {
            name,
            at: self.at + 8,
            value,
        };
        self.at += 8 + length;
        self.data = after;
        Ok(Some(field))
    }

    fn short(&self, what: &'static str, needed: usize) -> WireError {
        if self.is_outermost {
            WireError::Truncated {
                what,
                at: self.at,
                needed,
                left: self.data.len(),
            }
        } else {
            WireError::malformed(self.at, "a field reaches beyond its container")
        }
    }
}

fn malformed(field: &Field<'_>, reason: &'static str) -> WireError {
    WireError::malformed(field.at, reason)
}

/// A fixed-size value.
fn fixed<const N: usize>(field: &Field<'_>, reason: &'static str) -> Result<[u8; N], WireError> {
    field.value.try_into().map_err(|_| malformed(field, reason))
}

/// The content of a datagram.
#[derive(Clone, Copy)]
enum Kind {
    Skeleton,
    Frame,
}

impl Source for MocopiDecoder {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        // Without this start the datagram is another protocol's, whatever else is wrong with it.
        if array::<4>(datagram, 4) != Some(*b"head") {
            return Err(WireError::alien(EXPECTED));
        }
        let mut fields = Fields {
            data: datagram,
            at: 0,
            is_outermost: true,
        };
        let mut kind = None;
        let mut has_unknown_fields = false;
        while let Some(field) = fields.next()? {
            match &field.name {
                b"head" => check_head(&field)?,
                b"sndf" => {}
                b"skdf" | b"fram" if kind.is_some() => {
                    return Err(malformed(&field, "a second skdf or fram in one datagram"));
                }
                b"skdf" => {
                    decode_skeleton(&field, self)?;
                    kind = Some(Kind::Skeleton);
                }
                b"fram" => {
                    decode_frame(&field, self)?;
                    kind = Some(Kind::Frame);
                }
                _ => has_unknown_fields = true,
            }
        }
        match kind {
            Some(Kind::Skeleton) => on_update(Update::Skeleton(&self.skeleton)),
            Some(Kind::Frame) => on_update(Update::Frame(&self.pose)),
            None if has_unknown_fields => return Err(WireError::alien(EXPECTED)),
            None => {
                return Err(WireError::Truncated {
                    what: "skdf or fram",
                    at: datagram.len(),
                    needed: 8,
                    left: 0,
                });
            }
        }
        Ok(())
    }
}

/// Checks the format's name. The version is not checked; it has always been 1.
fn check_head(field: &Field<'_>) -> Result<(), WireError> {
    let mut is_mocopi = false;
    let mut fields = Fields::of(field);
    while let Some(inner) = fields.next()? {
        if &inner.name == b"ftyp" {
            is_mocopi = inner.value == FORMAT;
        }
    }
    is_mocopi.then_some(()).ok_or(WireError::alien(EXPECTED))
}

/// A bone of a frame or, with `parent`, of a skeleton.
struct Bone {
    id: u16,
    parent: Option<i16>,
    rotation: [f32; 4],
    position: [f32; 3],
}

fn decode_bone(field: &Field<'_>) -> Result<Bone, WireError> {
    let (mut id, mut parent, mut transform) = (None, None, None);
    let mut fields = Fields::of(field);
    while let Some(inner) = fields.next()? {
        match &inner.name {
            b"bnid" => id = Some(u16::from_le_bytes(fixed(&inner, "bnid is not 2 bytes")?)),
            b"pbid" => parent = Some(i16::from_le_bytes(fixed(&inner, "pbid is not 2 bytes")?)),
            b"tran" => {
                let raw = f32s_le::<7>(inner.value, 0).filter(|_| inner.value.len() == 28);
                transform = Some(raw.ok_or(malformed(&inner, "tran is not 7 floats"))?);
            }
            _ => {}
        }
    }
    let Some(id) = id else {
        return Err(malformed(field, "a bone without bnid"));
    };
    let Some([x, y, z, w, px, py, pz]) = transform else {
        return Err(malformed(field, "a bone without tran"));
    };
    Ok(Bone {
        id,
        parent,
        rotation: [w, x, y, z],
        position: [px, py, pz],
    })
}

fn decode_frame(field: &Field<'_>, out: &mut MocopiDecoder) -> Result<(), WireError> {
    let MocopiDecoder { pose, seen, .. } = out;
    pose.clear();
    *seen = Seen::default();
    let mut time_bits = None;
    let mut unix_time = None;
    let mut has_bones = false;
    let mut fields = Fields::of(field);
    while let Some(inner) = fields.next()? {
        match &inner.name {
            b"fnum" => pose.seq = Some(u32::from_le_bytes(fixed(&inner, "fnum is not 4 bytes")?)),
            b"time" => time_bits = Some(u32::from_le_bytes(fixed(&inner, "time is not 4 bytes")?)),
            b"uttm" => unix_time = Some(f64::from_le_bytes(fixed(&inner, "uttm is not 8 bytes")?)),
            b"btrs" => {
                has_bones = true;
                decode_transforms(&inner, pose, seen)?;
            }
            _ => {}
        }
    }
    if pose.seq.is_none() {
        return Err(malformed(field, "fram without fnum"));
    }
    if !has_bones {
        return Err(malformed(field, "fram without btrs"));
    }
    let unix_time = unix_time.filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    pose.time = unix_time.or(time_bits.and_then(stream_seconds));
    Ok(())
}

fn decode_transforms(field: &Field<'_>, pose: &mut PoseUpdate, seen: &mut Seen) -> Result<(), WireError> {
    let mut fields = Fields::of(field);
    while let Some(inner) = fields.next()? {
        if &inner.name != b"btdt" {
            continue;
        }
        let Bone {
            id,
            rotation,
            position,
            ..
        } = decode_bone(&inner)?;
        if !seen.insert(id) {
            return Err(malformed(&inner, "a bone id that is doubled or above 255"));
        }
        pose.push(id, rotation, position);
    }
    Ok(())
}

fn decode_skeleton(field: &Field<'_>, out: &mut MocopiDecoder) -> Result<(), WireError> {
    let MocopiDecoder { skeleton, seen, .. } = out;
    *seen = Seen::default();
    let SkeletonUpdate {
        names,
        parents,
        offsets,
        rest,
        rate,
    } = skeleton;
    parents.clear();
    offsets.clear();
    rest.clear();
    *rate = None;
    let mut count = 0usize;
    let mut fields = Fields::of(field);
    while let Some(container) = fields.next()? {
        if &container.name != b"bons" {
            continue;
        }
        let mut bones = Fields::of(&container);
        while let Some(inner) = bones.next()? {
            if &inner.name != b"bndt" {
                continue;
            }
            let Bone {
                id,
                parent,
                rotation,
                position,
            } = decode_bone(&inner)?;
            let Some(parent) = parent else {
                return Err(malformed(&inner, "a bone without pbid"));
            };
            if !seen.insert(id) {
                return Err(malformed(&inner, "a bone id that is doubled or above 255"));
            }
            if !is_rotation(&rotation) || !is_position(&position) {
                return Err(malformed(
                    &inner,
                    "a rest transform that is not finite or has no rotation",
                ));
            }
            let index = usize::from(id);
            if parents.len() <= index {
                parents.resize(index + 1, -1);
                offsets.resize(index + 1, [0.0; 3]);
                rest.resize(index + 1, [1.0, 0.0, 0.0, 0.0]);
            }
            parents[index] = i32::from(parent);
            offsets[index] = position;
            rest[index] = rotation;
            count += 1;
        }
    }
    if count == 0 || count != parents.len() {
        return Err(malformed(
            field,
            "the skeleton's bone ids are not 0 to n-1, each once",
        ));
    }
    if !is_forest(parents) {
        return Err(malformed(field, "the skeleton's parents are no tree"));
    }
    if names.len() != count {
        let name = |id: usize| BONE_NAMES.get(id).map(|name| (*name).to_owned());
        *names = (0..count)
            .map(|id| name(id).unwrap_or_else(|| format!("bone_{id}")))
            .collect();
    }
    Ok(())
}
