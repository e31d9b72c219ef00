//! The recurrence by hand, its gradients by finite differences.

use crate::common::numbers;
use anticip_kernels::{GATES, Gru, GruGradients, KernelError};
use proptest::prelude::*;

struct Case {
    batch: usize,
    steps: usize,
    hidden: usize,
    given: Vec<f64>,
    weights: Vec<f64>,
    bias: Vec<f64>,
    start: Vec<f64>,
}

impl Case {
    fn new(seed: u64, batch: usize, steps: usize, hidden: usize) -> Self {
        let draw = |part: u64, count: usize| {
            numbers(seed + part, count)
                .iter()
                .map(|x| 2.0 * x - 1.0)
                .collect()
        };
        Self {
            batch,
            steps,
            hidden,
            given: draw(0, batch * steps * 3 * hidden),
            weights: draw(1, 3 * hidden * hidden),
            bias: draw(2, 3 * hidden),
            start: draw(3, batch * hidden),
        }
    }

    fn gru(&self) -> Gru<'_, f64> {
        Gru {
            batch: self.batch,
            steps: self.steps,
            hidden: self.hidden,
            weights: &self.weights,
            bias: &self.bias,
            start: &self.start,
        }
    }

    fn run(&self) -> (Vec<f64>, Vec<f64>) {
        let count = self.batch * self.steps * self.hidden;
        let (mut out, mut gates) = (vec![9.0; count], vec![9.0; GATES * count]);
        self.gru()
            .forward(&self.given, &mut out, Some(&mut gates))
            .unwrap();
        (out, gates)
    }

    /// By the formulas.
    fn by_hand(&self) -> Vec<f64> {
        let h = self.hidden;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let mut out = Vec::new();
        for row in 0..self.batch {
            let mut state = self.start[row * h..][..h].to_vec();
            for t in 0..self.steps {
                let given = &self.given[(row * self.steps + t) * 3 * h..][..3 * h];
                let kept: Vec<f64> = (0..3 * h)
                    .map(|i| {
                        let products = state.iter().zip(&self.weights[i * h..]).map(|(s, w)| s * w);
                        products.sum::<f64>() + self.bias[i]
                    })
                    .collect();
                for i in 0..h {
                    let reset = sigmoid(given[i] + kept[i]);
                    let update = sigmoid(given[h + i] + kept[h + i]);
                    let new = (given[2 * h + i] + reset * kept[2 * h + i]).tanh();
                    state[i] = new + update * (state[i] - new);
                }
                out.extend(&state);
            }
        }
        out
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn as_by_hand(seed in 0u64..1 << 40, batch in 1usize..10, steps in 1usize..20, hidden in 1usize..40) {
        let case = Case::new(seed, batch, steps, hidden);
        let wanted = case.by_hand();
        for (a, b) in case.run().0.iter().zip(&wanted) {
            prop_assert!((a - b).abs() < 1e-12);
        }
        let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let (given, weights) = (single(&case.given), single(&case.weights));
        let (bias, start) = (single(&case.bias), single(&case.start));
        let gru = Gru { batch, steps, hidden, weights: &weights, bias: &bias, start: &start };
        let mut out = vec![9.0; wanted.len()];
        gru.forward(&given, &mut out, None).unwrap();
        // The weights here are large enough to make small differences grow.
        for (&a, b) in out.iter().zip(&wanted) {
            prop_assert!((f64::from(a) - b).abs() < 1e-3);
        }
    }
}

#[test]
fn gradients_are_finite_differences() {
    let (batch, steps, hidden) = (5, 3, 4);
    let mut case = Case::new(5, batch, steps, hidden);
    let (out, gates) = case.run();
    let grad = numbers(11, out.len());
    let mut given = vec![9.0; case.given.len()];
    let (mut kept, mut start) = (vec![9.0; out.len()], vec![9.0; case.start.len()]);
    let into = GruGradients {
        given: &mut given,
        kept: &mut kept,
        start: &mut start,
    };
    case.gru().backward(&out, &gates, &grad, into).unwrap();
    // The weights' gradient from those, as it is said.
    let mut weights = vec![0.0; case.weights.len()];
    let mut bias = vec![0.0; case.bias.len()];
    for at in 0..batch * steps {
        let before = if at % steps == 0 {
            &case.start[at / steps * hidden..][..hidden]
        } else {
            &out[(at - 1) * hidden..][..hidden]
        };
        for i in 0..3 * hidden {
            let d = if i < 2 * hidden {
                given[at * 3 * hidden + i]
            } else {
                kept[at * hidden + i - 2 * hidden]
            };
            bias[i] += d;
            for (weight, h) in weights[i * hidden..].iter_mut().zip(before) {
                *weight += d * h;
            }
        }
    }
    let part = |case: &mut Case, which: usize, i: usize, by: f64| match which {
        0 => case.given[i] += by,
        1 => case.weights[i] += by,
        2 => case.bias[i] += by,
        _ => case.start[i] += by,
    };
    for (which, found) in [given, weights, bias, start].iter().enumerate() {
        for (i, &found) in found.iter().enumerate() {
            let mut loss = |by: f64| {
                part(&mut case, which, i, by);
                let out = case.run().0;
                part(&mut case, which, i, -by);
                out.iter().zip(&grad).map(|(a, b)| a * b).sum::<f64>()
            };
            let wanted = (loss(1e-6) - loss(-1e-6)) / 2e-6;
            assert!(
                (found - wanted).abs() < 1e-7 * wanted.abs().max(1.0),
                "part {which}, {i}: {found} for {wanted}"
            );
        }
    }
}

#[test]
fn buffers_that_do_not_fit_are_refused() {
    let case = Case::new(0, 2, 3, 4);
    let (mut out, mut gates) = case.run();
    let wrong = |name, expected, given| {
        Err(KernelError::Length {
            name,
            expected,
            given,
        })
    };
    let gru = case.gru();
    assert_eq!(
        gru.forward(&case.given[1..], &mut out, None),
        wrong("given", 72, 71)
    );
    assert_eq!(
        gru.forward(&case.given, &mut out[1..], None),
        wrong("out", 24, 23)
    );
    let short = Some(&mut gates[1..]);
    assert_eq!(gru.forward(&case.given, &mut out, short), wrong("gates", 96, 95));
    let other = Gru {
        weights: &case.weights[1..],
        ..gru
    };
    assert_eq!(
        other.forward(&case.given, &mut out, None),
        wrong("weights", 48, 47)
    );
    // Nothing to do is no mistake.
    let nothing = Gru { steps: 0, ..gru };
    let mut start = vec![9.0; 8];
    let into = GruGradients {
        given: &mut [],
        kept: &mut [],
        start: &mut start,
    };
    nothing.forward(&[], &mut [], None).unwrap();
    nothing.backward(&[], &[], &[], into).unwrap();
    assert_eq!(start, [0.0; 8]);
}
