//! The framing of `.anticip` recordings.
//!
//! A file is the magic `ANTICIP\0`, `u16` major and `u16` minor version, then records: `u32` length of the
//! payload, `u32` CRC-32C of the payload, payload; all little-endian. What a payload holds (a msgpack array
//! that begins with its type and a time) is not this module's affair. A length is believed only between 1
//! and [`MAX_RECORD`].

use crate::{WireError, crc32c};

/// What every recording begins with.
pub const MAGIC: [u8; 8] = *b"ANTICIP\0";

/// Major version written; a file with a newer one is refused.
pub const MAJOR: u16 = 1;

/// Minor version written; files with a newer one are read, unknown record types skipped.
pub const MINOR: u16 = 0;

/// Bytes before the first record.
pub const HEADER: usize = 12;

/// Bytes before a record's payload.
pub const RECORD_HEADER: usize = 8;

/// The longest payload; a longer one is a corrupt length.
pub const MAX_RECORD: usize = 1 << 24;

/// The longest payload that [`find`] looks for: a datagram's has at most 64 KiB.
const FOUND: usize = 1 << 17;

/// Bytes that [`find`] checks at most, whatever claims to be a record.
const CHECKED: usize = 1 << 26;

/// What stands at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole record whose checksum holds.
    Record {
        /// Where its payload begins.
        start: usize,
        /// Where it ends, and the next record begins.
        end: usize,
    },
    /// The bytes end inside this record.
    More {
        /// How many bytes from the offset on make it whole, as far as is known.
        needed: usize,
    },
    /// A whole record whose checksum does not hold.
    Corrupt {
        /// Where it ends if its length can be believed.
        end: usize,
    },
    /// A length that no record has: [`find`] says where the next one begins.
    Lost {
        /// The length.
        length: u32,
    },
}

/// The bytes a recording begins with.
pub fn header() -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&MAJOR.to_le_bytes());
    out[10..].copy_from_slice(&MINOR.to_le_bytes());
    out
}

/// The major and minor version of the recording that begins with `bytes`.
///
/// # Errors
/// [`WireError::Alien`] if it is no recording, [`WireError::Truncated`] if it ends inside the header,
/// [`WireError::Version`] if its major version is newer than [`MAJOR`] or is 0.
pub fn check_header(bytes: &[u8]) -> Result<(u16, u16), WireError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] || bytes.is_empty() {
        return Err(WireError::Alien {
            expected: "pyanticip recording",
        });
    }
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Err(WireError::Truncated {
            what: "the header",
            at: 0,
            needed: HEADER,
            left: bytes.len(),
        });
    };
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
        return Err(WireError::Malformed {
            reason: "version 0 does not exist",
            at: 8,
        });
    }
    Ok((major, minor))
}

/// What stands at `at` in `bytes`.
pub fn next(bytes: &[u8], at: usize) -> Next {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(&[a, b, c, d, e, f, g, h]) = rest.first_chunk::<RECORD_HEADER>() else {
        return Next::More {
            needed: RECORD_HEADER,
        };
    };
    let length = u32::from_le_bytes([a, b, c, d]);
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
    // Whoever fuzzes does not guess checksums.
    if cfg!(fuzzing) || crc32c(payload) == u32::from_le_bytes([e, f, g, h]) {
        Next::Record { start, end }
    } else {
        Next::Corrupt { end }
    }
}

/// The first offset from `at` on where a whole record begins whose checksum holds: where to read on behind damage.
///
/// # Errors
/// There is none: from where to look again with more bytes. Where the file has `ended` that is the end of the bytes.
pub fn find(bytes: &[u8], at: usize, ended: bool) -> Result<usize, usize> {
    let mut checked = 0;
    for at in at..bytes.len() {
        let rest = &bytes[at..];
        let Some(begins) = rest.first_chunk::<{ RECORD_HEADER + 2 }>() else {
            return Err(if ended { bytes.len() } else { at });
        };
        let length = u32::from_le_bytes([begins[0], begins[1], begins[2], begins[3]]) as usize;
        // An array of three to fifteen that begins with a small number.
        let is_payload = matches!(begins[RECORD_HEADER], 0x93..=0x9f) && begins[RECORD_HEADER + 1] < 0x80;
        if !is_payload || length > FOUND {
            continue;
        }
        match next(bytes, at) {
            Next::Record { .. } => return Ok(at),
            Next::More { .. } if !ended => return Err(at),
            Next::Corrupt { .. } => checked += length,
            Next::More { .. } | Next::Lost { .. } => {}
        }
        if checked > CHECKED {
            break;
        }
    }
    Err(bytes.len().max(at))
}

/// Appends one record with this payload to `out`.
///
/// # Errors
/// [`WireError::Unencodable`] if the payload is empty or longer than [`MAX_RECORD`].
pub fn push(payload: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    if payload.is_empty() || payload.len() > MAX_RECORD {
        return Err(WireError::Unencodable {
            reason: "a record's payload is 1 byte to 16 MiB long",
        });
    }
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c(payload).to_le_bytes());
    out.extend_from_slice(payload);
    Ok(())
}
