//! The control field of a block (Napolitano 2026), except for the matrix product with its steps.
//!
//! A step's fibre `phi` and hidden layer `z` come from one matrix product, which the caller computes. The rest is
//! about thirty numbers per step and a dozen functions of them, computed here in one pass over the memory:
//!
//! ```text
//! risk = softplus(last gelu(z + bias) + end)     held_t = (a sum_(t-1) + (1 - a) risk_t) / (1 - a^(t + 1))
//! kappa_t = |phi_t - phi_(t-2)| / 2              log_gate = ln(sigmoid(-softplus(raw) held) + 1e-8)
//! scale = sigmoid(1 - bend kappa)
//! ```

use pulp::{Arch, NullaryFnOnce};

use crate::error::{KernelError, check};
use crate::real::{Real, dot, sum};

/// Added to a gate before its logarithm.
const FLOOR: f64 = 1e-8;

/// Number of results of [`Field::forward`] per step, in this order: log gate, scale, held, risk, kappa, and the risk
/// before its softplus, which the backward pass needs.
pub const OUTPUTS: usize = 6;

/// Sizes and parameters of a field.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a, T> {
    /// Rows B.
    pub rows: usize,
    /// Steps L.
    pub steps: usize,
    /// Width W of a fibre.
    pub fibres: usize,
    /// Decay of the average per step, above 0 and below 1.
    pub decay: f64,
    /// Scale of the curvature in the feed-forward gate.
    pub bend: f64,
    /// (N,) of the hidden layer.
    pub bias: &'a [T],
    /// (N,) weights of the last layer.
    pub last: &'a [T],
    /// The last layer's bias.
    pub end: T,
    /// Parameter whose softplus is the strength of the gate.
    pub raw: T,
}

/// Gradients of the outputs; `None` for zero.
pub type OutputGradients<'a, T> = [Option<&'a [T]>; OUTPUTS - 1];

/// Buffers for the gradients of the inputs.
#[derive(Debug)]
pub struct FieldGradients<'a, T> {
    /// (W + N, B, L) of fibres and hidden layer.
    pub seen: &'a mut [T],
    /// (N,).
    pub bias: &'a mut [T],
    /// (N,).
    pub last: &'a mut [T],
    /// (1,).
    pub end: &'a mut [T],
    /// (1,).
    pub raw: &'a mut [T],
}

impl<T: Real> Field<'_, T> {
    fn check(&self, seen: &[T], out: &[T]) -> Result<(), KernelError> {
        let steps = self.rows * self.steps;
        check("last", self.last, self.bias.len())?;
        let channels = self.fibres.saturating_add(self.bias.len());
        check("seen", seen, channels.saturating_mul(steps))?;
        check("out", out, OUTPUTS * steps)
    }

    fn strength(&self) -> T {
        let raw = self.raw.wide();
        T::of(raw.max(0.0) + (-raw.abs()).exp().ln_1p())
    }

    /// Bias correction of the average at each step, `1 / (1 - a^(t + 1))`.
    fn bias_correction(&self) -> Vec<f64> {
        let rate = self.decay.ln();
        (1..=self.steps)
            .map(|t| -1.0 / (t as f64 * rate).exp_m1())
            .collect()
    }
}

for_both_precisions! {
    impl Field<'_, T> {
        /// Writes the field of `seen` (W + N, B, L), fibres first, into `out` (6, B, L).
        pub fn forward(&self, seen: &[T], out: &mut [T]) -> Result<(), KernelError> {
            self.check(seen, out)?;
            if !out.is_empty() {
                Arch::new().dispatch(Forward {
                    field: *self,
                    seen,
                    out,
                });
            }
            Ok(())
        }

        /// Computes the gradients of `seen` and of the parameters.
        pub fn backward(
            &self,
            seen: &[T],
            out: &[T],
            grads: OutputGradients<'_, T>,
            into: FieldGradients<'_, T>,
        ) -> Result<(), KernelError> {
            self.check(seen, out)?;
            for grad in grads.into_iter().flatten() {
                check("gradient", grad, self.rows * self.steps)?;
            }
            check("gradient of seen", into.seen, seen.len())?;
            check("gradient of bias", into.bias, self.bias.len())?;
            check("gradient of last", into.last, self.bias.len())?;
            check("gradient of end", into.end, 1)?;
            check("gradient of raw", into.raw, 1)?;
            for part in [&mut *into.bias, into.last, into.end, into.raw] {
                part.fill(T::ZERO);
            }
            if !out.is_empty() {
                Arch::new().dispatch(Backward {
                    field: *self,
                    seen,
                    out,
                    grads,
                    into,
                });
            }
            Ok(())
        }
    }
}

#[inline(always)]
fn sigmoid<T: Real>(x: T) -> T {
    let below = x < T::ZERO;
    let e = (if below { x } else { T::ZERO - x }).exp();
    (if below { e } else { T::ONE }) / (T::ONE + e)
}

#[inline(always)]
fn softplus<T: Real>(x: T) -> T {
    let e = (if x < T::ZERO { x } else { T::ZERO - x }).exp();
    // ln(1 + e), corrected for the rounding of 1 + e.
    let one = T::ONE + e;
    let rest = one - T::ONE;
    let log = if rest > T::ZERO { one.ln() * (e / rest) } else { e };
    (if x < T::ZERO { T::ZERO } else { x }) + log
}

/// Forward pass of all rows, one after the other: each fits the L1 cache.
struct Forward<'a, T> {
    field: Field<'a, T>,
    seen: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> NullaryFnOnce for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { field, seen, out } = self;
        let (steps, total) = (field.steps, field.rows * field.steps);
        let (strength, bias_correction) = (field.strength(), field.bias_correction());
        let (floor, bend, half) = (T::of(FLOOR), T::of(field.bend), T::of(0.5));
        let mut parts = out.chunks_mut(total);
        let [gates, scales, helds, risks, kappas, logits] =
            std::array::from_fn(|_| parts.next().unwrap_or_default());
        for row in 0..field.rows {
            let span = row * steps..(row + 1) * steps;
            let channel = |k: usize| &seen[k * total..][span.clone()];
            let logit = &mut logits[span.clone()];
            logit.fill(field.end);
            for (n, (&bias, &last)) in field.bias.iter().zip(field.last).enumerate() {
                for (logit, &z) in logit.iter_mut().zip(channel(field.fibres + n)) {
                    let z = z + bias;
                    *logit = *logit + last * z * z.normal().0;
                }
            }
            let risk = &mut risks[span.clone()];
            for (risk, &logit) in risk.iter_mut().zip(&*logit) {
                *risk = softplus(logit);
            }
            let held = &mut helds[span.clone()];
            let mut average = 0.0;
            for ((held, &risk), &bias_correction) in held.iter_mut().zip(&*risk).zip(&bias_correction) {
                average = field.decay * average + (1.0 - field.decay) * risk.wide();
                *held = T::of(average * bias_correction);
            }
            for (gate, &held) in gates[span.clone()].iter_mut().zip(&*held) {
                *gate = (sigmoid(T::ZERO - strength * held) + floor).ln();
            }
            let kappa = &mut kappas[span.clone()];
            kappa.fill(T::ZERO);
            for w in 0..field.fibres {
                let phi = channel(w);
                for ((kappa, &now), &then) in kappa.iter_mut().skip(2).zip(phi.iter().skip(2)).zip(phi) {
                    *kappa = *kappa + (now - then) * (now - then);
                }
            }
            for (scale, kappa) in scales[span.clone()].iter_mut().zip(&mut *kappa) {
                *kappa = half * kappa.root();
                *scale = sigmoid(T::ONE - bend * *kappa);
            }
        }
    }
}

struct Backward<'a, T> {
    field: Field<'a, T>,
    seen: &'a [T],
    out: &'a [T],
    grads: OutputGradients<'a, T>,
    into: FieldGradients<'a, T>,
}

impl<T: Real> NullaryFnOnce for Backward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            field,
            seen,
            out,
            grads,
            into,
        } = self;
        let (steps, total) = (field.steps, field.rows * field.steps);
        let (strength, bias_correction) = (field.strength(), field.bias_correction());
        let (floor, bend, four) = (T::of(FLOOR), T::of(field.bend), T::of(4.0));
        let mut buffers = vec![T::ZERO; 3 * steps];
        let (flow, rest) = buffers.split_at_mut(steps);
        let (share, scratch) = rest.split_at_mut(steps);
        let mut d_strength = T::ZERO;
        for row in 0..field.rows {
            let span = row * steps..(row + 1) * steps;
            let part = |k: usize| &out[k * total..][span.clone()];
            let [d_gate, d_scale, d_held, d_risk, d_kappa] = grads.map(|g| g.map(|g| &g[span.clone()]));
            let [_, scale, held, _, kappa, logit] = std::array::from_fn(part);
            // Back through the gate to the held risk,
            flow.fill(T::ZERO);
            if let Some(grad) = d_gate {
                for ((flow, &held), &grad) in flow.iter_mut().zip(held).zip(grad) {
                    let e = (T::ZERO - strength * held).exp();
                    let gate_value = e / (T::ONE + e);
                    *flow = T::ZERO - grad * gate_value / ((T::ONE + e) * (gate_value + floor));
                }
                d_strength = d_strength + dot(flow, held);
                for flow in flow.iter_mut() {
                    *flow = *flow * strength;
                }
            }
            add(flow, d_held);
            // through the average to each step's risk,
            let mut average = 0.0;
            for (flow, &bias_correction) in flow.iter_mut().zip(&bias_correction).rev() {
                average = field.decay * average + flow.wide() * bias_correction;
                *flow = T::of((1.0 - field.decay) * average);
            }
            add(flow, d_risk);
            // and through the two layers.
            for (flow, &logit) in flow.iter_mut().zip(logit) {
                *flow = *flow * sigmoid(logit);
            }
            into.end[0] = into.end[0] + sum(flow);
            for (n, (&bias, &last)) in field.bias.iter().zip(field.last).enumerate() {
                let at = (field.fibres + n) * total;
                let d_z = &mut into.seen[at..][span.clone()];
                let z = &seen[at..][span.clone()];
                for (((d_z, active), &z), &flow) in d_z.iter_mut().zip(&mut *scratch).zip(z).zip(&*flow) {
                    let z = z + bias;
                    let (up_to, density) = z.normal();
                    *active = z * up_to;
                    *d_z = flow * last * (up_to + z * density);
                }
                into.last[n] = into.last[n] + dot(scratch, flow);
                into.bias[n] = into.bias[n] + sum(d_z);
            }
            // Back to the fibres: d |w| / 2 = w / (4 kappa), and 0 where kappa is 0.
            share.fill(T::ZERO);
            if let Some(grad) = d_scale {
                for ((share, &scale), &grad) in share.iter_mut().zip(scale).zip(grad) {
                    *share = T::ZERO - grad * scale * (T::ONE - scale) * bend;
                }
            }
            add(share, d_kappa);
            for (share, &kappa) in share.iter_mut().zip(kappa) {
                let each = *share / (four * kappa);
                *share = if kappa > T::ZERO { each } else { T::ZERO };
            }
            for w in 0..field.fibres {
                let phi = &seen[w * total..][span.clone()];
                scratch.fill(T::ZERO);
                let pairs = phi.iter().skip(2).zip(phi);
                for ((difference, &share), (&now, &then)) in
                    scratch.iter_mut().skip(2).zip(share.iter().skip(2)).zip(pairs)
                {
                    *difference = share * (now - then);
                }
                let d_phi = &mut into.seen[w * total..][span.clone()];
                d_phi.copy_from_slice(scratch);
                for (d_phi, &later) in d_phi.iter_mut().zip(scratch.iter().skip(2)) {
                    *d_phi = *d_phi - later;
                }
            }
        }
        into.raw[0] = d_strength * sigmoid(field.raw);
    }
}

#[inline(always)]
fn add<T: Real>(to: &mut [T], addend: Option<&[T]>) {
    for (to, &addend) in to.iter_mut().zip(addend.unwrap_or_default()) {
        *to = *to + addend;
    }
}
