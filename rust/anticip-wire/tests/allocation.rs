//! After the first datagram, decoding does not allocate, except for JSON and NatNet.

mod counting;

use anticip_wire::{Joint, PROTOCOLS, PoseUpdate, Tracker, axis, mocopi, native, vmc, vrchat, xsens};

fn joints(count: u16) -> PoseUpdate {
    PoseUpdate {
        seq: Some(1),
        time: Some(2.0),
        joints: (0..count)
            .map(|id| Joint::new(id, [1.0, 0.0, 0.0, 0.0], [0.0, 0.1, 0.0]))
            .collect(),
        ..PoseUpdate::default()
    }
}

#[test]
fn hot_paths_do_not_allocate() {
    let mut datagrams = [const { Vec::new() }; 6];
    let [body, bundle, own, sample, broadcast, trackers] = &mut datagrams;
    mocopi::encode_frame(&joints(27), 0, None, body).unwrap();
    vmc::encode_frame(&joints(55), bundle).unwrap();
    native::encode_frame(1, 2.0, &[[1.0, 0.0, 0.0, 0.0]; 22], None, own).unwrap();
    xsens::encode_frame(&joints(23), sample).unwrap();
    axis::encode_frame(&joints(59), broadcast).unwrap();
    let tracker = Tracker {
        rotation: Some([1.0, 0.0, 0.0, 0.0]),
        ..Tracker::default()
    };
    vrchat::encode_frame(&vec![tracker; 9], trackers).unwrap();
    let names = ["mocopi", "vmc", "msgpack", "xsens", "axis", "vrchat"];
    for (name, mut bytes) in names.into_iter().zip(datagrams) {
        let protocol = PROTOCOLS.iter().find(|protocol| protocol.name == name);
        let (mut source, mut frames) = ((protocol.unwrap().open)(), 0);
        let mut decode = || {
            if name == "xsens" {
                // The last byte of the sample counter, as repeated samples are ignored.
                bytes[9] += 1;
            }
            source.decode(&bytes, &mut |_| frames += 1).unwrap();
            let cut = source.decode(&bytes[..bytes.len() / 2], &mut |_| ());
            assert!(cut.is_err() || name == "axis", "{name}");
        };
        decode();
        let allocated = counting::allocations(|| (0..100).for_each(|_| decode()));
        assert_eq!(allocated, 0, "{name}");
        assert!(frames >= 100, "{name}");
    }
}
