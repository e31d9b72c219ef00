//! The recurrence of a gated recurrent unit over whole sequences, parallel over groups of rows.
//!
//! The input projection and the gradients of all weights need no recurrence; the caller computes them, as one
//! large product each.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check, chunks};
use crate::lanes::Lanes;
use crate::matrix::{GROUP, Matrix};
use crate::real::Real;

/// Number of vectors saved per step for the backward pass, each `hidden` wide: reset, update, new, and `k_n`.
pub const GATES: usize = 4;

/// A recurrence; all arrays in C order. With `k = W h + b` and the projected input `x`,
///
/// ```text
/// r = sigmoid(x_r + k_r),  u = sigmoid(x_u + k_u),  n = tanh(x_n + r k_n),  h' = n + u (h - n)
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gru<'a, T> {
    /// Independent rows B.
    pub batch: usize,
    /// Steps L.
    pub steps: usize,
    /// Width H of the hidden state.
    pub hidden: usize,
    /// (3 H, H) recurrent weights W: reset, update, new.
    pub weights: &'a [T],
    /// (3 H,) recurrent bias b.
    pub bias: &'a [T],
    /// (B, H) hidden states before the first step.
    pub start: &'a [T],
}

/// Buffers for the gradients of a recurrence. The gradient of the weights is `d k^T h`, where `d k` equals the
/// gradient of the projected input except for the last third, which is in `recurrent_new`.
#[derive(Debug)]
pub struct GruGradients<'a, T> {
    /// (B, L, 3 H) of the projected input.
    pub projected: &'a mut [T],
    /// (B, L, H) of `k_n`.
    pub recurrent_new: &'a mut [T],
    /// (B, H) of the hidden states before the first step.
    pub start: &'a mut [T],
}

impl<T: Lanes> Gru<'_, T> {
    fn check(&self) -> Result<(), KernelError> {
        let h = self.hidden;
        check("weights", self.weights, 3 * h * h)?;
        check("bias", self.bias, 3 * h)?;
        check("start", self.start, self.batch * h)
    }
}

for_both_precisions! {
    impl Gru<'_, T> {
        /// Writes the hidden states after every step into `out` (B, L, H), and if requested what [`Gru::backward`]
        /// needs into `gates` (B, L, 4 H); `projected` (B, L, 3 H) is the projected input.
        pub fn forward(
            &self,
            projected: &[T],
            out: &mut [T],
            gates: Option<&mut [T]>,
        ) -> Result<(), KernelError> {
            self.check()?;
            let sequence_len = self.steps * self.hidden;
            check("projected", projected, self.batch * sequence_len * 3)?;
            check("out", out, self.batch * sequence_len)?;
            if let Some(gates) = &gates {
                check("gates", gates, self.batch * sequence_len * GATES)?;
            }
            if out.is_empty() {
                return Ok(());
            }
            let arch = Arch::new();
            let h = self.hidden;
            let matrix = Matrix::new(h, 3 * h, arch, |row, column| self.weights[column * h + row]);
            let gates = chunks(gates, GROUP * sequence_len * GATES, self.batch.div_ceil(GROUP));
            out.par_chunks_mut(GROUP * sequence_len)
                .zip(gates)
                .enumerate()
                .for_each(|(group, (out, gates))| {
                    arch.dispatch(Forward {
                        gru: self,
                        matrix: &matrix,
                        first: group * GROUP,
                        projected,
                        out,
                        gates,
                    });
                });
            Ok(())
        }

        /// Computes gradients from the results of [`Gru::forward`] and the gradients `grad` of the hidden states.
        pub fn backward(
            &self,
            out: &[T],
            gates: &[T],
            grad: &[T],
            into: GruGradients<'_, T>,
        ) -> Result<(), KernelError> {
            self.check()?;
            let sequence_len = self.steps * self.hidden;
            check("out", out, self.batch * sequence_len)?;
            check("gates", gates, self.batch * sequence_len * GATES)?;
            check("grad", grad, self.batch * sequence_len)?;
            check(
                "projected's gradient",
                into.projected,
                self.batch * sequence_len * 3,
            )?;
            check(
                "recurrent_new's gradient",
                into.recurrent_new,
                self.batch * sequence_len,
            )?;
            check("start's gradient", into.start, self.start.len())?;
            if sequence_len == 0 {
                into.start.fill(T::ZERO);
                return Ok(());
            }
            let arch = Arch::new();
            let h = self.hidden;
            let matrix = Matrix::new(3 * h, h, arch, |row, column| self.weights[row * h + column]);
            into.projected
                .par_chunks_mut(GROUP * sequence_len * 3)
                .zip(into.recurrent_new.par_chunks_mut(GROUP * sequence_len))
                .zip(into.start.par_chunks_mut(GROUP * self.hidden))
                .enumerate()
                .for_each(|(group, ((projected, recurrent_new), start))| {
                    arch.dispatch(Backward {
                        gru: self,
                        matrix: &matrix,
                        first: group * GROUP,
                        out,
                        gates,
                        grad,
                        into: GruGradients {
                            projected,
                            recurrent_new,
                            start,
                        },
                    });
                });
            Ok(())
        }
    }
}

/// Forward pass of a group of rows, compiled for several instruction sets; the best available one runs.
struct Forward<'a, T> {
    gru: &'a Gru<'a, T>,
    matrix: &'a Matrix<T>,
    first: usize,
    projected: &'a [T],
    out: &'a mut [T],
    gates: Option<&'a mut [T]>,
}

impl<T: Lanes> WithSimd for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) {
        let (h, steps) = (self.gru.hidden, self.gru.steps);
        let rows = self.out.len() / (steps * h);
        let mut state = vec![T::ZERO; GROUP * h];
        state[..rows * h].copy_from_slice(&self.gru.start[self.first * h..][..rows * h]);
        let mut bias = vec![T::ZERO; self.matrix.columns];
        bias[..3 * h].copy_from_slice(self.gru.bias);
        let bias = bias.repeat(GROUP);
        let mut recurrent = bias.clone();
        for t in 0..steps {
            recurrent.copy_from_slice(&bias);
            self.matrix.multiply(s, &state, 0, &mut recurrent);
            for r in 0..rows {
                let at = r * steps + t;
                let projected = &self.projected[(self.first * steps + at) * 3 * h..][..3 * h];
                let recurrent = &recurrent[r * self.matrix.columns..][..self.matrix.columns];
                let state = &mut state[r * h..][..h];
                let out = &mut self.out[at * h..][..h];
                for c in (0..h).step_by(T::lanes::<S>()) {
                    let projected = |gate: usize| T::load(s, &projected[gate * h..][c..h]);
                    let recurrent = |gate: usize| T::load(s, &recurrent[gate * h..][c..]);
                    let before = T::load(s, &state[c..]);
                    let reset = T::sigmoid(s, T::plus(s, projected(0), recurrent(0)));
                    let update = T::sigmoid(s, T::plus(s, projected(1), recurrent(1)));
                    let recurrent_new = recurrent(2);
                    let new = T::tanh(s, T::fma(s, reset, recurrent_new, projected(2)));
                    let after = T::fma(s, update, T::minus(s, before, new), new);
                    T::store(s, &mut state[c..], after);
                    T::store(s, &mut out[c..], after);
                    if let Some(gates) = self.gates.as_deref_mut() {
                        let gates = &mut gates[at * GATES * h..][..GATES * h];
                        for (gate, values) in [reset, update, new, recurrent_new].into_iter().enumerate() {
                            T::store(s, &mut gates[gate * h..][c..h], values);
                        }
                    }
                }
            }
        }
    }
}

/// Backward pass of a group of rows.
struct Backward<'a, T> {
    gru: &'a Gru<'a, T>,
    matrix: &'a Matrix<T>,
    first: usize,
    out: &'a [T],
    gates: &'a [T],
    grad: &'a [T],
    into: GruGradients<'a, T>,
}

impl<T: Lanes> WithSimd for Backward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let (h, steps, columns) = (self.gru.hidden, self.gru.steps, self.matrix.columns);
        let rows = self.into.recurrent_new.len() / (steps * h);
        let one = T::splat(s, T::ONE);
        // Gradients of the hidden states, and of `k`.
        let mut flow = vec![T::ZERO; GROUP * columns];
        let mut recurrent_grad = vec![T::ZERO; GROUP * 3 * h];
        for t in (0..steps).rev() {
            for r in 0..rows {
                let (at, row) = (r * steps + t, self.first + r);
                let step = row * steps + t;
                let before = if t == 0 {
                    &self.gru.start[row * h..][..h]
                } else {
                    &self.out[(step - 1) * h..][..h]
                };
                let gates = &self.gates[step * GATES * h..][..GATES * h];
                let grad = &self.grad[step * h..][..h];
                let flow = &mut flow[r * columns..][..columns];
                let recurrent_grad = &mut recurrent_grad[r * 3 * h..][..3 * h];
                let projected_grad = &mut self.into.projected[at * 3 * h..][..3 * h];
                let recurrent_new_grad = &mut self.into.recurrent_new[at * h..][..h];
                for c in (0..h).step_by(T::lanes::<S>()) {
                    let gate = |g: usize| T::load(s, &gates[g * h..][c..h]);
                    let (reset, update, new, recurrent) = (gate(0), gate(1), gate(2), gate(3));
                    let d = T::plus(s, T::load(s, &flow[c..]), T::load(s, &grad[c..]));
                    let rest = T::minus(s, one, update);
                    let change = T::minus(s, T::load(s, &before[c..]), new);
                    let d_update = T::times(s, T::times(s, d, change), T::times(s, update, rest));
                    let slope = T::minus(s, one, T::times(s, new, new));
                    let d_new = T::times(s, T::times(s, d, rest), slope);
                    let d_recurrent = T::times(s, d_new, reset);
                    let d_reset = T::times(s, T::times(s, d_recurrent, recurrent), T::minus(s, one, reset));
                    T::store(s, &mut flow[c..], T::times(s, d, update));
                    for (g, values) in [d_reset, d_update, d_new].into_iter().enumerate() {
                        T::store(s, &mut projected_grad[g * h..][c..h], values);
                    }
                    for (g, values) in [d_reset, d_update, d_recurrent].into_iter().enumerate() {
                        T::store(s, &mut recurrent_grad[g * h..][c..h], values);
                    }
                    T::store(s, &mut recurrent_new_grad[c..], d_recurrent);
                }
            }
            self.matrix.multiply(s, &recurrent_grad, 0, &mut flow);
        }
        for (start, flow) in self
            .into
            .start
            .chunks_exact_mut(h)
            .zip(flow.chunks_exact(columns))
        {
            start.copy_from_slice(&flow[..h]);
        }
    }
}
