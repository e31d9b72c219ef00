//! Cost of a frame with an hour of memory, learning and frozen, and with none: `cargo bench -p anticip-benches --bench
//! memory`.

use std::hint::black_box;

use anticip_memory::{MOMENTS_PER_HOUR, Memory, ModelRows, Rotations};
use criterion::{Criterion, criterion_group, criterion_main};

/// A pose whose joints swing, each at its own pace, so that no moment repeats.
fn pose(frame: usize) -> Rotations {
    let t = frame as f64 / 50.0;
    std::array::from_fn(|joint| {
        let pace = 0.7 + 0.37 * joint as f64 / 3.0;
        let angle = 0.5 * (pace * t).sin() + 0.3 * (0.31 * pace * t + joint as f64).sin();
        let (sin, cos) = (angle / 2.0).sin_cos();
        [cos, 0.6 * sin, 0.0, 0.8 * sin]
    })
}

/// A rehearsed hour of these poses.
fn rehearsed_hour() -> Memory {
    let take: Vec<Rotations> = (0..2 * MOMENTS_PER_HOUR + 44).map(pose).collect();
    let mut memory = Memory::new(MOMENTS_PER_HOUR).expect("an hour is a capacity");
    memory.rehearse("hour", &take).expect("there is room");
    memory
}

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    let model: ModelRows = [[0.5; 5]; 8];
    let mut run = |name: &str, memory: &mut Memory| {
        let mut frame = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                frame += 1;
                black_box(memory.push(&pose(3 * frame), Some(&model), None))
            });
        });
    };
    let mut empty = Memory::new(1).expect("one is a capacity");
    empty.set_learning(false);
    run("no memory", &mut empty);
    let mut frozen = rehearsed_hour();
    frozen.set_learning(false);
    run("an hour, frozen", &mut frozen);
    // Learned while playing, and full: every new moment replaces an old one.
    let mut growing = Memory::new(MOMENTS_PER_HOUR).expect("an hour is a capacity");
    let mut frame = 0;
    while growing.store().len() < MOMENTS_PER_HOUR {
        growing.push(&pose(frame), None, None);
        frame += 1;
    }
    run("an hour, growing", &mut growing);
    group.finish();
}

criterion_group!(benches, frames);
criterion_main!(benches);
