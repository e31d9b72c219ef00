//! This project's own datagrams: round trips and damage.

use crate::common::decode;
use crate::invariants::Updates;
use anticip_wire::native::{NativeDecoder, VERSION, encode_frame, encode_skeleton};
use anticip_wire::{SkeletonUpdate, WireError};

const ALIEN: WireError = WireError::Alien {
    expected: "msgpack datagram",
};

fn decoded(bytes: &[u8]) -> Result<Updates, WireError> {
    decode(&mut NativeDecoder::default(), bytes)
}

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
    let (quats, root) = ([[1.0, 0.0, 0.0, 0.0]; 22], Some([0.0, 1.0, 2.0]));
    encode_frame(70_000, 12.25, &quats, root, &mut frame).unwrap();
    encode_skeleton(&skeleton(22), &mut body).unwrap();
    [frame, body]
}

#[test]
fn every_cut_is_an_error() {
    assert_eq!(decoded(&[]), Err(ALIEN));
    for seed in seeds() {
        for end in 1..seed.len() {
            let cut = decoded(&seed[..end]);
            assert!(matches!(cut, Err(WireError::Truncated { .. })), "{end}");
        }
        assert!(decoded(&seed).is_ok());
        let longer = decoded(&[&seed[..], b"\xc0"].concat());
        assert!(matches!(longer, Err(WireError::Malformed { .. })));
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
    let pose = &decoded(&bytes).unwrap().frames[0];
    let root = Some([0.0, 1.0, 2.0]);
    assert_eq!(
        (pose.seq, pose.time, pose.root),
        (Some(70_000), Some(12.25), root)
    );
}

#[test]
fn newer_versions_other_formats_and_nonsense_are_distinguished() {
    let error_of = |bytes: &[u8]| decoded(bytes).unwrap_err();
    assert_eq!(
        error_of(b"\x82\xa1v\x02\xa4type\xa5frame"),
        WireError::Version {
            what: "msgpack datagram",
            found: 2,
            known: VERSION
        }
    );
    for other in [
        &b"\x81\xa4type\xa5frame"[..],
        b"\x82\xa1v\x01\xa4type\xa5other",
        b"\x93\x01\x02\x03",
        b"/VMC/Ext/T\0\0,f\0\0\0\0\0\0",
    ] {
        assert_eq!(error_of(other), ALIEN);
    }
    for nonsense in [
        &b"\x82\xa1v\x01\xa4type\xa5frame"[..],
        b"\x81\x01\x02",
        b"\x82\xa1v\xc3\xa4type\xa5frame",
        b"\x85\xa1v\x01\xa4type\xa5frame\xa3seq\xff\xa1t\x01\xa5quats\xc4\0",
        b"\x85\xa1v\x01\xa4type\xa5frame\xa3seq\x01\xa1t\x01\xa5quats\xc4\0",
        b"\x85\xa1v\x01\xa4type\xa5frame\xa3seq\x01\xa1t\x01\xa5quats\xa0",
    ] {
        let error = error_of(nonsense);
        assert!(matches!(error, WireError::Malformed { .. }), "{error:?}");
    }
}

#[test]
fn skeletons_are_checked() {
    let mut body = skeleton(3);
    let mut bytes = Vec::new();
    body.rate = None;
    encode_skeleton(&body, &mut bytes).unwrap();
    assert_eq!(decoded(&bytes).unwrap().skeletons[0], body);
    body.parents = vec![-1, 2, 1];
    assert!(encode_skeleton(&body, &mut bytes).is_err());
    body.parents.pop();
    assert!(encode_skeleton(&body, &mut bytes).is_err());
    assert!(encode_frame(0, f64::NAN, &[[1.0; 4]], None, &mut bytes).is_err());
    assert!(encode_frame(0, 0.0, &[], None, &mut bytes).is_err());
}
