//! Features: layout, equality of stream and batch, and known values.

use anticip_geometry::Quat;
use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::features::{HEIGHT, MASK, ROOT_VELOCITY, ROTATION, SCALAR, TWIN, VELOCITY};
use anticip_motion::twin::{CausalTwins, MOTION_DELAY_S, PARAMETER_COUNT};
use anticip_motion::{
    CanonicalPose, FEATURE_COUNT, FEATURE_COUNT_V1, FeatureExtractor, feature_names, motion_features,
};
use proptest::prelude::*;

const ALL: [bool; JOINT_COUNT] = [true; JOINT_COUNT];
const STILL: [f32; 4] = [1.0, 0.0, 0.0, 0.0];

fn turn(axis: [f64; 3], angle: f64) -> [f32; 4] {
    Quat::from_axis_angle(axis, angle).to_array().map(|v| v as f32)
}

#[test]
fn every_feature_has_a_name() {
    let names = feature_names();
    assert_eq!(names.len(), FEATURE_COUNT);
    assert_eq!((FEATURE_COUNT_V1, FEATURE_COUNT), (231, 279));
    assert_eq!(names[ROTATION], "hips.rotation.xx");
    assert_eq!(names[VELOCITY + 3], "spine.angular_velocity.x");
    assert_eq!(names[MASK + 21], "right_toes.present");
    assert_eq!(names[SCALAR], "scalar.commitment");
    assert_eq!(names[HEIGHT], "root.height");
    assert_eq!(names[230], "root.velocity.ahead");
    assert_eq!(names[TWIN], "twin.pitch.0ms");
    assert_eq!(names[TWIN + 9], "twin.loudness.20ms");
    assert_eq!(names[TWIN + 31], "twin.pulse.160ms");
    assert_eq!(names[TWIN + 32], "twin.pitch.mean_1s");
    assert_eq!(names[278], "twin.pulse.mean_4s");
    let unique: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(unique.len(), FEATURE_COUNT);
}

#[test]
fn rotations_velocities_and_the_walk_have_known_values() {
    // The head turns at 2 rad/s about x; the body walks ahead at 1 m/s and rises at 0.5 m/s while facing +x.
    let facing = turn([0.0, 1.0, 0.0], std::f64::consts::FRAC_PI_2);
    let frames = 100;
    let poses: Vec<CanonicalPose> = (0..frames)
        .map(|t| {
            let mut pose = [STILL; JOINT_COUNT];
            pose[0] = facing;
            pose[5] = turn([1.0, 0.0, 0.0], 0.04 * f64::from(t));
            pose
        })
        .collect();
    let roots: Vec<[f32; 3]> = (0..frames)
        .map(|t| [0.02 * t as f32, 1.0 + 0.01 * t as f32, 3.0])
        .collect();
    let mut mask = ALL;
    mask[3] = false;
    let rows = motion_features(&poses, &roots, &mask, 256).expect("fits");
    let row = &rows[50];
    let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-4;
    // First two columns of the rotation about x by 2 rad.
    let (s, c) = 2.0f64.sin_cos();
    for (i, v) in [1.0, 0.0, 0.0, 0.0, c, s].into_iter().enumerate() {
        assert!(close(row[ROTATION + 30 + i], v), "{i}");
    }
    assert!(close(row[VELOCITY + 15], 2.0));
    assert!(close(row[VELOCITY + 16], 0.0));
    assert_eq!(rows[0][VELOCITY..MASK], [0.0; 66]);
    assert_eq!(row[MASK + 3], 0.0);
    assert_eq!(row[MASK..SCALAR].iter().sum::<f32>(), 21.0);
    assert!(close(row[HEIGHT], 1.5));
    for (i, v) in [0.0, 0.5, 1.0].into_iter().enumerate() {
        assert!(close(row[ROOT_VELOCITY + i], v), "{i}");
    }
    assert_eq!(rows[0][ROOT_VELOCITY..TWIN], [0.0; 3]);
    // The first frame's scalars are those of the definition.
    assert_eq!(rows[0][SCALAR..HEIGHT], [0.0, 1.0, 0.0, 1.0, 0.5, 1.0, 1.0]);
}

#[test]
fn turning_the_stage_changes_neither_scalars_nor_the_root() {
    let walk = |yaw: f64| {
        let stage = Quat::from_axis_angle([0.0, 1.0, 0.0], yaw);
        let poses: Vec<CanonicalPose> = (0..120)
            .map(|t| {
                let mut pose = [STILL; JOINT_COUNT];
                let own = Quat::from_axis_angle([0.2, 1.0, 0.1], 0.02 * f64::from(t));
                pose[0] = (stage * own).to_array().map(|v| v as f32);
                pose[7] = turn([0.0, 0.0, 1.0], (0.1 * f64::from(t)).sin());
                pose
            })
            .collect();
        let roots: Vec<[f32; 3]> = (0..120)
            .map(|t| {
                stage
                    .rotate([0.01 * f64::from(t), 1.0, 0.02 * f64::from(t)])
                    .map(|v| v as f32)
            })
            .collect();
        motion_features(&poses, &roots, &ALL, 64).expect("fits")
    };
    for (a, b) in walk(0.0).iter().zip(&walk(2.0)) {
        // Scalar 2 is a difference of others; single precision input leaves 1e-4 of noise in them.
        for i in (SCALAR..FEATURE_COUNT).chain(VELOCITY..MASK) {
            assert!(
                (a[i] - b[i]).abs() < 2e-3,
                "{}: {} {}",
                feature_names()[i],
                a[i],
                b[i]
            );
        }
    }
}

/// Poses whose joints all swing, for `frames`.
fn swinging(frames: usize) -> Vec<CanonicalPose> {
    let pose = |t: usize| {
        std::array::from_fn(|j| {
            let pace = 0.1 + 0.01 * j as f64;
            turn([0.6, 0.0, 0.8], 0.7 * (pace * t as f64).sin())
        })
    };
    (0..frames).map(pose).collect()
}

#[test]
fn the_last_columns_are_the_twin_at_four_delays_and_its_means() {
    let poses = swinging(300);
    let rows = motion_features(&poses, &vec![[0.0; 3]; 300], &ALL, 64).expect("fits");
    let mut twins = CausalTwins::new(&[0.0, 0.02, 0.06, 0.16], MOTION_DELAY_S).expect("delays");
    let mut twin_rows: Vec<[f64; PARAMETER_COUNT]> = Vec::new();
    for (t, (pose, row)) in poses.iter().zip(&rows).enumerate() {
        let unit = pose.map(|q| {
            Quat::from_array(q.map(f64::from))
                .normalize_or(Quat::IDENTITY)
                .to_array()
        });
        let mut out = [[0.0; PARAMETER_COUNT]; 4];
        twins.push(&unit, &mut out);
        twin_rows.push(out[1]);
        assert_eq!(
            row[TWIN..TWIN + 32],
            out.as_flattened().iter().map(|&v| v as f32).collect::<Vec<_>>()
        );
        for (block, span) in [(4, 50), (5, 200)] {
            let newest = &twin_rows[(t + 1).saturating_sub(span)..];
            for p in 0..PARAMETER_COUNT {
                let mean = newest.iter().map(|row| row[p]).sum::<f64>() / newest.len() as f64;
                let value = f64::from(row[TWIN + 8 * block + p]);
                assert!((value - mean).abs() < 1e-6, "{t} {block} {p}: {value} {mean}");
            }
        }
    }
    assert!(
        rows.iter()
            .flat_map(|row| &row[TWIN..])
            .all(|v| (0.0..=1.0).contains(v))
    );
}

#[test]
fn a_mask_without_a_joint_and_a_wrong_window_are_refused() {
    assert!(FeatureExtractor::new(&[false; JOINT_COUNT], 256).is_err());
    assert!(FeatureExtractor::new(&ALL, 3).is_err());
    assert!(motion_features(&[], &[], &ALL, 256).expect("fits").is_empty());
}

fn wild() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -1.0..1.0f32,
        1 => any::<f32>(),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(0.0f32),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Frame by frame and all at once give the same bits, finite for any input, and again after a reset.
    #[test]
    fn stream_equals_batch_and_nothing_but_numbers_leaves(
        values in prop::collection::vec(prop::array::uniform4(wild()), 22 * 12),
        roots in prop::collection::vec(prop::array::uniform3(wild()), 12),
        mask in prop::array::uniform22(any::<bool>()),
    ) {
        let mut mask = mask;
        mask[0] = true;
        let poses: Vec<CanonicalPose> = values.as_chunks::<22>().0.to_vec();
        let batch = motion_features(&poses, &roots, &mask, 32).expect("fits");
        let mut stream = FeatureExtractor::new(&mask, 32).expect("fits");
        for pass in 0..2 {
            for (t, row) in batch.iter().enumerate() {
                let mut out = [0.0; FEATURE_COUNT];
                stream.push(&poses[t], roots[t], 0, &mut out);
                prop_assert!(out.iter().all(|v| v.is_finite()), "{pass} {t}");
                prop_assert_eq!(out.map(f32::to_bits), row.map(f32::to_bits));
            }
            stream.reset();
        }
    }
}
