//! This project's own datagrams: round trips and damage.

use anticip_wire::native::{NativeKind, NativePacket, VERSION, decode, encode_frame, encode_skeleton};
use anticip_wire::{SkeletonUpdate, WireError};

fn skeleton(joints: usize) -> SkeletonUpdate {
    SkeletonUpdate {
        names: (0..joints).map(|i| format!("joint {i} \u{e9}")).collect(),
        parents: (0..joints).map(|i| i as i32 / 2 - i32::from(i == 0)).collect(),
        offsets: (0..joints).map(|i| [i as f32, -1.0, 0.5]).collect(),
        rest: vec![[0.8, 0.0, 0.6, 0.0]; joints],
        rate: Some(60.0),
    }
}

fn seeds() -> [Vec<u8>; 2] {
    let (mut frame, mut body) = (Vec::new(), Vec::new());
    encode_frame(
        70_000,
        12.25,
        &[[1.0, 0.0, 0.0, 0.0]; 22],
        Some([0.0, 1.0, 2.0]),
        &mut frame,
    )
    .unwrap();
    encode_skeleton(&skeleton(22), &mut body).unwrap();
    [frame, body]
}

#[test]
fn every_cut_is_an_error() {
    let mut packet = NativePacket::default();
    for seed in seeds() {
        assert_eq!(
            decode(&[], &mut packet),
            Err(WireError::Alien {
                expected: "msgpack datagram"
            })
        );
        for end in 1..seed.len() {
            assert!(
                matches!(
                    decode(&seed[..end], &mut packet),
                    Err(WireError::Truncated { .. })
                ),
                "{end}"
            );
        }
        assert!(decode(&seed, &mut packet).is_ok());
        let longer = [&seed[..], b"\xc0"].concat();
        assert!(matches!(
            decode(&longer, &mut packet),
            Err(WireError::Malformed { .. })
        ));
    }
}

#[test]
fn unknown_keys_are_skipped() {
    // {"later": [1, {"x": 2.5}], ...frame}
    let [frame, _] = seeds();
    assert_eq!(frame[0], 0x86);
    let mut bytes = vec![0x87];
    bytes.extend_from_slice(b"\xa5later\x92\x01\x81\xa1x\xcb\x40\x04\0\0\0\0\0\0");
    bytes.extend_from_slice(&frame[1..]);
    let mut packet = NativePacket::default();
    assert_eq!(decode(&bytes, &mut packet), Ok(NativeKind::Frame));
    assert_eq!(
        (packet.pose.seq, packet.pose.time, packet.pose.root),
        (Some(70_000), Some(12.25), Some([0.0, 1.0, 2.0]))
    );
}

#[test]
fn newer_versions_other_formats_and_nonsense_are_distinguished() {
    let mut packet = NativePacket::default();
    let mut error_of = |bytes: &[u8]| decode(bytes, &mut packet).unwrap_err();
    assert_eq!(
        error_of(b"\x82\xa1v\x02\xa4type\xa5frame"),
        WireError::Version {
            what: "msgpack datagram",
            found: 2,
            known: VERSION
        }
    );
    let alien = WireError::Alien {
        expected: "msgpack datagram",
    };
    assert_eq!(error_of(b"\x81\xa4type\xa5frame"), alien);
    assert_eq!(error_of(b"\x82\xa1v\x01\xa4type\xa5other"), alien);
    assert_eq!(error_of(b"\x93\x01\x02\x03"), alien);
    assert_eq!(error_of(b"/VMC/Ext/T\0\0,f\0\0\0\0\0\0"), alien);
    for nonsense in [
        &b"\x82\xa1v\x01\xa4type\xa5frame"[..],
        b"\x81\x01\x02",
        b"\x82\xa1v\xc3\xa4type\xa5frame",
        b"\x85\xa1v\x01\xa4type\xa5frame\xa3seq\xff\xa1t\x01\xa5quats\xc4\0",
        b"\x85\xa1v\x01\xa4type\xa5frame\xa3seq\x01\xa1t\x01\xa5quats\xc4\0",
        b"\x85\xa1v\x01\xa4type\xa5frame\xa3seq\x01\xa1t\x01\xa5quats\xa0",
    ] {
        assert!(
            matches!(error_of(nonsense), WireError::Malformed { .. }),
            "{:?}",
            error_of(nonsense)
        );
    }
}

#[test]
fn skeletons_are_checked() {
    let mut packet = NativePacket::default();
    let mut body = skeleton(3);
    let mut bytes = Vec::new();
    body.rate = None;
    encode_skeleton(&body, &mut bytes).unwrap();
    assert_eq!(decode(&bytes, &mut packet), Ok(NativeKind::Skeleton));
    assert_eq!(packet.skeleton, body);
    body.parents = vec![-1, 2, 1];
    assert!(encode_skeleton(&body, &mut bytes).is_err());
    body.parents.pop();
    assert!(encode_skeleton(&body, &mut bytes).is_err());
    assert!(encode_frame(0, f64::NAN, &[[1.0; 4]], None, &mut bytes).is_err());
    assert!(encode_frame(0, 0.0, &[], None, &mut bytes).is_err());
}
