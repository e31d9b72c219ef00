//! The trajectory bias: the scalars set how strongly each head prefers the near past (Diomande 2026).

use crate::activations::gelu;
use crate::heads::SCALAR_COUNT as SCALARS;
use crate::linear::{Linear, Precision};
use crate::{ModelError, Tensors, tensor};

const HIDDEN: usize = 56;

/// `amplitude_h(scalars) exp(-alpha_h distance + beta_h)`, with amplitudes from a small network.
#[derive(Debug, Clone)]
pub(crate) struct TrajectoryBias {
    layers: [Linear; 3],
    hidden: [Vec<f32>; 2],
    amplitudes: Vec<f32>,
}

impl TrajectoryBias {
    /// Reads the network's tensors, `trunk.bias.*`.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub(crate) fn new(tensors: &Tensors, heads: usize) -> Result<Self, ModelError> {
        let linear = |name, outputs, inputs| Linear::new(tensors, name, outputs, inputs, Precision::Full);
        Ok(Self {
            layers: [
                linear("trunk.bias.first", HIDDEN, SCALARS)?,
                linear("trunk.bias.second", HIDDEN, HIDDEN)?,
                linear("trunk.bias.last", heads, HIDDEN)?,
            ],
            hidden: [vec![0.0; HIDDEN], vec![0.0; HIDDEN]],
            amplitudes: vec![0.0; heads],
        })
    }

    /// One amplitude per head.
    pub(crate) fn amplitudes(&mut self, scalars: &[f32; SCALARS]) -> &[f32] {
        let [first, second] = &mut self.hidden;
        self.layers[0].apply(scalars, first);
        gelu(first);
        self.layers[1].apply(first, second);
        gelu(second);
        self.layers[2].apply(second, &mut self.amplitudes);
        &self.amplitudes
    }
}

/// The kernel of a pathway, (heads, past + 1): the decay of the amplitude at each distance.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    slots: usize,
    table: Vec<f32>,
}

impl Kernel {
    /// `step` is the distance of neighbouring steps; `positive`: whether the decay is the softplus of its parameter.
    pub(crate) fn new(
        tensors: &Tensors,
        heads: usize,
        past: usize,
        step: f64,
        positive: bool,
    ) -> Result<Self, ModelError> {
        let raw = tensor(tensors, "trunk.bias.raw_alpha", &[heads])?;
        let beta = tensor(tensors, "trunk.bias.beta", &[heads])?;
        let mut table = Vec::with_capacity(heads * (past + 1));
        for (raw, beta) in raw.into_iter().zip(beta) {
            let (raw, beta) = (f64::from(raw), f64::from(beta));
            let alpha = if positive {
                raw.max(0.0) + (-raw.abs()).exp().ln_1p()
            } else {
                raw
            };
            table.extend((0..=past).map(|distance| (beta - alpha * step * distance as f64).exp() as f32));
        }
        Ok(Self {
            slots: past + 1,
            table,
        })
    }

    /// Writes the bias of a ring's slots (heads, past + 1); slot `newest` holds the newest step, and the slots before
    /// it, wrapping around, ever older ones.
    pub(crate) fn write(&self, amplitudes: &[f32], newest: usize, out: &mut [f32]) {
        let heads = out
            .chunks_exact_mut(self.slots)
            .zip(self.table.chunks_exact(self.slots))
            .zip(amplitudes);
        for ((out, kernel), amplitude) in heads {
            let (late, early) = out.split_at_mut(newest + 1);
            for (out, kernel) in late.iter_mut().rev().chain(early.iter_mut().rev()).zip(kernel) {
                *out = amplitude * kernel;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;

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
        // Slot 1 is the newest, then 0, 3 and 2.
        kernel.write(&[3.0, -1.0], 1, &mut out);
        for (h, (a, alpha, beta)) in [(3.0, 0.5, 0.1_f32), (-1.0, 1.0, -0.2)].into_iter().enumerate() {
            for (p, age) in [1.0, 0.0, 3.0, 2.0].into_iter().enumerate() {
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
}
