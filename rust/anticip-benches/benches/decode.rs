//! Cost of decoding a datagram, on one core with warm caches; `rosc` for comparison with the borrowed OSC parser.

use std::hint::black_box;

use anticip_wire::mocopi::{MocopiPacket, decode, encode_frame};
use anticip_wire::native::{self, NativePacket};
use anticip_wire::vmc::{self, VmcAssembler};
use anticip_wire::{Joint, PoseUpdate};
use criterion::{Criterion, criterion_group, criterion_main};

fn pose(joints: u16) -> PoseUpdate {
    let joints = (0..joints)
        .map(|id| Joint {
            id,
            rotation: [0.8, 0.6, 0.0, 0.0],
            position: [0.0, 0.1, 0.2],
            fresh: true,
        })
        .collect();
    PoseUpdate {
        seq: Some(1),
        time: Some(1.0),
        root: Some([0.0, 0.1, 0.2]),
        joints,
        unusable: 0,
    }
}

fn benches(c: &mut Criterion) {
    let mut mocopi = Vec::new();
    encode_frame(&pose(27), 0, Some(1.7e9), &mut mocopi).expect("27 joints");
    let mut packet = MocopiPacket::default();
    c.bench_function("mocopi frame, 27 bones", |b| {
        b.iter(|| decode(black_box(&mocopi), &mut packet))
    });

    let mut bundle = Vec::new();
    vmc::encode_frame(&pose(55), &mut bundle).expect("55 joints");
    let mut assembler = VmcAssembler::new();
    c.bench_function("VMC bundle, 55 bones", |b| {
        b.iter(|| assembler.feed(black_box(&bundle)).map(<[PoseUpdate]>::len));
    });
    c.bench_function("VMC bundle, 55 bones, rosc alone", |b| {
        b.iter(|| rosc::decoder::decode_udp(black_box(&bundle)).is_ok());
    });

    let quats = [[0.8f32, 0.6, 0.0, 0.0]; 22];
    let mut datagram = Vec::new();
    native::encode_frame(1, 1.0, &quats, Some([0.0; 3]), &mut datagram).expect("22 joints");
    let mut own = NativePacket::default();
    c.bench_function("msgpack frame, 22 joints", |b| {
        b.iter(|| native::decode(black_box(&datagram), &mut own))
    });

    let whole = pose(27);
    let mut out = Vec::new();
    c.bench_function("encode a mocopi frame", |b| {
        b.iter(|| {
            out.clear();
            encode_frame(black_box(&whole), 0, Some(1.7e9), &mut out)
        });
    });
}

criterion_group!(decoding, benches);
criterion_main!(decoding);
