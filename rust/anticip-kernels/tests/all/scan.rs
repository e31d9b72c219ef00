//! What a scan conserves, and that its gradients are those of its values.

use crate::common::{Case, numbers};
use anticip_kernels::{Dims, Gradients, KernelError, Scan};
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
fn gradients_are_finite_differences() {
    for (places, jumping, sharpening) in [(2, 0, true), (5, 1, true), (5, 2, false), (33, 1, true)] {
        let dims = Dims {
            batch: 1,
            cursors: 2,
            steps: 3,
            places,
            jumping,
        };
        let mut case = Case::new(7, dims, sharpening);
        let out = case.run();
        let grad = numbers(11, out.len());
        let mut d_moves = vec![0.0; case.moves.len()];
        let mut d_start = vec![0.0; case.start.len()];
        let mut d_gamma = case.gamma.clone();
        let mut d_jumps = case.jumps.clone();
        let into = Gradients {
            moves: &mut d_moves,
            start: &mut d_start,
            gamma: d_gamma.as_deref_mut(),
            jumps: d_jumps.as_deref_mut(),
        };
        case.scan().backward(&out, &grad, into).unwrap();
        let part = |case: &mut Case, which: usize, i: usize, by: f64| match which {
            0 => case.moves[i] += by,
            1 => case.start[i] += by,
            2 => case.gamma.as_mut().unwrap()[i] += by,
            _ => case.jumps.as_mut().unwrap()[i] += by,
        };
        let found = [Some(d_moves), Some(d_start), d_gamma, d_jumps];
        for (which, found) in found.iter().enumerate() {
            for (i, &found) in found.iter().flatten().enumerate() {
                let mut loss = |by: f64| {
                    part(&mut case, which, i, by);
                    let out = case.run();
                    part(&mut case, which, i, -by);
                    out.iter().zip(&grad).map(|(a, b)| a * b).sum::<f64>()
                };
                let wanted = (loss(1e-6) - loss(-1e-6)) / 2e-6;
                assert!(
                    (found - wanted).abs() < 1e-7 * wanted.abs().max(1.0),
                    "{places} places, part {which}, {i}: {found} for {wanted}"
                );
            }
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
    let mut out = vec![0.0; 24];
    let (mut moves, mut start) = (vec![0.0; 30], vec![0.0; 8]);
    let grad = vec![0.0; 24];
    case.scan().forward(&mut out).unwrap();
    let into = Gradients {
        moves: &mut moves,
        start: &mut start,
        gamma: None,
        jumps: None,
    };
    let wrong = KernelError::Length {
        name: "gamma's gradient",
        expected: 2,
        given: 0,
    };
    assert_eq!(case.scan().backward(&out, &grad, into), Err(wrong));
}
