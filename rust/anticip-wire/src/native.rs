//! This project's own datagrams: msgpack maps, one per datagram.
//!
//! A frame: `{"v": 1, "type": "frame", "seq": uint32, "t": float64 seconds, "quats": bin, "root": bin}`.
//! `quats` holds the parent-local `w, x, y, z` of every joint in the skeleton's order as little-endian binary32 (16 bytes a
//! joint), `root` the root joint's `x, y, z` in metres (12 bytes). `root` is optional.
//!
//! A skeleton, to be sent at the start and every few seconds: `{"v": 1, "type": "skeleton", "rate": float64 Hz,
//! "names": [str], "parents": [int, -1 for a root], "offsets": bin (12 bytes a joint), "rest": bin (16 bytes
//! a joint)}`. `rate` and `rest` are optional (default rest rotations: the identity).
//!
//! Keys may come in any order; unknown keys are skipped. A `v` above 1 is refused.

use crate::WireError;
use crate::bytes::f32s_le;
use crate::msgpack::{Reader, Value};
use crate::pose::{Joint, MAX_JOINTS, PoseUpdate, SkeletonUpdate, is_forest, is_position, is_rotation};
use crate::source::{Source, Update};

/// The format's version.
pub const VERSION: u32 = 1;

const EXPECTED: &str = "msgpack datagram";

/// Kind of a decoded datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeKind {
    /// [`NativePacket::skeleton`] was replaced.
    Skeleton,
    /// [`NativePacket::pose`] was replaced.
    Frame,
}

/// The decoded values; pass the same one to every [`decode`] to reuse its memory.
#[derive(Clone, Debug, Default)]
pub struct NativePacket {
    /// The last frame.
    pub pose: PoseUpdate,
    /// The last skeleton.
    pub skeleton: SkeletonUpdate,
}

/// Whether this is such a datagram, of this or a newer version.
pub fn recognises(datagram: &[u8]) -> bool {
    match read_keys(datagram) {
        Ok(keys) => matches!(keys.kind, Some(b"frame" | b"skeleton")),
        Err(error) => matches!(error, WireError::Version { .. }),
    }
}

impl Source for NativePacket {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        match decode(datagram, self)? {
            NativeKind::Skeleton => on_update(Update::Skeleton(&self.skeleton)),
            NativeKind::Frame => on_update(Update::Frame(&self.pose)),
        }
        Ok(())
    }
}

/// The values of the known keys.
#[derive(Default)]
struct Keys<'a> {
    kind: Option<&'a [u8]>,
    version: Option<u64>,
    seq: Option<u64>,
    time: Option<f64>,
    rate: Option<f64>,
    quats: Option<&'a [u8]>,
    root: Option<&'a [u8]>,
    offsets: Option<&'a [u8]>,
    rest: Option<&'a [u8]>,
    /// Offset of the array's first item, and their count.
    names: Option<(usize, usize)>,
    /// As `names`.
    parents: Option<(usize, usize)>,
    /// Error of the first value of the type_error type; the other keys still show whose datagram it is.
    type_error: Option<WireError>,
}

fn malformed(at: usize, reason: &'static str) -> WireError {
    WireError::Malformed { reason, at }
}

fn bin<'a>(value: Value<'a>, at: usize, reason: &'static str) -> Result<Option<&'a [u8]>, WireError> {
    match value {
        Value::Bin(bytes) => Ok(Some(bytes)),
        _ => Err(malformed(at, reason)),
    }
}

fn number(value: Value<'_>, at: usize, reason: &'static str) -> Result<Option<f64>, WireError> {
    match value {
        Value::Float(v) if v.is_finite() => Ok(Some(v)),
        Value::Uint(v) => Ok(Some(v as f64)),
        Value::Int(v) => Ok(Some(v as f64)),
        _ => Err(malformed(at, reason)),
    }
}

fn uint(value: Value<'_>, at: usize, reason: &'static str) -> Result<Option<u64>, WireError> {
    match value {
        Value::Uint(v) if v <= u32::MAX.into() => Ok(Some(v)),
        _ => Err(malformed(at, reason)),
    }
}

impl<'a> Keys<'a> {
    /// Stores one value; `at` is its offset, `items` that of the first item of an array.
    fn set(&mut self, key: &[u8], value: Value<'a>, at: usize, items: usize) -> Result<(), WireError> {
        match key {
            b"v" => self.version = uint(value, at, "v is not an unsigned integer")?,
            b"type" => match value {
                Value::Str(text) => self.kind = Some(text),
                _ => return Err(malformed(at, "type is not a string")),
            },
            b"seq" => self.seq = uint(value, at, "seq is not an unsigned 32-bit integer")?,
            b"t" => self.time = number(value, at, "t is not a finite number")?,
            b"rate" => self.rate = number(value, at, "rate is not a finite number")?,
            b"quats" => self.quats = bin(value, at, "quats is not binary")?,
            b"root" => self.root = bin(value, at, "root is not binary")?,
            b"offsets" => self.offsets = bin(value, at, "offsets is not binary")?,
            b"rest" => self.rest = bin(value, at, "rest is not binary")?,
            b"names" | b"parents" => {
                let Value::Array(count) = value else {
                    return Err(malformed(at, "not an array"));
                };
                let slot = if key == b"names" {
                    &mut self.names
                } else {
                    &mut self.parents
                };
                *slot = Some((items, count));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reads the known keys in one pass over the map.
fn read_keys(datagram: &[u8]) -> Result<Keys<'_>, WireError> {
    let alien = WireError::Alien { expected: EXPECTED };
    let mut reader = Reader::new(datagram);
    let entries = match reader.value() {
        Ok(Value::Map(entries)) => entries,
        // A map that is cut off within its length.
        Err(error) if matches!(datagram.first(), Some(0xde | 0xdf)) => return Err(error),
        _ => return Err(alien),
    };
    let mut keys = Keys::default();
    for _ in 0..entries {
        let at = reader.at();
        let Value::Str(key) = reader.value()? else {
            return Err(malformed(at, "a key that is not a string"));
        };
        let at = reader.at();
        let before = reader;
        let value = reader.value()?;
        if let Err(error) = keys.set(key, value, at, reader.at()) {
            keys.type_error.get_or_insert(error);
        }
        if matches!(value, Value::Array(_) | Value::Map(_)) {
            reader = before;
            reader.skip()?;
        }
    }
    if reader.at() != datagram.len() {
        return Err(malformed(reader.at(), "bytes after the end of the map"));
    }
    match keys.version {
        None if keys.type_error.is_none() => Err(alien),
        Some(version) if version > VERSION.into() => Err(WireError::Version {
            what: "msgpack datagram",
            found: version as u32,
            known: VERSION,
        }),
        _ => Ok(keys),
    }
}

/// Decodes one datagram into `out`.
///
/// After an error, `pose` and `skeleton` may hold parts of the datagram.
///
/// # Errors
/// [`WireError::Alien`] if it is not a map with a `v`, [`WireError::Version`] if `v` is newer than [`VERSION`],
/// [`WireError::Truncated`] if it is cut short, [`WireError::Malformed`] otherwise.
pub fn decode(datagram: &[u8], out: &mut NativePacket) -> Result<NativeKind, WireError> {
    let mut keys = read_keys(datagram)?;
    if let Some(error) = keys.type_error.take() {
        return Err(error);
    }
    match keys.kind {
        Some(b"frame") => decode_frame(&keys, &mut out.pose).map(|()| NativeKind::Frame),
        Some(b"skeleton") => {
            decode_skeleton(datagram, &keys, &mut out.skeleton).map(|()| NativeKind::Skeleton)
        }
        _ => Err(WireError::Alien { expected: EXPECTED }),
    }
}

fn decode_frame(keys: &Keys<'_>, pose: &mut PoseUpdate) -> Result<(), WireError> {
    pose.clear();
    let (Some(seq), Some(time), Some(quats)) = (keys.seq, keys.time, keys.quats) else {
        return Err(malformed(0, "a frame needs seq, t and quats"));
    };
    let (quats, tail) = quats.as_chunks::<16>();
    if quats.is_empty() || quats.len() > MAX_JOINTS || !tail.is_empty() {
        return Err(malformed(0, "quats is not 16 bytes a joint for 1 to 256 joints"));
    }
    pose.seq = Some(seq as u32);
    pose.time = Some(time);
    let mut root = [0.0; 3];
    if let Some(bytes) = keys.root {
        if bytes.len() != 12 {
            return Err(malformed(0, "root is not 12 bytes"));
        }
        root = f32s_le::<3>(bytes, 0).unwrap_or_default();
        if is_position(&root) {
            pose.root = Some(root);
        } else {
            // Not counted as unusable: the root is not one of the joints.
            root = [0.0; 3];
        }
    }
    for (id, raw) in quats.iter().enumerate() {
        let rotation = f32s_le::<4>(raw, 0).unwrap_or_default();
        if is_rotation(&rotation) {
            let position = if id == 0 { root } else { [0.0; 3] };
            pose.joints.push(Joint {
                id: id as u16,
                rotation,
                position,
                fresh: true,
            });
        } else {
            pose.unusable += 1;
        }
    }
    Ok(())
}

fn decode_skeleton(datagram: &[u8], keys: &Keys<'_>, out: &mut SkeletonUpdate) -> Result<(), WireError> {
    let (Some((names_at, names)), Some((parents_at, parents)), Some(offsets)) =
        (keys.names, keys.parents, keys.offsets)
    else {
        return Err(malformed(0, "a skeleton needs names, parents and offsets"));
    };
    if names == 0 || names > MAX_JOINTS || parents != names || offsets.len() != 12 * names {
        return Err(malformed(
            0,
            "names, parents and offsets do not describe the same 1 to 256 joints",
        ));
    }
    if keys.rest.is_some_and(|rest| rest.len() != 16 * names) {
        return Err(malformed(0, "rest is not 16 bytes a joint"));
    }
    if keys.rate.is_some_and(|rate| rate <= 0.0) {
        return Err(malformed(0, "rate is not positive"));
    }
    *out = SkeletonUpdate {
        rate: keys.rate,
        ..SkeletonUpdate::default()
    };
    let mut reader = Reader::new(datagram);
    reader.seek(names_at);
    for _ in 0..names {
        let at = reader.at();
        let Value::Str(name) = reader.value()? else {
            return Err(malformed(at, "a name that is not a string"));
        };
        let name = std::str::from_utf8(name).map_err(|_| malformed(at, "a name that is not UTF-8"))?;
        out.names.push(name.to_owned());
    }
    reader.seek(parents_at);
    for _ in 0..parents {
        let at = reader.at();
        let parent = match reader.value()? {
            Value::Uint(parent) => i32::try_from(parent).ok(),
            Value::Int(parent) => i32::try_from(parent).ok(),
            _ => None,
        };
        out.parents
            .push(parent.ok_or(malformed(at, "a parent that is not an index"))?);
    }
    if !is_forest(&out.parents) {
        return Err(malformed(parents_at, "the skeleton's parents are no tree"));
    }
    out.offsets
        .extend((0..names).filter_map(|id| f32s_le::<3>(offsets, 12 * id)));
    match keys.rest {
        Some(rest) => out
            .rest
            .extend((0..names).filter_map(|id| f32s_le::<4>(rest, 16 * id))),
        None => out.rest.resize(names, [1.0, 0.0, 0.0, 0.0]),
    }
    if !out.offsets.iter().all(is_position) || !out.rest.iter().all(is_rotation) {
        return Err(malformed(
            0,
            "a rest transform that is not finite or has no rotation",
        ));
    }
    Ok(())
}

mod write {
    //! `rmp`'s encoders writing into memory, which cannot fail.

    use rmp::encode;

    pub(super) fn map(out: &mut Vec<u8>, entries: u32) {
        encode::write_map_len(out, entries).expect("writing into memory");
    }

    pub(super) fn str(out: &mut Vec<u8>, text: &str) {
        encode::write_str(out, text).expect("writing into memory");
    }

    pub(super) fn uint(out: &mut Vec<u8>, value: u64) {
        encode::write_uint(out, value).expect("writing into memory");
    }

    pub(super) fn sint(out: &mut Vec<u8>, value: i64) {
        encode::write_sint(out, value).expect("writing into memory");
    }

    pub(super) fn f64(out: &mut Vec<u8>, value: f64) {
        encode::write_f64(out, value).expect("writing into memory");
    }

    pub(super) fn array(out: &mut Vec<u8>, items: usize) {
        encode::write_array_len(out, items as u32).expect("writing into memory");
    }

    pub(super) fn floats<'a>(out: &mut Vec<u8>, count: usize, values: impl Iterator<Item = &'a f32>) {
        encode::write_bin_len(out, 4 * count as u32).expect("writing into memory");
        for value in values {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Begins a map with the two keys of every datagram.
fn begin(out: &mut Vec<u8>, entries: u32, kind: &str) {
    write::map(out, entries);
    write::str(out, "v");
    write::uint(out, VERSION.into());
    write::str(out, "type");
    write::str(out, kind);
}

/// Appends a frame datagram to `out`. Joint `i` of `quats` is the skeleton's joint `i`.
///
/// # Errors
/// [`WireError::Unencodable`] without a joint, with more than [`MAX_JOINTS`], or if `time` is not finite.
pub fn encode_frame(
    seq: u32,
    time: f64,
    quats: &[[f32; 4]],
    root: Option<[f32; 3]>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    if quats.is_empty() || quats.len() > MAX_JOINTS {
        return Err(WireError::Unencodable {
            reason: "a frame needs 1 to 256 joints",
        });
    }
    if !time.is_finite() {
        return Err(WireError::Unencodable {
            reason: "the time is not finite",
        });
    }
    begin(out, if root.is_some() { 6 } else { 5 }, "frame");
    write::str(out, "seq");
    write::uint(out, seq.into());
    write::str(out, "t");
    write::f64(out, time);
    write::str(out, "quats");
    write::floats(out, 4 * quats.len(), quats.iter().flatten());
    if let Some(root) = root {
        write::str(out, "root");
        write::floats(out, 3, root.iter());
    }
    Ok(())
}

/// Appends a skeleton datagram to `out`.
///
/// # Errors
/// [`WireError::Unencodable`] if the lists differ in length, are empty or longer than [`MAX_JOINTS`], or the
/// parents are no tree.
pub fn encode_skeleton(skeleton: &SkeletonUpdate, out: &mut Vec<u8>) -> Result<(), WireError> {
    let joints = skeleton.len();
    let SkeletonUpdate {
        names,
        parents,
        offsets,
        rest,
        rate,
    } = skeleton;
    if joints == 0 || joints > MAX_JOINTS || [names.len(), offsets.len(), rest.len()] != [joints; 3] {
        return Err(WireError::Unencodable {
            reason: "a skeleton needs 1 to 256 names, parents, offsets and rests",
        });
    }
    if !is_forest(parents) {
        return Err(WireError::Unencodable {
            reason: "the skeleton's parents are no tree",
        });
    }
    begin(out, if rate.is_some() { 7 } else { 6 }, "skeleton");
    if let Some(rate) = rate {
        write::str(out, "rate");
        write::f64(out, *rate);
    }
    write::str(out, "names");
    write::array(out, joints);
    for name in names {
        write::str(out, name);
    }
    write::str(out, "parents");
    write::array(out, joints);
    for parent in parents {
        write::sint(out, (*parent).into());
    }
    write::str(out, "offsets");
    write::floats(out, 3 * joints, offsets.iter().flatten());
    write::str(out, "rest");
    write::floats(out, 4 * joints, rest.iter().flatten());
    Ok(())
}
