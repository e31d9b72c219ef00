//! Cost of a live frame and of its parts: `cargo bench -p anticip-benches --bench front`.

use std::hint::black_box;

use anticip_geometry::Quat;
use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{
    Distributor, FEATURE_COUNT, FeatureExtractor, FrontConfig, LiveFront, Pose, Resampler, Retargeter,
    Source, standard,
};
use anticip_wire::{Joint, PoseUpdate, mocopi, vmc};
use criterion::{Criterion, criterion_group, criterion_main};

fn dance(t: f64) -> [Quat; JOINT_COUNT] {
    std::array::from_fn(|j| {
        let phase = t * (1.0 + 0.1 * j as f64);
        Quat::from_axis_angle([0.3, 0.5, 0.1 * j as f64], 0.6 * phase.sin())
    })
}

fn update(body: &Distributor, t: f64) -> PoseUpdate {
    let mut local = vec![Quat::IDENTITY; body.joints()];
    let root = body
        .apply(&dance(t), [0.0, 0.95, 0.0], &mut local)
        .map(|v| v as f32);
    let joints = local.iter().enumerate().map(|(id, q)| {
        let position = if id == 0 { root } else { [0.0; 3] };
        Joint::new(id as u16, q.to_array().map(|v| v as f32), position)
    });
    PoseUpdate {
        root: Some(root),
        time: Some(t),
        joints: joints.collect(),
        ..PoseUpdate::default()
    }
}

/// A minute of datagrams at 50 Hz.
fn datagrams(source: Source) -> Vec<Vec<u8>> {
    let skeleton = if source == Source::Vmc {
        standard::vmc()
    } else {
        standard::mocopi()
    };
    let body = Distributor::compile(&skeleton).expect("maps");
    let encode = |i: u32| {
        let t = f64::from(i) / 50.0;
        let mut pose = update(&body, t);
        pose.seq = Some(i);
        let mut out = Vec::new();
        let done = if source == Source::Vmc {
            vmc::encode_frame(&pose, &mut out)
        } else {
            mocopi::encode_frame(&pose, 0, Some(t), &mut out)
        };
        done.expect("encodes");
        out
    };
    (0..3000).map(encode).collect()
}

fn parts(c: &mut Criterion) {
    let body = Distributor::compile(&standard::mocopi()).expect("maps");
    let mut local = vec![Quat::IDENTITY; 27];
    body.apply(&dance(1.0), [0.0; 3], &mut local);
    let mut retargeter = Retargeter::compile(&standard::mocopi()).expect("maps");
    let mut out = [Quat::IDENTITY; JOINT_COUNT];
    c.bench_function("retarget mocopi", |b| {
        b.iter(|| retargeter.apply(black_box(&local), [0.0; 3], &mut out));
    });
    let skeleton = standard::mocopi();
    c.bench_function("compile mocopi", |b| {
        b.iter(|| Retargeter::compile(black_box(&skeleton)).expect("maps"));
    });

    let mut resampler = Resampler::new(JOINT_COUNT, 50.0, None).expect("rate");
    let mut scratch = Pose::identity(JOINT_COUNT);
    let mut pose = Pose::identity(JOINT_COUNT);
    let mut i = 0;
    c.bench_function("resample 120 Hz frame", |b| {
        b.iter(|| {
            pose.rotations.copy_from_slice(&dance(f64::from(i % 100) / 120.0));
            i += 1;
            resampler.push(f64::from(i) / 120.0, &pose, &mut scratch, |_, p| {
                black_box(p);
            })
        });
    });

    let mut extractor = FeatureExtractor::new(&[true; JOINT_COUNT], 256).expect("fits");
    let mut row = [0.0; FEATURE_COUNT];
    let mut t = 0;
    c.bench_function("features and scalars, window 256", |b| {
        b.iter(|| {
            t += 1;
            let pose = dance(f64::from(t) / 50.0).map(|q| q.to_array().map(|v| v as f32));
            extractor.push(&pose, [0.0; 3], 0, &mut row);
        });
    });
    c.bench_function("copy of their state", |b| b.iter(|| black_box(extractor.clone())));
}

fn front(c: &mut Criterion) {
    for (name, source) in [("mocopi", Source::Mocopi), ("vmc", Source::Vmc)] {
        let datagrams = datagrams(source);
        let mut front = LiveFront::new(source, FrontConfig::default()).expect("options");
        let mut i = 0;
        c.bench_function(&format!("feed {name}"), |b| {
            b.iter(|| {
                if i == datagrams.len() {
                    i = 0;
                    front.reset();
                }
                i += 1;
                front
                    .feed(&datagrams[i - 1], i as i64 * 20_000_000, "")
                    .map(|o| o.seq)
            });
        });
    }
}

criterion_group!(benches, parts, front);
criterion_main!(benches);
