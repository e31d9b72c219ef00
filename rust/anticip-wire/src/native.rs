//! This project's own datagrams: msgpack maps, one per datagram.
//!
//! A frame: `{"v": 1, "type": "frame", "seq": uint32, "t": float64 seconds, "quats": bin, "root": bin}`. `quats` holds
//! the parent-local `w, x, y, z` of every joint in the skeleton's order as little-endian binary32 (16 bytes a joint),
//! `root` the root joint's `x, y, z` in metres (12 bytes). `root` is optional.
//!
//! A skeleton, to be sent at the start and every few seconds: `{"v": 1, "type": "skeleton", "rate": float64 Hz,
//! "names": [str], "parents": [int, -1 for a root], "offsets": bin (12 bytes a joint), "rest": bin (16 bytes
//! a joint)}`. `rate` and `rest` are optional (default rest rotations: the identity).
//!
//! Keys may come in any order; unknown keys are skipped. A `v` above 1 is refused.

use rmp::encode;

use crate::WireError;
use crate::bytes::{f32s_le, put_f32s_le};
use crate::msgpack::{Reader, Value};
use crate::pose::{MAX_JOINTS, PoseUpdate, SkeletonUpdate, is_forest, is_position, is_rotation};
use crate::source::{Source, Update};

/// The format's version.
pub const VERSION: u32 = 1;

const EXPECTED: &str = "msgpack datagram";

/// Decoder of this format; it reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct NativeDecoder {
    pose: PoseUpdate,
    skeleton: SkeletonUpdate,
}

/// Whether this is such a datagram, of this or a newer version.
pub fn recognises(datagram: &[u8]) -> bool {
    match read_keys(datagram) {
        Ok(keys) => matches!(keys.kind, Some(b"frame" | b"skeleton")),
        Err(error) => matches!(error, WireError::Version { .. }),
    }
}

impl Source for NativeDecoder {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let mut keys = read_keys(datagram)?;
        if let Some(error) = keys.type_error.take() {
            return Err(error);
        }
        match keys.kind {
            Some(b"frame") => {
                decode_frame(&keys, &mut self.pose)?;
                on_update(Update::Frame(&self.pose));
            }
            Some(b"skeleton") => {
                decode_skeleton(datagram, &keys, &mut self.skeleton)?;
                on_update(Update::Skeleton(&self.skeleton));
            }
            _ => return Err(WireError::alien(EXPECTED)),
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
    /// Error of the first value of a wrong type; the other keys still show whose datagram it is.
    type_error: Option<WireError>,
}

fn bin<'a>(value: Value<'a>, at: usize, reason: &'static str) -> Result<Option<&'a [u8]>, WireError> {
    match value {
        Value::Bin(bytes) => Ok(Some(bytes)),
        _ => Err(WireError::malformed(at, reason)),
    }
}

fn number(value: Value<'_>, at: usize, reason: &'static str) -> Result<Option<f64>, WireError> {
    match value {
        Value::Float(v) if v.is_finite() => Ok(Some(v)),
        Value::Uint(v) => Ok(Some(v as f64)),
        Value::Int(v) => Ok(Some(v as f64)),
        _ => Err(WireError::malformed(at, reason)),
    }
}

fn uint(value: Value<'_>, at: usize, reason: &'static str) -> Result<Option<u64>, WireError> {
    match value {
        Value::Uint(v) if v <= u32::MAX.into() => Ok(Some(v)),
        _ => Err(WireError::malformed(at, reason)),
    }
}

impl<'a> Keys<'a> {
    /// Stores one value; `at` is its offset, `items` that of the first item of an array.
    fn set(&mut self, key: &[u8], value: Value<'a>, at: usize, items: usize) -> Result<(), WireError> {
        match key {
            b"v" => self.version = uint(value, at, "v is not an unsigned integer")?,
            b"type" => match value {
                Value::Str(text) => self.kind = Some(text),
                _ => return Err(WireError::malformed(at, "type is not a string")),
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
                    return Err(WireError::malformed(at, "not an array"));
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
    let alien = WireError::alien(EXPECTED);
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
            return Err(WireError::malformed(at, "a key that is not a string"));
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
        return Err(WireError::malformed(
            reader.at(),
            "bytes after the end of the map",
        ));
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

fn decode_frame(keys: &Keys<'_>, pose: &mut PoseUpdate) -> Result<(), WireError> {
    pose.clear();
    let (Some(seq), Some(time), Some(quats)) = (keys.seq, keys.time, keys.quats) else {
        return Err(WireError::malformed(0, "a frame needs seq, t and quats"));
    };
    let (quats, tail) = quats.as_chunks::<16>();
    if quats.is_empty() || quats.len() > MAX_JOINTS || !tail.is_empty() {
        return Err(WireError::malformed(
            0,
            "quats is not 16 bytes a joint for 1 to 256 joints",
        ));
    }
    pose.seq = Some(seq as u32);
    pose.time = Some(time);
    if keys.root.is_some_and(|root| root.len() != 12) {
        return Err(WireError::malformed(0, "root is not 12 bytes"));
    }
    // An invalid root is not counted as unusable: it is not one of the joints.
    let root = keys
        .root
        .and_then(|root| f32s_le::<3>(root, 0))
        .filter(is_position);
    for (id, raw) in quats.iter().enumerate() {
        let position = root.filter(|_| id == 0).unwrap_or_default();
        pose.push(id as u16, f32s_le::<4>(raw, 0).unwrap_or_default(), position);
    }
    pose.root = root;
    Ok(())
}

fn decode_skeleton(datagram: &[u8], keys: &Keys<'_>, out: &mut SkeletonUpdate) -> Result<(), WireError> {
    let (Some((names_at, names)), Some((parents_at, parents)), Some(offsets)) =
        (keys.names, keys.parents, keys.offsets)
    else {
        return Err(WireError::malformed(
            0,
            "a skeleton needs names, parents and offsets",
        ));
    };
    if names == 0 || names > MAX_JOINTS || parents != names || offsets.len() != 12 * names {
        return Err(WireError::malformed(
            0,
            "names, parents and offsets do not describe the same 1 to 256 joints",
        ));
    }
    if keys.rest.is_some_and(|rest| rest.len() != 16 * names) {
        return Err(WireError::malformed(0, "rest is not 16 bytes a joint"));
    }
    if keys.rate.is_some_and(|rate| rate <= 0.0) {
        return Err(WireError::malformed(0, "rate is not positive"));
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
            return Err(WireError::malformed(at, "a name that is not a string"));
        };
        let name =
            std::str::from_utf8(name).map_err(|_| WireError::malformed(at, "a name that is not UTF-8"))?;
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
            .push(parent.ok_or(WireError::malformed(at, "a parent that is not an index"))?);
    }
    if !is_forest(&out.parents) {
        return Err(WireError::malformed(
            parents_at,
            "the skeleton's parents are no tree",
        ));
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
        return Err(WireError::malformed(
            0,
            "a rest transform that is not finite or has no rotation",
        ));
    }
    Ok(())
}

const IN_MEMORY: &str = "writing into memory cannot fail";

fn put_str(out: &mut Vec<u8>, text: &str) {
    encode::write_str(out, text).expect(IN_MEMORY);
}

fn put_number(out: &mut Vec<u8>, key: &str, value: f64) {
    put_str(out, key);
    encode::write_f64(out, value).expect(IN_MEMORY);
}

fn put_array(out: &mut Vec<u8>, key: &str, items: usize) {
    put_str(out, key);
    encode::write_array_len(out, items as u32).expect(IN_MEMORY);
}

fn put_floats(out: &mut Vec<u8>, key: &str, values: &[f32]) {
    put_str(out, key);
    encode::write_bin_len(out, 4 * values.len() as u32).expect(IN_MEMORY);
    put_f32s_le(out, values);
}

/// Begins a map with the two keys of every datagram.
fn begin(out: &mut Vec<u8>, entries: u32, kind: &str) {
    encode::write_map_len(out, entries).expect(IN_MEMORY);
    put_str(out, "v");
    encode::write_uint(out, VERSION.into()).expect(IN_MEMORY);
    put_str(out, "type");
    put_str(out, kind);
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
        return Err(WireError::unencodable("a frame needs 1 to 256 joints"));
    }
    if !time.is_finite() {
        return Err(WireError::unencodable("the time is not finite"));
    }
    begin(out, if root.is_some() { 6 } else { 5 }, "frame");
    put_str(out, "seq");
    encode::write_uint(out, seq.into()).expect(IN_MEMORY);
    put_number(out, "t", time);
    put_floats(out, "quats", quats.as_flattened());
    if let Some(root) = root {
        put_floats(out, "root", &root);
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
        return Err(WireError::unencodable(
            "a skeleton needs 1 to 256 names, parents, offsets and rests",
        ));
    }
    if !is_forest(parents) {
        return Err(WireError::unencodable("the skeleton's parents are no tree"));
    }
    begin(out, if rate.is_some() { 7 } else { 6 }, "skeleton");
    if let Some(rate) = rate {
        put_number(out, "rate", *rate);
    }
    put_array(out, "names", joints);
    names.iter().for_each(|name| put_str(out, name));
    put_array(out, "parents", joints);
    for parent in parents {
        encode::write_sint(out, (*parent).into()).expect(IN_MEMORY);
    }
    put_floats(out, "offsets", offsets.as_flattened());
    put_floats(out, "rest", rest.as_flattened());
    Ok(())
}
