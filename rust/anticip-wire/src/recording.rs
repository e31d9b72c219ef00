//! The framing of `.anticip` recordings.
//!
//! A file is the magic `ANTICIP\0`, `u16` major and `u16` minor version, then records: `u32` payload length, `u32`
//! CRC-32C of the payload, payload; all little-endian. Lengths are valid from 1 to [`MAX_RECORD`]. The payload is a
//! msgpack array that begins with the record's type and a time; this module does not decode it.

use crate::bytes::slice;
use crate::{WireError, crc32c};

/// First bytes of every recording.
pub const MAGIC: [u8; 8] = *b"ANTICIP\0";

/// Major version written; files with a newer one are refused.
pub const MAJOR: u16 = 1;

/// Minor version written; files with a newer one are read, without their unknown record types.
pub const MINOR: u16 = 0;

/// Bytes of the file header.
pub const HEADER: usize = 12;

/// Bytes of a record before its payload.
pub const RECORD_HEADER: usize = 8;

/// Maximum payload length in bytes; a greater length is corrupt.
pub const MAX_RECORD: usize = 1 << 24;

/// Maximum payload length that [`find`] considers; a datagram has at most 64 KiB.
const MAX_FOUND_RECORD: usize = 1 << 17;

/// Bytes of false candidates whose checksums [`find`] computes before it gives up.
const MAX_CHECKED: usize = 1 << 26;

/// The result of reading at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A complete record with a valid checksum.
    Record {
        /// Offset of the payload.
        start: usize,
        /// Offset of the next record.
        end: usize,
    },
    /// The bytes end within this record.
    More {
        /// Bytes needed from the offset on, as far as known: the header, or the whole record.
        needed: usize,
    },
    /// A complete record with a wrong checksum.
    Corrupt {
        /// Offset of the next record, if the length is right.
        end: usize,
    },
    /// An invalid length; [`find`] looks for the next record.
    Lost {
        /// The length that was read.
        length: u32,
    },
}

/// The file header of a new recording.
pub fn header() -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&MAJOR.to_le_bytes());
    out[10..].copy_from_slice(&MINOR.to_le_bytes());
    out
}

/// Checks the file header and returns its major and minor version.
///
/// # Errors
/// [`WireError::Alien`] if it is not a recording, [`WireError::Truncated`] if it ends within the header,
/// [`WireError::Version`] if the major version is newer than [`MAJOR`], [`WireError::Malformed`] if it is 0.
pub fn check_header(bytes: &[u8]) -> Result<(u16, u16), WireError> {
    let length = bytes.len().min(MAGIC.len());
    if bytes[..length] != MAGIC[..length] || bytes.is_empty() {
        return Err(WireError::alien("pyanticip recording"));
    }
    let header = slice(bytes, 0, HEADER, "the header")?;
    let major = u16::from_le_bytes([header[8], header[9]]);
    let minor = u16::from_le_bytes([header[10], header[11]]);
    if major > MAJOR {
        return Err(WireError::Version {
            what: "recording",
            found: major.into(),
            known: MAJOR.into(),
        });
    }
    if major == 0 {
        return Err(WireError::malformed(8, "version 0 does not exist"));
    }
    Ok((major, minor))
}

/// Reads the record at offset `at`.
pub fn next(bytes: &[u8], at: usize) -> Next {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(&[l0, l1, l2, l3, c0, c1, c2, c3]) = rest.first_chunk::<RECORD_HEADER>() else {
        return Next::More {
            needed: RECORD_HEADER,
        };
    };
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    let size = length as usize;
    if size == 0 || size > MAX_RECORD {
        return Next::Lost { length };
    }
    let Some(payload) = rest.get(RECORD_HEADER..RECORD_HEADER + size) else {
        return Next::More {
            needed: RECORD_HEADER + size,
        };
    };
    let (start, end) = (at + RECORD_HEADER, at + RECORD_HEADER + size);
    // A fuzzer cannot guess checksums.
    if cfg!(fuzzing) || crc32c(payload) == u32::from_le_bytes([c0, c1, c2, c3]) {
        Next::Record { start, end }
    } else {
        Next::Corrupt { end }
    }
}

/// Finds the first offset from `at` on with a complete record and a valid checksum, to resume reading after damage.
/// `ended` says that `bytes` is all that the file has.
///
/// # Errors
/// None was found: the offset from which to search again with more bytes, or the end of `bytes` if the file has
/// `ended`.
pub fn find(bytes: &[u8], at: usize, ended: bool) -> Result<usize, usize> {
    let mut checked = 0;
    for at in at..bytes.len() {
        let rest = &bytes[at..];
        let Some(start) = rest.first_chunk::<{ RECORD_HEADER + 2 }>() else {
            return Err(if ended { bytes.len() } else { at });
        };
        let length = u32::from_le_bytes([start[0], start[1], start[2], start[3]]) as usize;
        // A msgpack array of 3 to 15 items, the first a small integer.
        let is_payload = matches!(start[RECORD_HEADER], 0x93..=0x9f) && start[RECORD_HEADER + 1] < 0x80;
        if !is_payload || length > MAX_FOUND_RECORD {
            continue;
        }
        match next(bytes, at) {
            Next::Record { .. } => return Ok(at),
            Next::More { .. } if !ended => return Err(at),
            Next::Corrupt { .. } => checked += length,
            Next::More { .. } | Next::Lost { .. } => {}
        }
        if checked > MAX_CHECKED {
            break;
        }
    }
    Err(bytes.len().max(at))
}

/// Appends a record with this payload to `out`.
///
/// # Errors
/// [`WireError::Unencodable`] if the payload is empty or longer than [`MAX_RECORD`].
pub fn push(payload: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    if payload.is_empty() || payload.len() > MAX_RECORD {
        return Err(WireError::unencodable(
            "a record's payload is 1 byte to 16 MiB long",
        ));
    }
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c(payload).to_le_bytes());
    out.extend_from_slice(payload);
    Ok(())
}
