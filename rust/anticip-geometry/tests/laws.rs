//! Properties that hold for every input.

use anticip_geometry::{
    JointLimit, Options, PoseConfig, PoseStream, Quat, Stability, Uncertainty, VectorStream, pose_scalars,
    vector_scalars,
};
use proptest::prelude::*;

type Pose = Vec<[f64; 4]>;

/// Valid options, with windows small enough to wrap.
fn options(base: Options) -> impl Strategy<Value = Options> {
    (
        (
            32..48usize,
            2..12usize,
            1..11usize,
            1..16usize,
            1..16usize,
            1..8usize,
        ),
        (any::<bool>(), any::<bool>(), prop::option::of(0.05..1.0f64)),
    )
        .prop_map(
            move |((window, k, stride, horizon, theiler, persistence), (vendi, jerk, ema))| Options {
                window: Some(window),
                k,
                stride,
                horizon,
                theiler,
                persistence,
                uncertainty: if vendi {
                    Uncertainty::Vendi
                } else {
                    Uncertainty::Directional
                },
                stability: if jerk {
                    Stability::MaxJerk
                } else {
                    Stability::Speed
                },
                ema,
                ..base.clone()
            },
        )
}

/// Smooth, still, noisy, turning or repeating motion of `joints` joints.
fn motion(joints: usize, frames: usize) -> impl Strategy<Value = Vec<Pose>> {
    let joint = (
        prop::array::uniform3(-1.0..1.0f64),
        0.01..0.5f64,
        0.0..1.2f64,
        0.0..6.3f64,
    );
    let noise = prop_oneof![Just(0.0), Just(1e-6), Just(1e-3), Just(1.0)];
    (
        prop::collection::vec(joint, joints),
        noise,
        1..60usize,
        any::<u64>(),
    )
        .prop_map(move |(swings, noise, hold, seed)| {
            let mut r = Random(seed);
            (0..frames)
                .map(|t| {
                    let t = (t - t % hold / 2) as f64;
                    let one = |(axis, rate, size, phase): &([f64; 3], f64, f64, f64)| {
                        let q = Quat::from_axis_angle(*axis, size * (rate * t + phase).sin());
                        let jitter = [r.next() * noise, r.next() * noise, r.next() * noise];
                        (q * Quat::exp(jitter)).normalize().to_array()
                    };
                    swings.iter().map(one).collect()
                })
                .collect()
        })
}

/// Motion of any number of joints and frames.
fn poses() -> impl Strategy<Value = Vec<Pose>> {
    (1..5usize, 1..110usize).prop_flat_map(|(joints, frames)| motion(joints, frames))
}

/// Random walks, circles, noise and jumps.
fn vectors() -> impl Strategy<Value = Vec<Vec<f64>>> {
    (1..7usize, 1..110usize, 0..4u8, any::<u64>()).prop_map(|(dim, frames, kind, seed)| {
        let mut r = Random(seed);
        let mut x = vec![0.0; dim];
        (0..frames)
            .map(|t| {
                for (i, x) in x.iter_mut().enumerate() {
                    match kind {
                        0 => *x += r.next(),
                        1 => *x = (0.2 * t as f64 + i as f64).sin(),
                        2 => *x = r.next(),
                        _ => *x += if t % 30 == 0 { 10.0 * r.next() } else { 0.0 },
                    }
                }
                x.clone()
            })
            .collect()
    })
}

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

fn config(options: &Options) -> PoseConfig {
    PoseConfig {
        options: options.clone(),
        ..PoseConfig::default()
    }
}

fn run(poses: &[Pose], options: &Options) -> Vec<[f64; 7]> {
    let mut stream = PoseStream::new(poses[0].len(), config(options)).expect("valid");
    poses
        .iter()
        .map(|p| stream.push(p).expect("right shape"))
        .collect()
}

fn run_vectors(x: &[Vec<f64>], options: &Options) -> Vec<[f64; 7]> {
    let mut stream = VectorStream::new(x[0].len(), options.clone()).expect("valid");
    x.iter().map(|x| stream.push(x).expect("right shape")).collect()
}

fn bounded(s: &[f64; 7]) -> bool {
    s.iter().enumerate().all(|(i, &v)| {
        if i == 2 {
            (-2.0..=2.0).contains(&v)
        } else {
            (0.0..=1.0).contains(&v)
        }
    })
}

fn close(a: &[[f64; 7]], b: &[[f64; 7]], tolerance: f64) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.len(), b.len());
    for (t, (a, b)) in a.iter().zip(b).enumerate() {
        for (i, (x, y)) in a.iter().zip(b).enumerate() {
            prop_assert!((x - y).abs() <= tolerance, "frame {t}, scalar {i}: {x} and {y}");
        }
    }
    Ok(())
}

/// Numbers of every kind that a broken source can send.
fn wild() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => -1.0..1.0f64,
        1 => prop::num::f64::ANY,
        1 => prop::sample::select(vec![
            0.0, -0.0, 1e-7, 1e-300, 5e-324, 1e100, -1e100, 1.0000001e100, f64::MAX, f64::MIN, f64::NAN,
            f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE,
        ]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn poses_are_bounded_whatever_comes(
        (joints, flat) in (1..4usize, 0..60usize).prop_flat_map(|(j, t)| {
            (Just(j), prop::collection::vec(prop::array::uniform4(wild()), j * t))
        }),
        options in options(Options::poses()),
        limited in any::<bool>(),
    ) {
        let limit = JointLimit { axis: [1.0, 1.0, 0.0], swing: 0.5, twist: 1e-9, speed: f64::INFINITY };
        let limits = limited.then(|| vec![limit; joints]);
        let config = PoseConfig { options, limits, ..PoseConfig::default() };
        let mut stream = PoseStream::new(joints, config.clone()).expect("valid");
        for pose in flat.chunks_exact(joints) {
            let s = stream.push(pose).expect("right shape");
            prop_assert!(bounded(&s), "{s:?}");
        }
        let frames = flat.len() / joints;
        let paper = pose_scalars(&flat, frames, joints, &config, true).expect("right shape");
        prop_assert!(paper.iter().all(bounded));
    }

    #[test]
    fn vectors_are_bounded_whatever_comes(
        (dim, flat) in (1..4usize, 0..60usize).prop_flat_map(|(d, t)| {
            (Just(d), prop::collection::vec(wild(), d * t))
        }),
        options in options(Options::vectors()),
        growing in any::<bool>(),
        eps_v in prop::sample::select(vec![1e-100, 1e-9, 1.0, 1e100]),
    ) {
        let window = options.window.filter(|_| !growing);
        let options = Options { window, eps_v, ..options };
        let mut stream = VectorStream::new(dim, options.clone()).expect("valid");
        for x in flat.chunks_exact(dim) {
            let s = stream.push(x).expect("right shape");
            prop_assert!(bounded(&s), "{s:?}");
        }
        let frames = flat.len() / dim;
        let paper = vector_scalars(&flat, frames, dim, &options, true).expect("right shape");
        prop_assert!(paper.iter().all(bounded));
    }

    #[test]
    fn signs_do_not_matter(poses in poses(), options in options(Options::poses()), seed in any::<u64>()) {
        let mut r = Random(seed);
        let flipped: Vec<Pose> = poses.iter().map(|p| p.iter().map(|&q| {
            if r.next() < 0.0 { q.map(|c| -c) } else { q }
        }).collect()).collect();
        close(&run(&poses, &options), &run(&flipped, &options), 1e-12)?;
    }

    #[test]
    fn constant_rotations_do_not_matter(
        poses in (1..5usize, 20..110usize).prop_flat_map(|(j, t)| motion(j, t)),
        options in options(Options::poses()),
        turn in prop::array::uniform4(-1.0..1.0f64),
        left in any::<bool>(),
    ) {
        let Some(turn) = Quat::from_array(turn).try_normalize() else { return Ok(()) };
        let turned: Vec<Pose> = poses.iter().map(|p| p.iter().map(|&q| {
            let q = Quat::from_array(q);
            (if left { turn * q } else { q * turn }).normalize().to_array()
        }).collect()).collect();
        // Distances at the level of rounding change when rotated, and the neighbours of an exactly held pose all tie:
        // such cases are excluded.
        prop_assume!(separated(&poses, &options));
        close(&run(&poses, &options), &run(&turned, &options), 1e-9)?;
    }

    #[test]
    fn rotation_and_translation_of_vectors_do_not_matter(
        seed in any::<u64>(),
        frames in 2..110usize,
        options in options(Options::vectors()),
        angle in 0.0..6.3f64,
        shift in prop::array::uniform2(-1000.0..1000.0f64),
        scale in prop::sample::select(vec![1.0, 1e-3, 7.0, 1e4]),
    ) {
        let mut r = Random(seed);
        let mut at = [0.0f64; 2];
        let x: Vec<Vec<f64>> = (0..frames).map(|_| {
            at = [at[0] + r.next(), at[1] + r.next()];
            at.to_vec()
        }).collect();
        let spread = x.iter().flatten().fold(0.0f64, |m, c| m.max(c.abs()));
        let (s, c) = angle.sin_cos();
        let moved: Vec<Vec<f64>> = x.iter().map(|p| vec![
            scale * (c * p[0] - s * p[1] + shift[0] * spread),
            scale * (s * p[0] + c * p[1] + shift[1] * spread),
        ]).collect();
        let scaled = Options { eps_v: options.eps_v * scale, r0: options.r0.map(|r| r * scale), ..options.clone() };
        close(&run_vectors(&x, &options), &run_vectors(&moved, &scaled), 1e-8)?;
    }

    #[test]
    fn a_fresh_evaluation_of_the_last_frames_gives_the_same_bits(
        poses in (1..5usize, 60..140usize).prop_flat_map(|(j, t)| motion(j, t)),
        options in options(Options::poses()),
    ) {
        let options = Options { ema: None, ..options };
        let whole = run(&poses, &options);
        let last = options.window.expect("a window") + options.stride;
        for t in [last + 1, poses.len()] {
            if t <= last || t > poses.len() { continue }
            let fresh = run(&poses[t - last..t], &options);
            prop_assert_eq!(whole[t - 1], fresh[last - 1]);
        }
    }

    #[test]
    fn vectors_are_prefix_consistent(x in vectors(), options in options(Options::vectors())) {
        let options = Options { ema: None, ..options };
        let whole = run_vectors(&x, &options);
        let last = options.window.expect("a window") + options.stride;
        if x.len() > last {
            let fresh = run_vectors(&x[x.len() - last..], &options);
            close(&whole[x.len() - 1..], &fresh[last - 1..], 1e-12)?;
        }
    }

    #[test]
    fn nothing_looks_ahead(
        (a, b) in (1..4usize, 2..100usize).prop_flat_map(|(j, t)| (motion(j, t), motion(j, t))),
        options in options(Options::poses()),
        at in 0.0..1.0f64,
    ) {
        let t0 = (at * a.len() as f64) as usize;
        let mut changed = a[..t0].to_vec();
        changed.extend_from_slice(&b[t0..]);
        prop_assert_eq!(&run(&a, &options)[..t0], &run(&changed, &options)[..t0]);
    }

    #[test]
    fn batch_is_the_stream(
        (a, b) in (1..4usize, 1..80usize).prop_flat_map(|(j, t)| (motion(j, t), motion(j, t))),
        options in options(Options::poses()),
    ) {
        let (frames, joints) = (a.len(), a[0].len());
        let flat: Vec<[f64; 4]> = a.iter().chain(&b).flatten().copied().collect();
        let batch = pose_scalars(&flat, frames, joints, &config(&options), false).expect("right shape");
        prop_assert_eq!(&batch[..frames], &run(&a, &options)[..]);
        prop_assert_eq!(&batch[frames..], &run(&b, &options)[..]);
    }

    #[test]
    fn vector_batch_is_the_stream(x in vectors(), options in options(Options::vectors()), growing in any::<bool>()) {
        let options = Options { window: options.window.filter(|_| !growing), ..options };
        let flat: Vec<f64> = x.iter().chain(&x).flatten().copied().collect();
        let batch = vector_scalars(&flat, x.len(), x[0].len(), &options, false).expect("right shape");
        let stream = run_vectors(&x, &options);
        prop_assert_eq!(&batch[..x.len()], &stream[..]);
        prop_assert_eq!(&batch[x.len()..], &stream[..]);
    }

    #[test]
    fn reset_makes_a_first_frame(
        (a, b) in (1..4usize, 1..80usize).prop_flat_map(|(j, t)| (motion(j, t), motion(j, t))),
        options in options(Options::poses()),
    ) {
        let mut stream = PoseStream::new(a[0].len(), config(&options)).expect("valid");
        for pose in &a {
            stream.push(pose).expect("right shape");
        }
        stream.push(&vec![[f64::NAN; 4]; a[0].len()]).expect("right shape");
        stream.reset();
        prop_assert_eq!((stream.missing(), stream.frames(), stream.valid()), (0, 0, true));
        let again: Vec<_> = b.iter().map(|p| stream.push(p).expect("right shape")).collect();
        prop_assert_eq!(again, run(&b, &options));
    }

    #[test]
    fn missing_rotations_hold_the_last_one(
        poses in poses(),
        options in options(Options::poses()),
        bad in prop::sample::select(vec![f64::NAN, f64::INFINITY, 0.0, 4e-7]),
        seed in any::<u64>(),
    ) {
        let mut r = Random(seed);
        let (mut broken, mut held) = (poses.clone(), poses.clone());
        let mut count = 0;
        let mut frames = Vec::new();
        for t in 0..poses.len() {
            let mut in_frame = 0;
            for j in 0..poses[t].len() {
                if r.next() > 0.8 {
                    broken[t][j] = if bad.is_finite() { [bad; 4] } else { [0.5, bad, 0.5, 0.5] };
                    held[t][j] = if t == 0 { [1.0, 0.0, 0.0, 0.0] } else { held[t - 1][j] };
                    in_frame += 1;
                }
            }
            count += in_frame;
            frames.push(in_frame);
        }
        prop_assert_eq!(run(&broken, &options), run(&held, &options));
        let mut stream = PoseStream::new(poses[0].len(), config(&options)).expect("valid");
        for pose in &broken {
            stream.push(pose).expect("right shape");
        }
        prop_assert_eq!(stream.missing(), count);
        let window = options.window.expect("a window").min(frames.len());
        let recent: u64 = frames[frames.len() - window..].iter().sum();
        prop_assert_eq!(stream.valid(), recent * 10 <= (window * poses[0].len()) as u64);
    }
}

/// Whether no decision depends on rounding: all distances in the windows differ and every joint's mean is unique.
fn separated(poses: &[Pose], options: &Options) -> bool {
    let dist = |a: &Pose, b: &Pose| -> f64 {
        let angle = |(a, b): (&[f64; 4], &[f64; 4])| Quat::from_array(*a).angle_to(Quat::from_array(*b));
        a.iter().zip(b).map(|p| angle(p).powi(2)).sum::<f64>().sqrt()
    };
    let window = options.window.expect("a window");
    let near_pi = |a: &Pose, b: &Pose| {
        a.iter()
            .zip(b)
            .any(|(a, b)| Quat::from_array(*a).angle_to(Quat::from_array(*b)) > 3.1)
    };
    (1..poses.len()).all(|t| {
        let first = (t + 1).saturating_sub(window);
        let mut d: Vec<f64> = poses[first..t].iter().map(|s| dist(s, &poses[t])).collect();
        d.sort_by(f64::total_cmp);
        let apart = d.windows(2).all(|p| p[1] - p[0] > 1e-8) && d[0] > 1e-8;
        apart && !poses[first..t].iter().any(|s| near_pi(s, &poses[t]))
    })
}

#[test]
fn first_frame() {
    assert!(vector_scalars(&[0.0; 7], 2, 2, &Options::vectors(), false).is_err());
    let first = [0.0, 1.0, 0.0, 1.0, 0.5, 1.0, 1.0];
    assert_eq!(run(&[vec![[0.5; 4]; 22]], &Options::poses()), [first]);
    assert_eq!(run_vectors(&[vec![3.0; 4]], &Options::vectors()), [first]);
}

#[test]
fn constants_settle() {
    let settled = [0.4, 0.0, 0.0, 1.0, 0.5, 0.0, 1.0];
    let poses = run(&vec![vec![[0.1, 0.7, -0.3, 0.2]; 22]; 400], &Options::poses());
    let vectors = run_vectors(&vec![vec![1e3, -2.0, 0.1]; 400], &Options::vectors());
    for s in poses[12 + 8 + 6..].iter().chain(&vectors[1 + 8 + 1..]) {
        for (x, y) in s.iter().zip(settled) {
            assert!((x - y).abs() < 1e-12, "{s:?}");
        }
    }
}

#[test]
fn no_mean_is_taken_of_more_frames_than_its_sums_hold() {
    let poses = vec![[1.0, 0.0, 0.0, 0.0]; 1 << 15];
    assert!(pose_scalars(&poses, poses.len(), 1, &PoseConfig::default(), true).is_err());
}

#[test]
fn no_option_reserves_more_than_the_most_numbers() {
    let growing = Options {
        window: None,
        ..Options::vectors()
    };
    for (persistence, stride, is_valid) in [(256, 128, true), (257, 1, false), (1, 129, false)] {
        let options = Options {
            persistence,
            stride,
            ..growing.clone()
        };
        assert_eq!(VectorStream::new(65_536, options).is_ok(), is_valid);
    }
}

#[test]
fn no_unique_mean_takes_the_most_recent_rotation() {
    // Half a turn back and forth about one axis: the top two eigenvalues are equal whenever both rotations are equally
    // frequent, and the radius is then half a turn, measured from the newest.
    let there = Quat::IDENTITY.to_array();
    let back = Quat::from_axis_angle([0.0, 0.0, 1.0], std::f64::consts::PI).to_array();
    let poses: Vec<Pose> = (0..10)
        .map(|t| vec![if t % 2 == 0 { there } else { back }])
        .collect();
    let s = run(&poses, &Options::poses());
    assert_eq!(s[9][3], 1.0);
    // With one more of the other rotation the mean is unique again: the newest is half a turn away from it.
    let more = [&poses[..9], &[vec![there], vec![back]]].concat();
    assert!(run(&more, &Options::poses())[10][3] < 0.01);
}
