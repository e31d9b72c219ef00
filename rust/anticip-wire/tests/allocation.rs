//! After the first datagram, decoding does not allocate, except for JSON and NatNet.

mod counting;

use anticip_wire::mocopi::{self, MocopiPacket};
use anticip_wire::native::{self, NativePacket};
use anticip_wire::vmc::{self, VmcAssembler};
use anticip_wire::{Joint, PROTOCOLS, PoseUpdate, Tracker, axis, vrchat, xsens};

fn count(mut work: impl FnMut()) -> u64 {
    work();
    counting::allocations(|| (0..100).for_each(|_| work()))
}

#[test]
fn hot_paths_do_not_allocate() {
    let joints = |count| {
        let joints = (0..count)
            .map(|id| Joint {
                id,
                rotation: [1.0, 0.0, 0.0, 0.0],
                position: [0.0, 0.1, 0.0],
                fresh: true,
            })
            .collect();
        PoseUpdate {
            seq: Some(1),
            time: Some(2.0),
            joints,
            ..PoseUpdate::default()
        }
    };
    let mut bytes = Vec::new();
    mocopi::encode_frame(&joints(27), 0, None, &mut bytes).unwrap();
    let mut packet = MocopiPacket::default();
    assert_eq!(count(|| assert!(mocopi::decode(&bytes, &mut packet).is_ok())), 0);
    assert_eq!(
        count(|| assert!(mocopi::decode(&bytes[..900], &mut packet).is_err())),
        0
    );

    let mut bundle = Vec::new();
    vmc::encode_frame(&joints(55), &mut bundle).unwrap();
    let mut assembler = VmcAssembler::new();
    assert_eq!(
        count(|| assert_eq!(assembler.feed(&bundle).map(<[PoseUpdate]>::len), Ok(1))),
        0
    );
    assert_eq!(count(|| assert!(assembler.feed(&bundle[..900]).is_err())), 0);

    let mut own = Vec::new();
    native::encode_frame(1, 2.0, &[[1.0, 0.0, 0.0, 0.0]; 22], None, &mut own).unwrap();
    let mut packet = NativePacket::default();
    assert_eq!(count(|| assert!(native::decode(&own, &mut packet).is_ok())), 0);
    assert_eq!(
        count(|| assert!(native::decode(&own[..90], &mut packet).is_err())),
        0
    );

    let [mut sample, mut broadcast, mut trackers] = [const { Vec::new() }; 3];
    xsens::encode_frame(&joints(23), &mut sample).unwrap();
    axis::encode_frame(&joints(59), &mut broadcast).unwrap();
    let tracker = Tracker {
        rotation: Some([1.0, 0.0, 0.0, 0.0]),
        ..Tracker::default()
    };
    vrchat::encode_frame(&vec![tracker; 9], &mut trackers).unwrap();
    // The offset of the last byte of the sample counter, as repeated samples are ignored.
    for (name, mut bytes, counter) in [
        ("xsens", sample, Some(9)),
        ("axis", broadcast, None),
        ("vrchat", trackers, None),
    ] {
        let known = PROTOCOLS.iter().find(|known| known.name == name);
        let (mut source, mut frames) = ((known.unwrap().open)(), 0);
        let allocated = count(|| {
            if let Some(at) = counter {
                bytes[at] += 1;
            }
            source.decode(&bytes, &mut |_| frames += 1).unwrap();
        });
        assert_eq!(allocated, 0, "{name}");
        assert!(frames >= 100, "{name}");
    }
}
