//! Fully connected layers and norms of one row, in vector code for the processor at hand.

use pulp::{Arch, Simd, WithSimd, bytemuck};

use crate::{ModelError, Tensors, tensor};

/// Outputs that are summed side by side.
const STRIP: usize = 16;
/// Inputs with sums of their own, so that additions need not wait for each other.
const APART: usize = 4;

const EPSILON: f64 = 1e-5;

/// A fully connected layer: weights (outputs, inputs) and a bias.
///
/// The weights lie in strips of [`STRIP`] outputs, of each strip all inputs one after the other: a product reads them
/// from the first to the last, which is as fast as memory gives them where caches are cold.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    inputs: usize,
    strips: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// Reads `{name}.weight` and `{name}.bias`.
    pub(crate) fn new(
        tensors: &Tensors,
        name: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<Self, ModelError> {
        Ok(Self {
            bias: tensor(tensors, &format!("{name}.bias"), &[outputs])?,
            ..Self::unbiased(tensors, name, outputs, inputs)?
        })
    }

    /// A layer of weights alone.
    pub(crate) fn unbiased(
        tensors: &Tensors,
        name: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<Self, ModelError> {
        let weight = tensor(tensors, &format!("{name}.weight"), &[outputs, inputs])?;
        let mut strips = vec![0.0; outputs.next_multiple_of(STRIP) * inputs];
        for (output, row) in weight.chunks_exact(inputs.max(1)).enumerate() {
            let strip = &mut strips[output / STRIP * STRIP * inputs..][output % STRIP..];
            strip
                .iter_mut()
                .step_by(STRIP)
                .zip(row)
                .for_each(|(to, w)| *to = *w);
        }
        Ok(Self {
            inputs,
            strips,
            bias: vec![0.0; outputs],
        })
    }

    pub(crate) fn outputs(&self) -> usize {
        self.bias.len()
    }

    pub(crate) fn apply(&self, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(&self.bias);
        self.add(x, out);
    }

    /// Adds the products of the weights alone.
    pub(crate) fn add(&self, x: &[f32], out: &mut [f32]) {
        if self.inputs > 0 {
            let strips = &self.strips;
            Arch::new().dispatch(Product { strips, x, out });
        }
    }
}

struct Product<'a> {
    strips: &'a [f32],
    x: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        match size_of::<S::f32s>() / size_of::<f32>() {
            16 => self.run::<S, 1>(s),
            8 => self.run::<S, 2>(s),
            4 => self.run::<S, 4>(s),
            _ => self.run::<S, STRIP>(s),
        }
    }
}

impl Product<'_> {
    /// `V` vectors are a strip.
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, s: S) {
        let weights = S::as_simd_f32s(self.strips).0.as_chunks::<V>().0;
        let (many, few) = self.x.as_chunks::<APART>();
        for (strip, out) in weights.chunks_exact(self.x.len()).zip(self.out.chunks_mut(STRIP)) {
            let mut sums = [[s.splat_f32s(0.0); V]; APART];
            let (together, rest) = strip.as_chunks::<APART>();
            for (weights, x) in together.iter().zip(many) {
                for i in 0..APART {
                    let x = s.splat_f32s(x[i]);
                    for v in 0..V {
                        sums[i][v] = s.mul_add_e_f32s(weights[i][v], x, sums[i][v]);
                    }
                }
            }
            for (i, (weights, x)) in rest.iter().zip(few).enumerate() {
                let x = s.splat_f32s(*x);
                for v in 0..V {
                    sums[i][v] = s.mul_add_e_f32s(weights[v], x, sums[i][v]);
                }
            }
            let [mut all, b, c, d] = sums;
            for v in 0..V {
                all[v] = s.add_f32s(s.add_f32s(all[v], b[v]), s.add_f32s(c[v], d[v]));
            }
            for (out, sum) in out.iter_mut().zip(bytemuck::cast_slice::<_, f32>(&all)) {
                *out += sum;
            }
        }
    }
}

/// A row with zero mean and unit variance, then scaled and shifted.
#[derive(Debug, Clone)]
pub(crate) struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Norm {
    /// Reads `{name}.weight` and `{name}.bias`.
    pub(crate) fn new(tensors: &Tensors, name: &str, width: usize) -> Result<Self, ModelError> {
        Ok(Self {
            weight: tensor(tensors, &format!("{name}.weight"), &[width])?,
            bias: tensor(tensors, &format!("{name}.bias"), &[width])?,
        })
    }

    pub(crate) fn apply(&self, x: &[f32], out: &mut [f32]) {
        let count = x.len() as f64;
        let mean = x.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
        let spread = x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count;
        let (mean, gain) = (mean as f32, (1.0 / (spread + EPSILON).sqrt()) as f32);
        let scaled = x.iter().zip(&self.weight).zip(&self.bias);
        for (out, ((x, weight), bias)) in out.iter_mut().zip(scaled) {
            *out = (x - mean) * gain * weight + bias;
        }
    }
}

/// The inner product, in sixteen partial sums that a compiler keeps in vector registers.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (blocks, rest) = a.as_chunks::<16>();
    let (others, last) = b.as_chunks::<16>();
    let mut sums = [0.0_f32; 16];
    for (x, y) in blocks.iter().zip(others) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += x * y;
        }
    }
    let tail: f32 = rest.iter().zip(last).map(|(x, y)| x * y).sum();
    let halves: [f32; 8] = std::array::from_fn(|i| sums[i] + sums[i + 8]);
    let quarters: [f32; 4] = std::array::from_fn(|i| halves[i] + halves[i + 4]);
    (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]) + tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;
    use proptest::prelude::*;
    use pulp::Scalar;

    proptest! {
        /// With the instructions at hand and with none, a layer is its definition.
        #[test]
        fn products(outputs in 1_usize..70, inputs in 0_usize..70, seed in 0.0_f32..9.0) {
            let wave = |i: usize| (seed + 1.7 * i as f32).sin();
            let tensor = |shape: &[usize]| Tensor {
                shape: shape.to_vec(),
                values: (0..shape.iter().product()).map(wave).collect(),
            };
            let tensors: Tensors = [
                ("l.weight".to_owned(), tensor(&[outputs, inputs])),
                ("l.bias".to_owned(), tensor(&[outputs])),
            ]
            .into();
            let layer = Linear::new(&tensors, "l", outputs, inputs).expect("both are there");
            let x: Vec<f32> = (0..inputs).map(|i| wave(3 * i)).collect();
            let wanted: Vec<f64> = (0..outputs)
                .map(|o| {
                    let products = (0..inputs).map(|i| f64::from(wave(o * inputs + i)) * f64::from(x[i]));
                    f64::from(wave(o)) + products.sum::<f64>()
                })
                .collect();
            let mut out = vec![f32::NAN; outputs];
            layer.apply(&x, &mut out);
            let mut plain = layer.bias.clone();
            if inputs > 0 {
                Product { strips: &layer.strips, x: &x, out: &mut plain }.with_simd(Scalar);
            }
            for ((got, plain), wanted) in out.iter().zip(&plain).zip(wanted) {
                prop_assert!((f64::from(*got) - wanted).abs() < 1e-5);
                prop_assert!((f64::from(*plain) - wanted).abs() < 1e-5);
            }
        }
    }
}
