//! Fully connected layers and norms of one row, in vector code for the processor at hand.

use std::sync::Arc;

use pulp::{Arch, Simd, WithSimd, bytemuck};

use crate::{ModelError, Tensors, tensor};

/// Outputs that are summed side by side.
const STRIP: usize = 16;
/// Inputs with sums of their own, so that additions need not wait for each other.
const APART: usize = 4;

const EPSILON: f64 = 1e-5;

/// Weights of two inputs, as the two halves of a word, for the outputs of a strip side by side.
type Pair = [u32; STRIP];

/// A fully connected layer: weights (outputs, inputs) and a bias.
///
/// A step reads every weight once, out of caches that are cold, and takes as long as there is to read: they are kept
/// as bfloat16 (`docs/latency.md` says what that changes). They lie in strips of [`STRIP`] outputs, of each strip all
/// inputs one after the other: a product reads them from the first to the last, which is as fast as memory gives
/// them. Clones share them, so that of several performers the first one's step warms the others'.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    inputs: usize,
    pairs: Arc<[Pair]>,
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
        let length = pairs(inputs);
        let mut kept = vec![[0; STRIP]; outputs.div_ceil(STRIP) * length];
        for (output, row) in weight.chunks_exact(inputs.max(1)).enumerate() {
            let strip = &mut kept[output / STRIP * length..];
            for (to, two) in strip.iter_mut().zip(row.chunks(2)) {
                to[output % STRIP] = word(two[0], two.get(1).copied().unwrap_or(0.0));
            }
        }
        Ok(Self {
            inputs,
            pairs: kept.into(),
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
            let pairs = &self.pairs;
            Arch::new().dispatch(Product { pairs, x, out });
        }
    }
}

/// Pairs of a strip: as many as [`APART`] inputs at a time need.
fn pairs(inputs: usize) -> usize {
    inputs.next_multiple_of(APART) / 2
}

/// Two weights in a word: the first as bfloat16 in the lower half; the second is what the whole word says, so its
/// upper half is chosen with the lower one known.
fn word(first: f32, second: f32) -> u32 {
    let bits = first.to_bits();
    // To nearest, of two that are as near to the even one. What is no number stays none.
    let lower = if first.is_nan() {
        0x7fc0
    } else {
        bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16
    };
    let cut = second.to_bits() & 0xffff_0000;
    let near = [cut, cut.wrapping_sub(0x1_0000), cut.wrapping_add(0x1_0000)].map(|upper| upper | lower);
    let off = |bits: &u32| (f32::from_bits(*bits) - second).abs();
    // A difference that is no number comes last.
    near.into_iter()
        .min_by(|a, b| off(a).total_cmp(&off(b)))
        .unwrap_or(cut)
}

struct Product<'a> {
    pairs: &'a [Pair],
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
        let words = S::as_simd_u32s(self.pairs.as_flattened()).0.as_chunks::<V>().0;
        let half = s.splat_u32s(16);
        let (many, few) = self.x.as_chunks::<APART>();
        let mut last = [0.0; APART];
        last[..few.len()].copy_from_slice(few);
        let last = &[last][..usize::from(!few.is_empty())];
        for (strip, out) in words
            .chunks_exact(pairs(self.x.len()))
            .zip(self.out.chunks_mut(STRIP))
        {
            let mut sums = [[s.splat_f32s(0.0); V]; APART];
            for (two, x) in strip.as_chunks::<2>().0.iter().zip(many.iter().chain(last)) {
                for (i, words) in two.iter().enumerate() {
                    let (x, y) = (s.splat_f32s(x[2 * i]), s.splat_f32s(x[2 * i + 1]));
                    for v in 0..V {
                        let lower = s.transmute_f32s_u32s(s.wrapping_dyn_shl_u32s(words[v], half));
                        let whole = s.transmute_f32s_u32s(words[v]);
                        sums[2 * i][v] = s.mul_add_e_f32s(lower, x, sums[2 * i][v]);
                        sums[2 * i + 1][v] = s.mul_add_e_f32s(whole, y, sums[2 * i + 1][v]);
                    }
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
        Arch::new().dispatch(|| {
            let count = x.len() as f64;
            let mean = total(x, |v| v) / count;
            let spread = total(x, |v| (v - mean) * (v - mean)) / count;
            let (mean, gain) = (mean as f32, (1.0 / (spread + EPSILON).sqrt()) as f32);
            let scaled = x.iter().zip(&self.weight).zip(&self.bias);
            for (out, ((x, weight), bias)) in out.iter_mut().zip(scaled) {
                *out = (x - mean) * gain * weight + bias;
            }
        });
    }
}

/// The sum of something of each number, in eight partial sums that a compiler keeps in vector registers.
#[inline(always)]
fn total(x: &[f32], of: impl Fn(f64) -> f64) -> f64 {
    let (blocks, rest) = x.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for block in blocks {
        for (sum, v) in sums.iter_mut().zip(block) {
            *sum += of(f64::from(*v));
        }
    }
    sums.into_iter().sum::<f64>() + rest.iter().map(|v| of(f64::from(*v))).sum::<f64>()
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

/// How many numbers are computed at a time on this processor: 16 with AVX-512, 8 with AVX2, 4 with NEON, else 1.
#[must_use]
pub fn vector_width() -> usize {
    struct Width;

    impl WithSimd for Width {
        type Output = usize;

        fn with_simd<S: Simd>(self, _: S) -> usize {
            size_of::<S::f32s>() / size_of::<f32>()
        }
    }

    Arch::new().dispatch(Width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;
    use proptest::prelude::*;
    use pulp::Scalar;

    /// Most processors have AVX2 and no AVX-512: what is built for one of the two alone is scalar on the others.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn vectors_wherever_there_are_any() {
        let wide = match Arch::new() {
            Arch::V4(_) => 16,
            Arch::V3(_) => 8,
            _ => 1,
        };
        assert_eq!(vector_width(), wide);
        assert!(wide > 1 || !is_x86_feature_detected!("avx2"));
    }

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
            // The weights as they are kept: in the lower half of a word, or all of it.
            let kept = |o: usize, i: usize| {
                let word = layer.pairs[o / STRIP * pairs(inputs) + i / 2][o % STRIP];
                f32::from_bits(if i.is_multiple_of(2) { word << 16 } else { word })
            };
            let mut wanted = Vec::new();
            for o in 0..outputs {
                let mut sum = f64::from(wave(o));
                for (i, x) in x.iter().enumerate() {
                    let weight = wave(o * inputs + i);
                    prop_assert!((kept(o, i) - weight).abs() <= weight.abs() / 256.0 + f32::MIN_POSITIVE);
                    sum += f64::from(kept(o, i)) * f64::from(*x);
                }
                wanted.push(sum);
            }
            let mut out = vec![f32::NAN; outputs];
            layer.apply(&x, &mut out);
            let mut plain = layer.bias.clone();
            if inputs > 0 {
                Product { pairs: &layer.pairs, x: &x, out: &mut plain }.with_simd(Scalar);
            }
            for ((got, plain), wanted) in out.iter().zip(&plain).zip(wanted) {
                prop_assert!((f64::from(*got) - wanted).abs() < 1e-5);
                prop_assert!((f64::from(*plain) - wanted).abs() < 1e-5);
            }
        }
    }
}
