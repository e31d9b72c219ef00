//! Forward and backward at the sizes of the comparison with the plain loop: B 32, L 256, P 256.

use std::hint::black_box;

use anticip_kernels::{Dims, GATES, Gradients, Gru, GruGradients, PlaceGradients, Places, SEGMENT, Scan};
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
    c.bench_function("forward", |b| b.iter(|| scan.forward(black_box(&mut out))));
}

fn places(c: &mut Criterion) {
    const WIDTH: usize = 32;
    let dims = Dims {
        batch: 32,
        cursors: 8,
        steps: 256,
        places: 256,
        jumping: 0,
    };
    let cursors = dims.batch * dims.cursors;
    let moves = [0.2_f32, 0.15, 0.15, 0.35, 0.15].repeat(cursors * dims.steps);
    let mut start = vec![0.0_f32; cursors * dims.places];
    start.iter_mut().step_by(dims.places).for_each(|h| *h = 1.0);
    let gamma = vec![2.0_f32; dims.cursors];
    let table: Vec<f32> = (0..dims.places * WIDTH).map(|i| (i as f32).sin()).collect();
    let scan = Scan {
        dims,
        moves: &moves,
        start: &start,
        gamma: Some(&gamma),
        jumps: None,
    };
    let kernel = Places {
        scan,
        table: &table,
        width: WIDTH,
    };
    let mut out = vec![0.0_f32; cursors * dims.steps * WIDTH];
    let mut last = start.clone();
    let mut kept = vec![0.0_f32; cursors * dims.steps.div_ceil(SEGMENT) * dims.places];
    let grad: Vec<f32> = (0..out.len()).map(|i| (i as f32).sin()).collect();
    let (mut d_moves, mut d_start, mut d_gamma) = (moves.clone(), start.clone(), gamma.clone());
    c.bench_function("places forward", |b| {
        b.iter(|| kernel.forward(black_box(&mut out), &mut last, Some(&mut kept)));
    });
    c.bench_function("places backward", |b| {
        b.iter(|| {
            let into = Gradients {
                moves: &mut d_moves,
                start: &mut d_start,
                gamma: Some(&mut d_gamma),
                jumps: None,
            };
            let gradients = PlaceGradients {
                places: &grad,
                last: None,
                into,
            };
            kernel.backward(black_box(&kept), gradients)
        });
    });
}

fn recurrence(c: &mut Criterion) {
    let (batch, steps, hidden) = (32, 256, 100);
    let count = batch * steps * hidden;
    let small = |n: usize| (0..n).map(|i| 0.1 * (i as f32).sin()).collect::<Vec<f32>>();
    let (given, weights, bias) = (small(3 * count), small(3 * hidden * hidden), small(3 * hidden));
    let start = small(batch * hidden);
    let gru = Gru {
        batch,
        steps,
        hidden,
        weights: &weights,
        bias: &bias,
        start: &start,
    };
    let (mut out, mut gates) = (vec![0.0; count], vec![0.0; GATES * count]);
    c.bench_function("recurrence forward", |b| {
        b.iter(|| gru.forward(&given, black_box(&mut out), Some(&mut gates)));
    });
    let grad = small(count);
    let (mut d_given, mut d_kept, mut d_start) = (given.clone(), out.clone(), start.clone());
    c.bench_function("recurrence backward", |b| {
        b.iter(|| {
            let into = GruGradients {
                given: &mut d_given,
                kept: &mut d_kept,
                start: &mut d_start,
            };
            gru.backward(black_box(&out), &gates, &grad, into)
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = scan, places, recurrence
}
criterion_main!(benches);
