//! The resampler: equality of stream and batch, the grid, gaps, disorder.

use anticip_geometry::Quat;
use anticip_motion::{GridFrame, MAX_GAP, MotionError, Pose, Pushed, Resampler};
use proptest::prelude::*;

fn at(angle: f64, x: f64) -> Pose {
    Pose {
        rotations: vec![Quat::from_axis_angle([0.3, 1.0, -0.2], angle)],
        root: [x, 0.0, 0.0],
    }
}

/// Pushes a frame; returns the result and the grid frames.
fn push(r: &mut Resampler, t: f64, pose: &Pose) -> (Pushed, Vec<(GridFrame, Pose)>) {
    let mut scratch = Pose::identity(r.joints());
    let mut out = Vec::new();
    let pushed = r
        .push(t, pose, &mut scratch, |g, p| out.push((g, p.clone())))
        .expect("fits");
    (pushed, out)
}

fn resample(frames: &[Pose], rate_in: f64, rate_out: f64) -> Result<Vec<Pose>, MotionError> {
    let parts = frames.iter().map(|pose| (&pose.rotations[..], pose.root));
    let mut out = Vec::new();
    anticip_motion::resample(parts, 1, [rate_in, rate_out], |pose| out.push(pose.clone()))?;
    Ok(out)
}

fn clip(frames: usize) -> Vec<Pose> {
    (0..frames)
        .map(|i| at((i as f64 * 0.1).sin() * 2.0, i as f64 * 0.01))
        .collect()
}

#[test]
fn the_same_rate_is_the_same_clip() {
    for rate in [50.0, 120.0, 59.94, 1.0 / 0.008_333] {
        let frames = clip(500);
        assert_eq!(resample(&frames, rate, rate).expect("rates"), frames);
    }
}

#[test]
fn interpolation_is_on_the_arc_and_the_line() {
    let frames: Vec<Pose> = (0..100).map(|i| at(i as f64 * 0.02, i as f64)).collect();
    let out = resample(&frames, 120.0, 50.0).expect("rates");
    assert_eq!(out.len(), 42);
    for (k, pose) in out.iter().enumerate() {
        let exact = at(k as f64 * 0.02 * 2.4, k as f64 * 2.4);
        assert!(pose.rotations[0].angle_to(exact.rotations[0]) < 1e-9);
        assert!((pose.root[0] - exact.root[0]).abs() < 1e-9);
    }
}

#[test]
fn the_shortest_arc_is_taken_whatever_the_sign() {
    let mut frames = clip(10);
    let plain = resample(&frames, 30.0, 50.0).expect("rates");
    for pose in frames.iter_mut().skip(1).step_by(2) {
        pose.rotations[0] = -pose.rotations[0];
    }
    let flipped = resample(&frames, 30.0, 50.0).expect("rates");
    for (a, b) in plain.iter().zip(&flipped) {
        assert!(a.rotations[0].angle_to(b.rotations[0]) < 1e-12);
    }
}

#[test]
fn a_grid_frame_leaves_with_the_push_that_reaches_it() {
    let mut r = Resampler::new(1, 50.0, Some(MAX_GAP)).expect("rate");
    assert_eq!(push(&mut r, 5.0, &at(0.0, 0.0)).0, Pushed::Start { index: 0 });
    assert_eq!(
        push(&mut r, 5.019, &at(0.1, 1.0)).0,
        Pushed::Frames { first: 1, count: 0 }
    );
    assert_eq!(
        push(&mut r, 5.02, &at(0.2, 2.0)).0,
        Pushed::Frames { first: 1, count: 1 }
    );
    let (pushed, out) = push(&mut r, 5.065, &at(0.3, 3.0));
    assert_eq!(pushed, Pushed::Frames { first: 2, count: 2 });
    assert_eq!(out[1].0.index, 3);
    assert!((out[1].0.fraction - 40.0 / 45.0).abs() < 1e-9);
    assert!((r.time_of(3) - 5.06).abs() < 1e-12);
}

#[test]
fn gaps_are_filled_up_to_the_limit_and_begin_anew_beyond() {
    let frame = 0.02;
    for (missing, start) in [(0u32, false), (1, false), (25, false), (26, true), (4000, true)] {
        let mut r = Resampler::new(1, 50.0, Some(MAX_GAP)).expect("rate");
        push(&mut r, 0.0, &at(0.0, 0.0));
        push(&mut r, frame, &at(0.0, 0.0));
        let t = frame * f64::from(2 + missing);
        let (pushed, out) = push(&mut r, t, &at(1.0, 1.0));
        if start {
            // The index keeps counting time through the gap.
            let index = u64::from(2 + missing);
            assert_eq!(pushed, Pushed::Start { index });
            assert_eq!(out.len(), 1);
            assert!(out[0].0.start);
        } else {
            assert_eq!(
                pushed,
                Pushed::Frames {
                    first: 2,
                    count: 1 + missing
                }
            );
            let last = out.last().expect("frames");
            assert_eq!(last.0.fraction, 1.0);
            assert_eq!(last.1, at(1.0, 1.0));
        }
    }
}

#[test]
fn doubled_and_backward_times_are_ignored() {
    let mut r = Resampler::new(1, 50.0, Some(MAX_GAP)).expect("rate");
    push(&mut r, 1.0, &at(0.0, 0.0));
    push(&mut r, 1.03, &at(0.0, 0.0));
    assert_eq!(push(&mut r, 1.03, &at(9.0, 9.0)).0, Pushed::Doubled);
    assert_eq!(push(&mut r, 1.01, &at(9.0, 9.0)).0, Pushed::Backwards);
    let (_, out) = push(&mut r, 1.04, &at(0.0, 0.0));
    assert_eq!(out[0].1.root[0], 0.0);
}

#[test]
fn what_cannot_be_placed_is_refused() {
    assert!(Resampler::new(1, 0.0, None).is_err());
    assert!(Resampler::new(1, f64::NAN, None).is_err());
    assert!(resample(&clip(3), -1.0, 50.0).is_err());
    let mut r = Resampler::new(1, 50.0, None).expect("rate");
    let mut scratch = Pose::identity(1);
    assert!(
        r.push(f64::INFINITY, &at(0.0, 0.0), &mut scratch, |_, _| {})
            .is_err()
    );
    assert!(r.push(0.0, &Pose::identity(2), &mut scratch, |_, _| {}).is_err());
    assert_eq!(resample(&[], 30.0, 50.0).expect("rates"), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The grid has no hole and no repetition and stays on the path, however the stream is timed.
    #[test]
    fn the_grid_is_whole(steps in prop::collection::vec(0.0005..0.6f64, 1..200)) {
        let mut r = Resampler::new(1, 50.0, Some(MAX_GAP)).expect("rate");
        let (mut t, mut next) = (0.0, 0);
        for step in steps {
            let (pushed, out) = push(&mut r, t, &at(t, t));
            for (grid, pose) in out {
                if grid.start {
                    prop_assert!(grid.index >= next);
                } else {
                    prop_assert_eq!(grid.index, next);
                }
                next = grid.index + 1;
                let here = r.time_of(grid.index);
                prop_assert!(here <= t + 1e-4);
                prop_assert!((pose.root[0] - here).abs() < 1e-4);
                prop_assert!(pose.rotations[0].angle_to(at(here, 0.0).rotations[0]) < 1e-3);
            }
            let taken = matches!(pushed, Pushed::Start { .. } | Pushed::Frames { .. });
            prop_assert!(taken);
            t += step;
        }
    }
}

#[test]
fn curves_keep_the_speed() {
    let turn = |t: f64| at(1.2 * (3.0 * t).sin(), (2.0 * t).cos());
    let worst = |curved: bool, rate: f64| {
        let mut r = Resampler::new(1, 50.0, None).expect("rate");
        if curved {
            r = r.curved();
        }
        let mut worst: f64 = 0.0;
        for i in 0..200 {
            let t = f64::from(i) / rate;
            for (grid, pose) in push(&mut r, t, &turn(t)).1 {
                let exact = turn(grid.index as f64 / 50.0);
                worst = worst.max(pose.rotations[0].angle_to(exact.rotations[0]));
                assert!((pose.rotations[0].norm() - 1.0).abs() < 1e-9);
            }
        }
        worst
    };
    for rate in [24.0, 30.0, 60.0, 90.0] {
        assert!(worst(true, rate) < 0.2 * worst(false, rate), "{rate}");
    }
}

#[test]
fn a_gap_is_crossed_at_the_speeds_of_its_ends() {
    let turn = |t: f64| at(1.2 * (5.0 * t).sin(), (4.0 * t).cos());
    let mut errors = Vec::new();
    for curved in [false, true] {
        let mut r = Resampler::new(1, 50.0, Some(MAX_GAP)).expect("rate");
        if curved {
            r = r.curved();
        }
        let mut worst: f64 = 0.0;
        let mut frames = 0;
        for i in (0..20).chain(37..60) {
            let t = f64::from(i) / 60.0;
            let (_, made) = push(&mut r, t, &turn(t));
            // The frame that ends the gap is held until the next one.
            assert_eq!(r.has_pending(), curved && i == 37);
            frames += made.len();
            for (grid, pose) in made {
                let exact = turn(grid.index as f64 / 50.0);
                worst = worst.max(pose.rotations[0].angle_to(exact.rotations[0]));
            }
        }
        assert_eq!(frames, 50);
        errors.push(worst);
    }
    assert!(errors[1] < 0.25 * errors[0], "{errors:?}");
}
