//! The trajectory bias: scalars decide how strongly each head prefers the near past (Diomande 2026).

use super::activations::gelu;
use super::heads::SCALAR_COUNT as SCALARS;
use super::{Linear, Tensors, tensor};
use crate::MotionError;

const HIDDEN: usize = 56;

/// `amplitude_h(scalars) exp(-alpha_h distance + beta_h)`: the amplitudes are a small network of the scalars.
#[derive(Debug, Clone)]
pub struct TrajectoryBias {
    layers: [Linear; 3],
    hidden: [Vec<f32>; 2],
    amplitudes: Vec<f32>,
}

impl TrajectoryBias {
    /// Reads the network's tensors, `trunk.bias.*`.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub fn new(tensors: &Tensors, heads: usize) -> Result<Self, MotionError> {
        let linear = |names, outputs, inputs| Linear::new(tensors, names, outputs, inputs);
        Ok(Self {
            layers: [
                linear(
                    ["trunk.bias.first.weight", "trunk.bias.first.bias"],
                    HIDDEN,
                    SCALARS,
                )?,
                linear(
                    ["trunk.bias.second.weight", "trunk.bias.second.bias"],
                    HIDDEN,
                    HIDDEN,
                )?,
                linear(["trunk.bias.last.weight", "trunk.bias.last.bias"], heads, HIDDEN)?,
            ],
            hidden: [vec![0.0; HIDDEN], vec![0.0; HIDDEN]],
            amplitudes: vec![0.0; heads],
        })
    }

    /// One amplitude per head.
    pub fn amplitudes(&mut self, scalars: &[f32; SCALARS]) -> &[f32] {
        let [first, second] = &mut self.hidden;
        self.layers[0].apply(scalars, first);
        gelu(first);
        self.layers[1].apply(first, second);
        gelu(second);
        self.layers[2].apply(second, &mut self.amplitudes);
        &self.amplitudes
    }
}

/// The kernel of a pathway, (heads, past + 1): how much of the amplitude is left at each distance.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    past: usize,
    table: Vec<f32>,
}

impl Kernel {
    /// `step` is the distance of neighbours; `positive` tells whether the decay is a softplus of its parameter.
    pub(super) fn new(
        tensors: &Tensors,
        heads: usize,
        past: usize,
        step: f64,
        positive: bool,
    ) -> Result<Self, MotionError> {
        let raw = tensor(tensors, "trunk.bias.raw_alpha", &[heads])?;
        let beta = tensor(tensors, "trunk.bias.beta", &[heads])?;
        let mut table = Vec::with_capacity(heads * (past + 1));
        for (raw, beta) in raw
            .into_iter()
            .map(f64::from)
            .zip(beta.into_iter().map(f64::from))
        {
            let alpha = if positive {
                raw.max(0.0) + (-raw.abs()).exp().ln_1p()
            } else {
                raw
            };
            table.extend((0..=past).map(|distance| (beta - alpha * step * distance as f64).exp() as f32));
        }
        Ok(Self { past, table })
    }

    /// Writes the bias of the ring's slots and, last, of the step itself: (heads, past + 1). Slot `slot` is next to be
    /// written, so that it holds what is `past` steps away.
    pub(super) fn write(&self, amplitudes: &[f32], slot: usize, out: &mut [f32]) {
        let (past, row) = (self.past, self.past + 1);
        let heads = out
            .chunks_exact_mut(row)
            .zip(self.table.chunks_exact(row))
            .zip(amplitudes);
        for ((out, kernel), amplitude) in heads {
            for (p, out) in out[..past].iter_mut().enumerate() {
                let age = if p < slot { slot - p } else { slot + past - p };
                *out = amplitude * kernel[age];
            }
            out[past] = amplitude * kernel[0];
        }
    }
}

/// Hides the slots of a ring that nothing has been written to.
pub(super) fn mask_empty(past: usize, count: usize, out: &mut [f32]) {
    if count < past {
        for row in out.chunks_exact_mut(past + 1) {
            row[count..past].fill(f32::NEG_INFINITY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Tensor;

    fn tensors(alpha: &[f32], beta: &[f32]) -> Tensors {
        let named = [("trunk.bias.raw_alpha", alpha), ("trunk.bias.beta", beta)];
        let tensor = |values: &[f32]| Tensor {
            shape: vec![values.len()],
            values: values.to_vec(),
        };
        named
            .map(|(name, values)| (name.to_owned(), tensor(values)))
            .into()
    }

    #[test]
    fn a_slot_is_as_far_as_it_is_old() {
        let kernel = Kernel::new(&tensors(&[0.5, 1.0], &[0.1, -0.2]), 2, 3, 2.0, false).unwrap();
        let at = |a: f64, alpha: f64, beta: f64, age: f64| (a * (beta - alpha * 2.0 * age).exp()) as f32;
        let mut out = [0.0; 8];
        // Slot 1 is next: slot 0 is the newest, then 2, then 1.
        kernel.write(&[3.0, -1.0], 1, &mut out);
        for (h, (a, alpha, beta)) in [(3.0, 0.5, 0.1_f32), (-1.0, 1.0, -0.2)].into_iter().enumerate() {
            for (p, age) in [1.0, 3.0, 2.0, 0.0].into_iter().enumerate() {
                let wanted = at(a, alpha, f64::from(beta), age);
                assert!((out[4 * h + p] - wanted).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn a_positive_decay_is_a_softplus_far_out_too() {
        let kernel = Kernel::new(&tensors(&[-30.0, 0.0, 90.0], &[0.0; 3]), 3, 1, 1.0, true).unwrap();
        let decay = |h: usize| -kernel.table[2 * h + 1].ln();
        assert!(decay(0).abs() < 1e-6);
        assert!((decay(1) - 2.0_f32.ln()).abs() < 1e-6);
        assert!((decay(2) - 90.0).abs() < 1e-3);
    }

    #[test]
    fn only_empty_slots_are_hidden() {
        let mut out = [1.0; 8];
        mask_empty(3, 2, &mut out);
        assert_eq!(
            out,
            [1.0, 1.0, f32::NEG_INFINITY, 1.0, 1.0, 1.0, f32::NEG_INFINITY, 1.0]
        );
        let mut full = [1.0; 8];
        mask_empty(3, 3, &mut full);
        assert_eq!(full, [1.0; 8]);
    }
}
