//! Recovery margin against limits that are given: in radians of each joint, whatever the joints weigh.

use anticip_geometry::{JointLimit, PoseConfig, PoseStream, Quat};

const NONE: JointLimit = JointLimit {
    axis: [2.0, 0.0, 0.0],
    swing: f64::INFINITY,
    twist: f64::INFINITY,
    speed: f64::INFINITY,
};
const RECOVERY_MARGIN: usize = 3;

fn about(axis: [f64; 3], angle: f64) -> Quat {
    Quat::from_axis_angle(axis, angle)
}

/// The margin after the last of some poses of a body with these limits.
fn margin(limits: &[JointLimit], weights: Option<&[f64]>, poses: &[&[Quat]]) -> f64 {
    let config = PoseConfig {
        limits: Some(limits.to_vec()),
        weights: weights.map(<[f64]>::to_vec),
        ..PoseConfig::default()
    };
    let mut stream = PoseStream::new(limits.len(), config).expect("valid");
    let mut last = 0.0;
    for pose in poses {
        let pose: Vec<_> = pose.iter().map(|q| q.to_array()).collect();
        last = stream.push(&pose).expect("right shape")[RECOVERY_MARGIN];
    }
    last
}

fn assert_near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-12, "{found}, expected {wanted}");
}

#[test]
fn swing_is_away_from_the_axis_and_twist_about_it() {
    let swing = JointLimit { swing: 1.6, ..NONE };
    let twist = JointLimit { twist: 0.8, ..NONE };
    for (limit, along, across) in [(swing, 1.0, 0.75), (twist, 0.5, 1.0)] {
        for side in [1.0, -1.0] {
            assert_near(
                margin(&[limit], None, &[&[about([1.0, 0.0, 0.0], 0.4 * side)]]),
                along,
            );
            assert_near(
                margin(&[limit], None, &[&[about([0.0, 1.0, 0.0], 0.4 * side)]]),
                across,
            );
            assert_near(
                margin(&[limit], None, &[&[about([0.0, 0.0, 1.0], 0.4 * side)]]),
                across,
            );
        }
        // Both at once: a twist, then a swing.
        let both = about([0.0, 0.6, 0.8], 0.4) * about([1.0, 0.0, 0.0], 0.4);
        assert_near(margin(&[limit], None, &[&[both]]), along.min(across));
    }
}

#[test]
fn speed_is_in_radians_a_frame_whatever_the_joint_weighs() {
    let limit = JointLimit { speed: 0.5, ..NONE };
    let (still, turned) = (Quat::IDENTITY, about([0.3, 0.4, 0.5], 0.2));
    assert_near(margin(&[limit], None, &[&[still]]), 1.0);
    assert_near(margin(&[limit], None, &[&[still], &[turned]]), 0.6);
    for weights in [None, Some([1.0, 9.0].as_slice())] {
        let poses: [&[Quat]; 2] = [&[still; 2], &[turned, still]];
        assert_near(margin(&[limit, NONE], weights, &poses), 0.6);
    }
}

#[test]
fn who_is_beyond_a_limit_is_at_it_and_infinite_limits_do_not_count() {
    let limit = JointLimit { swing: 0.5, ..NONE };
    let bent = |angle| about([0.0, 1.0, 0.0], angle);
    for (angle, wanted) in [(0.25, 0.5), (0.5, 0.0), (2.5, 0.0)] {
        assert_near(margin(&[limit], None, &[&[bent(angle)]]), wanted);
        assert_near(margin(&[limit, NONE], None, &[&[bent(angle), bent(2.0)]]), wanted);
    }
    let other = JointLimit { swing: 2.0, ..NONE };
    assert_near(margin(&[limit, other], None, &[&[bent(2.5), bent(1.0)]]), 0.25);
    assert_near(margin(&[NONE], None, &[&[bent(3.0)]]), 1.0);
}
