//! Forward and backward at the sizes of the comparison with the plain loop: B 32, L 256, P 256.

use std::hint::black_box;

use anticip_prism::{Dims, Gradients, Scan};
use criterion::{Criterion, criterion_group, criterion_main};

fn scan(c: &mut Criterion) {
    let dims = Dims {
        batch: 32,
        cursors: 8,
        steps: 256,
        places: 256,
        jumping: 0,
    };
    let cursors = dims.batch * dims.cursors;
    let moves = [0.5_f32, 0.15, 0.25, 0.06, 0.04].repeat(cursors * dims.steps);
    let mut start = vec![0.0_f32; cursors * dims.places];
    start.iter_mut().step_by(dims.places).for_each(|h| *h = 1.0);
    let gamma = vec![2.0_f32; dims.cursors];
    let scan = Scan {
        dims,
        moves: &moves,
        start: &start,
        gamma: Some(&gamma),
        jumps: None,
    };
    let mut out = vec![0.0_f32; cursors * dims.steps * dims.places];
    let grad: Vec<f32> = (0..out.len()).map(|i| (i as f32).sin()).collect();
    let (mut d_moves, mut d_start, mut d_gamma) = (moves.clone(), start.clone(), gamma.clone());
    c.bench_function("forward", |b| b.iter(|| scan.forward(black_box(&mut out))));
    c.bench_function("backward", |b| {
        b.iter(|| {
            let into = Gradients {
                moves: &mut d_moves,
                start: &mut d_start,
                gamma: Some(&mut d_gamma),
                jumps: None,
            };
            scan.backward(black_box(&out), &grad, into)
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = scan
}
criterion_main!(benches);
