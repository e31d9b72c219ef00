//! The read-out is the scan's histograms times the table, and its gradients are those of its values.

use crate::common::{Case, numbers};
use anticip_kernels::{Dims, Gradients, KernelError, PlaceGradients, Places, SEGMENT};
use proptest::prelude::*;

/// Gradients of a case: moves, start, exponents, jumps.
struct Found {
    moves: Vec<f64>,
    start: Vec<f64>,
    gamma: Option<Vec<f64>>,
    jumps: Option<Vec<f64>>,
}

impl Found {
    fn new(case: &Case) -> Self {
        Self {
            moves: vec![9.0; case.moves.len()],
            start: vec![9.0; case.start.len()],
            gamma: case.gamma.clone(),
            jumps: case.jumps.clone(),
        }
    }

    fn gradients(&mut self) -> Gradients<'_, f64> {
        Gradients {
            moves: &mut self.moves,
            start: &mut self.start,
            gamma: self.gamma.as_deref_mut(),
            jumps: self.jumps.as_deref_mut(),
        }
    }
}

fn read_out<'a>(case: &'a Case, table: &'a [f64], width: usize) -> Places<'a, f64> {
    let scan = case.scan();
    Places { scan, table, width }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn as_the_scan(
        seed in 0u64..1 << 40,
        places in 2usize..70,
        steps in 1usize..3 * SEGMENT,
        width in 1usize..40,
        jumping in 0usize..3,
        sharpening: bool,
    ) {
        let dims = Dims { batch: 2, cursors: 3, steps, places, jumping };
        let case = Case::new(seed, dims, sharpening);
        let histograms = case.run();
        let table = numbers(seed + 4, places * width);

        let kernel = Places { scan: case.scan(), table: &table, width };
        let (mut out, mut last) = (vec![9.0; 6 * steps * width], vec![9.0; 6 * places]);
        let mut kept = vec![9.0; 6 * steps.div_ceil(SEGMENT) * places];
        kernel.forward(&mut out, &mut last, Some(&mut kept)).unwrap();
        for (histogram, out) in histograms.chunks(places).zip(out.chunks(width)) {
            for (i, &out) in out.iter().enumerate() {
                let wanted: f64 = histogram.iter().zip(&table[i..].iter().step_by(width).collect::<Vec<_>>())
                    .map(|(h, f)| h * **f)
                    .sum();
                prop_assert!((out - wanted).abs() < 1e-12);
            }
        }
        for (all, last) in histograms.chunks(steps * places).zip(last.chunks(places)) {
            for (a, b) in all[(steps - 1) * places..].iter().zip(last) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn gradients_are_finite_differences() {
    const WIDTH: usize = 3;
    let sizes = [
        (2, 3, 0, true),
        (5, 2 * SEGMENT + 2, 1, true),
        (5, SEGMENT, 2, false),
        (33, SEGMENT + 1, 1, true),
    ];
    for (places, steps, jumping, sharpening) in sizes {
        let dims = Dims {
            batch: 1,
            cursors: 2,
            steps,
            places,
            jumping,
        };
        let mut case = Case::new(7, dims, sharpening);
        let table = numbers(4, places * WIDTH);
        let (grad, grad_last) = (numbers(11, 2 * steps * WIDTH), numbers(12, 2 * places));
        let mut kept = vec![9.0; 2 * steps.div_ceil(SEGMENT) * places];
        let mut loss = |case: &Case| {
            let kernel = read_out(case, &table, WIDTH);
            let (mut out, mut last) = (vec![9.0; grad.len()], vec![9.0; grad_last.len()]);
            kernel.forward(&mut out, &mut last, Some(&mut kept)).unwrap();
            let all = out.iter().chain(&last).zip(grad.iter().chain(&grad_last));
            (all.map(|(a, b)| a * b).sum::<f64>(), kept.clone())
        };
        let (_, kept) = loss(&case);
        let mut found = Found::new(&case);
        let gradients = PlaceGradients {
            places: &grad,
            last: Some(&grad_last),
            into: found.gradients(),
        };
        read_out(&case, &table, WIDTH).backward(&kept, gradients).unwrap();
        let part = |case: &mut Case, which: usize, i: usize, by: f64| match which {
            0 => case.moves[i] += by,
            1 => case.start[i] += by,
            2 => case.gamma.as_mut().unwrap()[i] += by,
            _ => case.jumps.as_mut().unwrap()[i] += by,
        };
        let found = [Some(found.moves), Some(found.start), found.gamma, found.jumps];
        for (which, found) in found.iter().enumerate() {
            for (i, &found) in found.iter().flatten().enumerate() {
                let mut at = |by: f64| {
                    part(&mut case, which, i, by);
                    let (loss, _) = loss(&case);
                    part(&mut case, which, i, -by);
                    loss
                };
                let wanted = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!(
                    (found - wanted).abs() < 1e-7 * wanted.abs().max(1.0),
                    "{places} places, part {which}, {i}: {found} for {wanted}"
                );
            }
        }
    }
}

#[test]
fn what_is_no_number_does_not_get_lost() {
    let dims = Dims {
        batch: 1,
        cursors: 1,
        steps: 9,
        places: 70,
        jumping: 0,
    };
    for sharpening in [false, true] {
        let mut case = Case::new(3, dims, sharpening);
        case.start.fill(0.0);
        case.start[0] = 1.0;
        // Up by one at each step but the sixth.
        for (t, moves) in case.moves.chunks_mut(5).enumerate() {
            moves.fill(0.0);
            moves[0] = if t == 5 { f64::NAN } else { 1.0 };
        }
        let table = numbers(1, 70 * 3);
        let kernel = Places {
            scan: case.scan(),
            table: &table,
            width: 3,
        };
        let (mut out, mut last) = ([0.0; 27], [0.0; 70]);
        kernel.forward(&mut out, &mut last, None).unwrap();
        assert!(out[..15].iter().all(|x| x.is_finite()));
        assert!(out[15..].iter().all(|x| x.is_nan()), "{out:?}");
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
    let table = numbers(0, 8);
    let kernel = Places {
        scan: case.scan(),
        table: &table,
        width: 2,
    };
    let wrong = |name, expected, given| {
        Err(KernelError::Length {
            name,
            expected,
            given,
        })
    };
    let (mut out, mut last, mut kept) = (vec![0.0; 12], vec![0.0; 8], vec![0.0; 8]);
    assert_eq!(
        kernel.forward(&mut out[1..], &mut last, None),
        wrong("places", 12, 11)
    );
    assert_eq!(
        kernel.forward(&mut out, &mut last[1..], None),
        wrong("last", 8, 7)
    );
    let short = Some(&mut kept[1..]);
    assert_eq!(kernel.forward(&mut out, &mut last, short), wrong("kept", 8, 7));
    let mut found = Found::new(&case);
    let gradients = PlaceGradients {
        places: &out,
        last: Some(&last[1..]),
        into: found.gradients(),
    };
    assert_eq!(kernel.backward(&kept, gradients), wrong("last's gradient", 8, 7));
    let gradients = PlaceGradients {
        places: &out,
        last: None,
        into: Gradients {
            gamma: None,
            ..found.gradients()
        },
    };
    assert_eq!(kernel.backward(&kept, gradients), wrong("gamma's gradient", 2, 0));
    let other = Places {
        table: &table[1..],
        ..kernel
    };
    assert_eq!(other.forward(&mut out, &mut last, None), wrong("table", 8, 7));
}
