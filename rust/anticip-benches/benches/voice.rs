//! Time to render one second of stereo at 48 kHz, in blocks of 480, with everything sounding.
#![allow(missing_docs)]

use anticip_synth::Voice;
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn one_second(c: &mut Criterion) {
    let mut group = c.benchmark_group("voice");
    for (name, params) in [
        ("busy", [0.6, 0.9, 0.7, 0.6, 1.0, 0.8, 0.4, 0.7]),
        ("quiet", [0.4, 0.5, 0.4, 0.1, 0.0, 0.3, 0.5, 0.0]),
    ] {
        let mut voice = Voice::new(48_000.0).unwrap();
        voice.params(&params);
        let mut block = vec![0.0; 960];
        group.bench_function(format!("one_second_{name}"), |b| {
            b.iter(|| {
                for n in 0..100 {
                    if n % 25 == 0 {
                        voice.event(0, 1.0, 0.0).unwrap();
                    }
                    voice.render(&mut block).unwrap();
                }
                black_box(block[0])
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = one_second
}
criterion_main!(benches);
