//! What is refused, and in which words.

use anticip_geometry::{
    GeometryError, JointLimit, Options, PoseConfig, PoseStream, VectorConfig, VectorStream, vector_scalars,
};

#[test]
fn errors_say_what_was_expected_and_given() {
    let mut stream = PoseStream::new(27, PoseConfig::default()).expect("valid");
    let error = stream.push(&[[1.0, 0.0, 0.0, 0.0]; 22]).expect_err("wrong shape");
    assert_eq!(
        error,
        GeometryError::Joints {
            expected: 27,
            given: 22
        }
    );
    assert_eq!(error.to_string(), "expected a pose of 27 joints, given 22");
    let mut stream = VectorStream::new(3, VectorConfig::default()).expect("valid");
    let error = stream.push(&[1.0]).expect_err("wrong shape");
    assert_eq!(error.to_string(), "expected a vector of dimension 3, given 1");
    let error = vector_scalars(&[0.0; 7], 2, 2, &VectorConfig::default()).expect_err("wrong length");
    assert_eq!(
        error.to_string(),
        "expected 4 values (sequences x frames x dim), given 7"
    );

    let bad = |change: fn(&mut PoseConfig)| {
        let mut config = PoseConfig::default();
        change(&mut config);
        PoseStream::new(3, config).expect_err("out of range").to_string()
    };
    assert_eq!(
        bad(|c| c.options.window = Some(31)),
        "option window: expected 32 to 16384 frames, given 31"
    );
    assert!(bad(|c| c.options.window = None).contains("for poses"));
    assert!(bad(|c| c.options.k = 1).starts_with("option k: expected 2"));
    assert_eq!(
        bad(|c| c.options.stride = 86),
        "option stride: expected 1 to 85 frames, three strides inside the window, given 86"
    );
    assert!(bad(|c| c.options.stride = 0).starts_with("option stride"));
    assert!(bad(|c| c.options.horizon = 0).starts_with("option horizon"));
    assert!(bad(|c| c.options.theiler = 256).starts_with("option theiler"));
    assert!(bad(|c| c.options.persistence = 0).starts_with("option persistence"));
    assert!(bad(|c| c.options.eps_v = 0.0).starts_with("option eps_v"));
    assert!(bad(|c| c.options.r0 = Some(f64::NAN)).starts_with("option r0"));
    assert!(bad(|c| c.options.commitment = [1.0, 1.0, -1.0]).starts_with("option commitment"));
    assert!(bad(|c| c.options.ema = Some(0.0)).starts_with("option ema"));
    assert!(bad(|c| c.weights = Some(vec![1.0])).contains("3 weights"));
    assert!(bad(|c| c.weights = Some(vec![0.0; 3])).contains("not all 0"));
    assert!(bad(|c| c.weights = Some(vec![1.0, f64::NAN, 1.0])).starts_with("option weights"));
    assert!(bad(|c| c.limits = Some(vec![])).contains("3 limits"));
    let growing = Options {
        window: None,
        stride: 1 << 18,
        ..Options::vectors()
    };
    let error = VectorStream::new(65_536, VectorConfig { options: growing }).expect_err("out of range");
    assert!(
        error
            .to_string()
            .starts_with("option stride: expected at most 128 frames")
    );
    let no_axis = JointLimit {
        axis: [0.0; 3],
        swing: 1.0,
        twist: 1.0,
        speed: 1.0,
    };
    let limits = PoseConfig {
        limits: Some(vec![no_axis]),
        ..PoseConfig::default()
    };
    assert!(PoseStream::new(1, limits).is_err());
    assert!(PoseStream::new(0, PoseConfig::default()).is_err());
    assert!(VectorStream::new(0, VectorConfig::default()).is_err());
}
