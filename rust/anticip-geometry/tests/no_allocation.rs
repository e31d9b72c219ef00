//! `push` allocates nothing, as counted by the allocator.

#[path = "../../anticip-wire/tests/counting/mod.rs"]
mod counting;

use anticip_geometry::{Options, PoseConfig, PoseStream, Quat, Stability, Uncertainty, VectorStream};
use counting::allocations;

#[test]
fn poses() {
    let variants = [
        Options::poses(),
        Options {
            uncertainty: Uncertainty::Vendi,
            stability: Stability::MaxJerk,
            ..Options::poses()
        },
    ];
    for options in variants {
        let config = PoseConfig {
            options: Options {
                window: Some(64),
                ..options
            },
            ..PoseConfig::default()
        };
        let mut stream = PoseStream::new(22, config).expect("valid options");
        let count = allocations(|| {
            for t in 0..500 {
                let angle = f64::from(t % 300) * 0.05;
                let mut pose = [Quat::from_axis_angle([1.0, 2.0, 3.0], angle.sin()).to_array(); 22];
                if t % 50 == 7 {
                    pose[3] = [f64::NAN; 4];
                }
                // Poses of a turn and a half sometimes have no unique mean, so that the slow solver is covered too.
                pose[5] = Quat::from_axis_angle([0.0, 1.0, 0.0], angle * 2.0).to_array();
                stream.push(&pose).expect("right shape");
                if t == 333 {
                    stream.reset();
                }
            }
        });
        assert_eq!(count, 0);
    }
}

#[test]
fn vectors() {
    let options = Options {
        window: Some(64),
        ..Options::vectors()
    };
    let mut stream = VectorStream::new(5, options).expect("valid options");
    let count = allocations(|| {
        for t in 0..500 {
            let t = f64::from(t);
            stream
                .push(&[t.sin(), (0.3 * t).cos(), t, 0.0, (t * t).sin()])
                .expect("right shape");
        }
    });
    assert_eq!(count, 0);
}
