//! Cost of one frame: `cargo bench -p anticip-benches --bench scalars`.

use std::hint::black_box;

use anticip_geometry::{Options, PoseConfig, PoseStream, Quat, VectorStream, vector_scalars};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const JOINTS: usize = 22;
const FRAMES: usize = 8192;

/// A small deterministic generator: numbers in `[-1, 1]`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

type Poses = Vec<Vec<[f64; 4]>>;

/// Three incommensurable oscillations per joint, 50 Hz.
fn smooth() -> Poses {
    let mut r = Random(1);
    let swings: Vec<[f64; 9]> = (0..JOINTS).map(|_| std::array::from_fn(|_| r.next())).collect();
    (0..FRAMES)
        .map(|t| {
            let t = t as f64 / 50.0;
            let angle = |s: &[f64; 9]| -> f64 {
                [0.31, 0.73, 1.37]
                    .iter()
                    .enumerate()
                    .map(|(i, f)| {
                        (0.25 + 0.15 * s[i]) * (std::f64::consts::TAU * f * t + 3.0 * s[3 + i]).sin()
                    })
                    .sum()
            };
            swings
                .iter()
                .map(|s| Quat::from_axis_angle([s[6], s[7], s[8]], angle(s)).to_array())
                .collect()
        })
        .collect()
}

fn random() -> Poses {
    let mut r = Random(2);
    (0..FRAMES)
        .map(|_| (0..JOINTS).map(|_| std::array::from_fn(|_| r.next())).collect())
        .collect()
}

/// A still pose with `noise` radians of sensor noise.
fn still(noise: f64) -> Poses {
    let mut r = Random(3);
    let mut jitter = || Quat::exp([noise * r.next(), noise * r.next(), noise * r.next()]).to_array();
    (0..FRAMES)
        .map(|_| (0..JOINTS).map(|_| jitter()).collect())
        .collect()
}

fn pose_push(c: &mut Criterion) {
    let mut group = c.benchmark_group("pose_push");
    group.sample_size(30);
    let motions = [
        ("smooth", smooth()),
        ("still", still(0.0)),
        ("still_noisy", still(1e-4)),
        ("random", random()),
    ];
    for window in [256, 1500] {
        for (name, poses) in &motions {
            let options = Options {
                window: Some(window),
                ..Options::poses()
            };
            let mut stream = PoseStream::new(
                JOINTS,
                PoseConfig {
                    options,
                    ..PoseConfig::default()
                },
            )
            .expect("valid");
            let mut next = poses.iter().cycle();
            for pose in next.by_ref().take(window + 64) {
                stream.push(pose).expect("right shape");
            }
            group.bench_function(BenchmarkId::new(*name, window), |b| {
                b.iter(|| stream.push(black_box(next.next().expect("endless"))));
            });
        }
    }
    group.finish();
}

fn vectors(c: &mut Criterion) {
    let mut r = Random(4);
    let mut group = c.benchmark_group("vectors");
    group.sample_size(20);
    for dim in [8, 64] {
        let mut x = vec![0.0; dim];
        let walk: Vec<Vec<f64>> = (0..FRAMES)
            .map(|_| {
                x.iter_mut().for_each(|x| *x += r.next());
                x.clone()
            })
            .collect();
        let mut stream = VectorStream::new(dim, Options::vectors()).expect("valid");
        let mut next = walk.iter().cycle();
        group.bench_function(BenchmarkId::new("push", dim), |b| {
            b.iter(|| stream.push(black_box(next.next().expect("endless"))));
        });
        let batch: Vec<f64> = walk[..1024].concat();
        group.bench_function(BenchmarkId::new("batch_4x256", dim), |b| {
            b.iter(|| vector_scalars(black_box(&batch), 256, dim, &Options::vectors(), false));
        });
    }
    group.finish();
}

criterion_group!(benches, pose_push, vectors);
criterion_main!(benches);
