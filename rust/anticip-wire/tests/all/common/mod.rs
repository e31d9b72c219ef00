//! Shared by the tests: real packets, if available, and reproducible damage.

pub(crate) mod osc;

use std::path::PathBuf;

use crate::invariants::Updates;
use anticip_wire::{Source, WireError};

/// A real mocopi packet; without the data folder `None`, reported on stderr.
pub(crate) fn real(name: &str) -> Option<Vec<u8>> {
    let root = std::env::var_os("PYANTICIP_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = root.join("live/mocopi").join(name);
    let bytes = std::fs::read(&path).ok();
    if bytes.is_none() {
        eprintln!("skipped: no {}", path.display());
    }
    bytes
}

/// The updates of one datagram.
pub(crate) fn decode(source: &mut dyn Source, data: &[u8]) -> Result<Updates, WireError> {
    let mut updates = Updates::default();
    updates.decode(source, data).map(|()| updates)
}

/// Whether two lists of numbers differ by less than `tolerance`.
pub(crate) fn is_close(a: &[f32], b: &[f32], tolerance: f32) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < tolerance)
}

/// A small random generator (SplitMix64) with reproducible output.
pub(crate) struct Random(pub u64);

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// `count` damaged copies of `seed`: flipped bits, replaced bytes, extreme lengths, cuts, inserted and
/// repeated pieces, one to four of these in each copy.
pub(crate) fn mutations(seed: &[u8], count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random(seed.len() as u64);
    let seed = seed.to_vec();
    (0..count).map(move |_| {
        let mut bytes = seed.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                1 if at < bytes.len() => bytes[at] = random.next() as u8,
                0 | 1 => {}
                2 => {
                    let value =
                        [0u32, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX][random.below(8)];
                    for (byte, new) in bytes.iter_mut().skip(at).zip(value.to_le_bytes()) {
                        *byte = new;
                    }
                }
                3 => bytes.truncate(at),
                4 => {
                    let piece: Vec<u8> = (0..random.below(16)).map(|_| random.next() as u8).collect();
                    bytes.splice(at..at, piece);
                }
                _ => {
                    let end = (at + random.below(64)).min(bytes.len());
                    let piece = bytes[at.min(end)..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        bytes
    })
}
