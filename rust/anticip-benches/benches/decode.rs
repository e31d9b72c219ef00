//! Cost of decoding a datagram, on one core with warm caches; `rosc` for comparison with the borrowed OSC parser.

use std::hint::black_box;

use anticip_wire::mocopi::{self, MocopiDecoder};
use anticip_wire::native::{self, NativeDecoder};
use anticip_wire::vmc::{self, VmcAssembler};
use anticip_wire::{Joint, PoseUpdate, Source};
use criterion::{Criterion, criterion_group, criterion_main};

fn pose(joints: u16) -> PoseUpdate {
    PoseUpdate {
        seq: Some(1),
        time: Some(1.0),
        root: Some([0.0, 0.1, 0.2]),
        joints: (0..joints)
            .map(|id| Joint::new(id, [0.8, 0.6, 0.0, 0.0], [0.0, 0.1, 0.2]))
            .collect(),
        unusable: 0,
    }
}

fn bench_decode(c: &mut Criterion, name: &str, source: &mut dyn Source, datagram: &[u8]) {
    c.bench_function(name, |b| {
        b.iter(|| {
            source.decode(black_box(datagram), &mut |update| {
                black_box(update);
            })
        })
    });
}

fn benches(c: &mut Criterion) {
    let [mut mocopi, mut bundle, mut own] = [const { Vec::new() }; 3];
    mocopi::encode_frame(&pose(27), 0, Some(1.7e9), &mut mocopi).expect("27 joints");
    vmc::encode_frame(&pose(55), &mut bundle).expect("55 joints");
    let quats = [[0.8f32, 0.6, 0.0, 0.0]; 22];
    native::encode_frame(1, 1.0, &quats, Some([0.0; 3]), &mut own).expect("22 joints");
    bench_decode(
        c,
        "mocopi frame, 27 bones",
        &mut MocopiDecoder::default(),
        &mocopi,
    );
    bench_decode(c, "VMC bundle, 55 bones", &mut VmcAssembler::default(), &bundle);
    c.bench_function("VMC bundle, 55 bones, rosc alone", |b| {
        b.iter(|| rosc::decoder::decode_udp(black_box(&bundle)).is_ok());
    });
    bench_decode(c, "msgpack frame, 22 joints", &mut NativeDecoder::default(), &own);

    let whole = pose(27);
    let mut out = Vec::new();
    c.bench_function("encode a mocopi frame", |b| {
        b.iter(|| {
            out.clear();
            mocopi::encode_frame(black_box(&whole), 0, Some(1.7e9), &mut out)
        });
    });
}

criterion_group!(decoding, benches);
criterion_main!(decoding);
