//! What a scan conserves.

use crate::common::Case;
use anticip_kernels::{Dims, KernelError, Scan};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn mass_is_conserved(
        seed in 0u64..1 << 40,
        places in 2usize..70,
        steps in 1usize..30,
        jumping in 0usize..3,
        sharpening: bool,
    ) {
        let dims = Dims { batch: 2, cursors: 3, steps, places, jumping };
        let out = Case::new(seed, dims, sharpening).run();
        for histogram in out.chunks(places) {
            prop_assert!((histogram.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            prop_assert!(histogram.iter().all(|&p| p >= 0.0));
        }
    }

    #[test]
    fn single_precision_follows_double(seed in 0u64..1 << 40, places in 2usize..70, sharpening: bool) {
        let dims = Dims { batch: 1, cursors: 2, steps: 20, places, jumping: 1 };
        let case = Case::new(seed, dims, sharpening);
        let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let (moves, start) = (single(&case.moves), single(&case.start));
        let gamma = case.gamma.as_deref().map(single);
        let jumps = case.jumps.as_deref().map(single);
        let scan = Scan {
            dims,
            moves: &moves,
            start: &start,
            gamma: gamma.as_deref(),
            jumps: jumps.as_deref(),
        };
        let mut out = vec![0.0_f32; 2 * 20 * places];
        scan.forward(&mut out).unwrap();
        for (&a, b) in out.iter().zip(case.run()) {
            prop_assert!((f64::from(a) - b).abs() < 1e-5);
        }
    }
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    let dims = Dims {
        batch: 1,
        cursors: 2,
        steps: 3,
        places: 4,
        jumping: 0,
    };
    let case = Case::new(0, dims, true);
    let mut short = vec![0.0; 23];
    let wrong = KernelError::Length {
        name: "out",
        expected: 24,
        given: 23,
    };
    assert_eq!(case.scan().forward(&mut short), Err(wrong));
    let mut one = case.scan();
    one.dims.places = 1;
    assert_eq!(one.forward(&mut []), Err(KernelError::Places { given: 1 }));
    one.dims = Dims { jumping: 3, ..dims };
    let wrong = KernelError::Jumping { cursors: 2, given: 3 };
    assert_eq!(one.forward(&mut []), Err(wrong));
}
