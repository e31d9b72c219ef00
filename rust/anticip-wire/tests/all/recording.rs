//! The framing of recordings: round trips, truncation and corruption.

use crate::common::mutations;
use anticip_wire::WireError;
use anticip_wire::recording::{HEADER, MAX_RECORD, Next, check_header, find, header, next, push};
use proptest::prelude::*;

fn file(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut out = header().to_vec();
    for payload in payloads {
        push(payload, &mut out).unwrap();
    }
    out
}

/// The payloads up to the first unreadable record, and the result there.
fn walk(bytes: &[u8]) -> (Vec<&[u8]>, Next) {
    let (mut at, mut found) = (HEADER, Vec::new());
    loop {
        match next(bytes, at) {
            Next::Record { start, end } => {
                assert!(at < start && start < end && end <= bytes.len());
                found.push(&bytes[start..end]);
                at = end;
            }
            Next::Corrupt { end } => {
                assert!(at < end && end <= bytes.len());
                at = end;
            }
            stop => return (found, stop),
        }
    }
}

#[test]
fn headers_are_checked() {
    let bytes = header();
    assert_eq!(check_header(&bytes), Ok((1, 0)));
    let alien = Err(WireError::Alien {
        expected: "pyanticip recording",
    });
    assert_eq!(check_header(b""), alien);
    assert_eq!(check_header(b"HIERARCHY\nROOT"), alien);
    for end in 1..HEADER {
        assert!(matches!(
            check_header(&bytes[..end]),
            Err(WireError::Truncated { .. })
        ));
    }
    let version = |major: u8, minor: u8| {
        let mut bytes = header();
        (bytes[8], bytes[10]) = (major, minor);
        check_header(&bytes)
    };
    assert_eq!(version(1, 9), Ok((1, 9)));
    assert!(matches!(version(2, 0), Err(WireError::Version { found: 2, .. })));
    assert!(matches!(version(0, 0), Err(WireError::Malformed { .. })));
}

#[test]
fn lengths_that_no_record_has_are_not_believed() {
    let lengths = [0u32, MAX_RECORD as u32 + 1, u32::MAX];
    for length in lengths {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0; 100]);
        assert_eq!(next(&bytes, 0), Next::Lost { length });
    }
    assert_eq!(next(&[], 7), Next::More { needed: 8 });
    assert!(push(&[], &mut Vec::new()).is_err());
    assert!(push(&vec![0; MAX_RECORD + 1], &mut Vec::new()).is_err());
}

#[test]
fn damage_never_panics_and_is_never_taken_for_a_record() {
    let payloads: Vec<Vec<u8>> = (0..20u8).map(|i| (0..=i).map(|j| j ^ i).collect()).collect();
    let whole = file(&payloads);
    for damaged in mutations(&whole, 5_000) {
        let _ = check_header(&damaged);
        for payload in walk(&damaged).0 {
            assert!(
                payloads.iter().any(|known| known == payload),
                "a checksum held by chance"
            );
        }
    }
}

#[test]
fn behind_damage_the_next_whole_record_is_found() {
    let notes: Vec<Vec<u8>> = (0..9u8).map(|i| vec![0x93, 4, i, 0xa1, b'x']).collect();
    let mut bytes = file(&notes);
    let size = 8 + notes[0].len();
    let third = HEADER + 2 * size;
    bytes[third..third + size + 3].fill(0);
    assert_eq!(find(&bytes, third + 1, true), Ok(HEADER + 4 * size));
    // If the next record is incomplete, more bytes are requested.
    let cut = HEADER + 4 * size + 10;
    assert_eq!(find(&bytes[..cut], third + 1, false), Err(HEADER + 4 * size));
    assert_eq!(find(&bytes[..cut], third + 1, true), Err(cut));
    // The search gives up on too many false candidates.
    let mut claims = Vec::new();
    for _ in 0..100_000 {
        claims.extend_from_slice(&[0xff, 0xff, 0, 0, 1, 2, 3, 4, 0x93, 4]);
    }
    assert_eq!(find(&claims, 0, true), Err(claims.len()));
}

fn payloads(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), count)
}

proptest! {
    #[test]
    fn every_cut_keeps_every_whole_record(payloads in payloads(0..8)) {
        let whole = file(&payloads);
        for end in HEADER..=whole.len() {
            let (found, stop) = walk(&whole[..end]);
            let mut at = HEADER;
            let kept = payloads.iter().take_while(|payload| { at += 8 + payload.len(); at <= end }).count();
            prop_assert_eq!(&found, &payloads[..kept].iter().map(Vec::as_slice).collect::<Vec<_>>());
            let is_more = matches!(stop, Next::More { .. });
            prop_assert!(is_more);
        }
    }

    #[test]
    fn a_flipped_bit_in_a_payload_costs_that_record_only(
        payloads in payloads(1..8), which in any::<prop::sample::Index>(), bit in any::<prop::sample::Index>(),
    ) {
        let mut whole = file(&payloads);
        let hit = which.index(payloads.len());
        let start: usize = HEADER + payloads[..hit].iter().map(|payload| 8 + payload.len()).sum::<usize>() + 8;
        let bit = bit.index(8 * payloads[hit].len());
        whole[start + bit / 8] ^= 1 << (bit % 8);
        let (found, _) = walk(&whole);
        let mut left: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        left.remove(hit);
        prop_assert_eq!(found, left);
    }
}
