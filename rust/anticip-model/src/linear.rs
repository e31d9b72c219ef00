//! Fully connected layers and norms of one row, in SIMD code for the processor's instruction set.

use std::sync::Arc;

use pulp::{Arch, Simd, WithSimd, bytemuck};

use crate::{ModelError, Tensors, tensor};

/// Outputs that are computed together.
const STRIP: usize = 16;
/// Inputs with separate partial sums, so that additions do not wait for each other; in bytes, they share a word.
const PARTIAL_SUMS: usize = 4;
/// Left shifts that move each byte of a word to the top.
const BYTE_SHIFTS: [u32; PARTIAL_SUMS] = [24, 16, 8, 0];
/// Mask of a word's top byte.
const TOP_BYTE: u32 = 0xff00_0000;
/// Value of one unit of the top byte.
const UNIT: f32 = 16_777_216.0;

/// Added to the variance of a norm.
const EPSILON: f64 = 1e-5;

/// Precision of stored weights. A step reads every weight once, from cold caches, so that its time depends on their
/// size (`docs/model.md` describes the effect of bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// `f32`, for the small layers that compute parameters and hazards.
    Full,
    /// Bytes relative to the largest weight of their row, inside the blocks.
    Bytes,
}

/// A fully connected layer: weights (outputs, inputs) and a bias.
///
/// The weights are stored in strips of [`STRIP`] outputs, each with all inputs one after the other: a product reads
/// them sequentially, which is fastest. Clones share them, so that with several performers the first one's step warms
/// the caches for the others.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    inputs: usize,
    precision: Precision,
    /// Weights of [`PARTIAL_SUMS`] inputs at a time, as one word or one byte each.
    words: Arc<[[u32; STRIP]]>,
    /// Factor of each output's products.
    scale: Arc<[f32]>,
    bias: Vec<f32>,
}

impl Linear {
    /// Reads `{name}.weight` and `{name}.bias`.
    pub(crate) fn new(
        tensors: &Tensors,
        name: &str,
        outputs: usize,
        inputs: usize,
        precision: Precision,
    ) -> Result<Self, ModelError> {
        Ok(Self {
            bias: tensor(tensors, &format!("{name}.bias"), &[outputs])?,
            ..Self::unbiased(tensors, name, outputs, inputs, precision)?
        })
    }

    /// Reads `{name}.weight` of a layer without a bias.
    pub(crate) fn unbiased(
        tensors: &Tensors,
        name: &str,
        outputs: usize,
        inputs: usize,
        precision: Precision,
    ) -> Result<Self, ModelError> {
        let weight = tensor(tensors, &format!("{name}.weight"), &[outputs, inputs])?;
        let length = inputs.div_ceil(PARTIAL_SUMS) * precision.words();
        let mut words = vec![[0; STRIP]; outputs.div_ceil(STRIP) * length];
        let mut scale = vec![1.0; outputs];
        for (output, (row, scale)) in weight.chunks_exact(inputs.max(1)).zip(&mut scale).enumerate() {
            let strip = words[output / STRIP * length..].iter_mut();
            let slots = strip.map(|words| &mut words[output % STRIP]);
            if precision == Precision::Full {
                slots.zip(row).for_each(|(slot, weight)| *slot = weight.to_bits());
                continue;
            }
            let largest = row.iter().fold(f32::MIN_POSITIVE, |most, w| most.max(w.abs()));
            // A row with NaN or infinity gets a scale of NaN.
            let unit_weight = largest / f32::from(i8::MAX) + 0.0 * row.iter().sum::<f32>();
            // Rounded, so that its products with bytes are exact: quantising twice changes nothing.
            let unit_weight = f32::from_bits(unit_weight.to_bits() & !0x7f);
            *scale = unit_weight / UNIT;
            for (slot, weights_chunk) in slots.zip(row.chunks(PARTIAL_SUMS)) {
                let byte = |i| {
                    weights_chunk
                        .get(i)
                        .map_or(0_i8, |w: &f32| (w / unit_weight).round_ties_even() as i8)
                        .cast_unsigned()
                };
                *slot = u32::from_le_bytes(std::array::from_fn(byte));
            }
        }
        Ok(Self {
            inputs,
            precision,
            words: words.into(),
            scale: scale.into(),
            bias: vec![0.0; outputs],
        })
    }

    /// Number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Computes the layer's outputs.
    pub(crate) fn apply(&self, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(&self.bias);
        self.add(x, out);
    }

    /// Adds the products with the weights to `out`, without the bias.
    pub(crate) fn add(&self, x: &[f32], out: &mut [f32]) {
        if self.inputs > 0 {
            Arch::new().dispatch(Product { layer: self, x, out });
        }
    }
}

impl Precision {
    /// Number of words of [`PARTIAL_SUMS`] weights.
    fn words(self) -> usize {
        if self == Self::Full { PARTIAL_SUMS } else { 1 }
    }
}

struct Product<'a> {
    layer: &'a Linear,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        match (size_of::<S::f32s>() / size_of::<f32>(), self.layer.precision) {
            (16, Precision::Full) => self.run::<S, 1, false>(s),
            (8, Precision::Full) => self.run::<S, 2, false>(s),
            (4, Precision::Full) => self.run::<S, 4, false>(s),
            (_, Precision::Full) => self.run::<S, STRIP, false>(s),
            (16, Precision::Bytes) => self.run::<S, 1, true>(s),
            (8, Precision::Bytes) => self.run::<S, 2, true>(s),
            (4, Precision::Bytes) => self.run::<S, 4, true>(s),
            (_, Precision::Bytes) => self.run::<S, STRIP, true>(s),
        }
    }
}

impl Product<'_> {
    /// Runs the product with `V` vectors per strip.
    #[inline(always)]
    fn run<S: Simd, const V: usize, const BYTES: bool>(self, s: S) {
        let words = S::as_simd_u32s(self.layer.words.as_flattened())
            .0
            .as_chunks::<V>()
            .0;
        let size = if BYTES { 1 } else { PARTIAL_SUMS };
        let (left, upper) = (BYTE_SHIFTS.map(|by| s.splat_u32s(by)), s.splat_u32s(TOP_BYTE));
        let (whole_chunks, remainder) = self.x.as_chunks::<PARTIAL_SUMS>();
        let mut last = [0.0; PARTIAL_SUMS];
        last[..remainder.len()].copy_from_slice(remainder);
        let last = &[last][..usize::from(!remainder.is_empty())];
        let strips = words.chunks_exact(self.x.len().div_ceil(PARTIAL_SUMS) * size);
        let outputs = self.out.chunks_mut(STRIP).zip(self.layer.scale.chunks(STRIP));
        for (strip, (out, scale)) in strips.zip(outputs) {
            let mut sums = [[s.splat_f32s(0.0); V]; PARTIAL_SUMS];
            for (words, x) in strip.chunks_exact(size).zip(whole_chunks.iter().chain(last)) {
                for (i, x) in x.iter().enumerate() {
                    let x = s.splat_f32s(*x);
                    for v in 0..V {
                        let weight = if BYTES {
                            let moved = s.wrapping_dyn_shl_u32s(words[0][v], left[i]);
                            to_floats(s, s.and_u32s(moved, upper))
                        } else {
                            s.transmute_f32s_u32s(words[i][v])
                        };
                        sums[i][v] = s.mul_add_e_f32s(weight, x, sums[i][v]);
                    }
                }
            }
            let [mut all, b, c, d] = sums;
            for v in 0..V {
                all[v] = s.add_f32s(s.add_f32s(all[v], b[v]), s.add_f32s(c[v], d[v]));
            }
            let sums = bytemuck::cast_slice::<_, f32>(&all);
            for (out, (sum, scale)) in out.iter_mut().zip(sums.iter().zip(scale)) {
                *out += sum * scale;
            }
        }
    }
}

/// Converts words from signed integers to floats; the compiler turns it into one instruction.
#[inline(always)]
fn to_floats<S: Simd>(s: S, words: S::u32s) -> S::f32s {
    let mut numbers = [s.splat_f32s(0.0)];
    let to = bytemuck::cast_slice_mut::<_, f32>(&mut numbers).iter_mut();
    for (to, word) in to.zip(bytemuck::cast_slice::<_, i32>(&[words])) {
        *to = *word as f32;
    }
    numbers[0]
}

/// Layer norm: normalises a row to zero mean and unit variance, then scales and shifts it.
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

/// The sum of a function of each number, in eight partial sums that the compiler keeps in vector registers.
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

/// The inner product, in sixteen partial sums that the compiler keeps in vector registers.
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

/// Number of `f32` lanes of this processor's vectors: 16 with AVX-512, 8 with AVX2, 4 with NEON, else 1.
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

    /// The tensors of a layer named "l".
    fn tensors(outputs: usize, inputs: usize, value: impl Fn(usize) -> f32) -> Tensors {
        let tensor = |shape: Vec<usize>| Tensor {
            values: (0..shape.iter().product()).map(&value).collect(),
            shape,
        };
        [
            ("l.weight".to_owned(), tensor(vec![outputs, inputs])),
            ("l.bias".to_owned(), tensor(vec![outputs])),
        ]
        .into()
    }

    /// A weight as it is kept.
    fn kept(layer: &Linear, output: usize, input: usize) -> f32 {
        let size = layer.precision.words();
        let at = output / STRIP * layer.inputs.div_ceil(PARTIAL_SUMS) * size;
        if layer.precision == Precision::Full {
            return f32::from_bits(layer.words[at + input][output % STRIP]);
        }
        let byte = layer.words[at + input / PARTIAL_SUMS][output % STRIP].to_le_bytes()[input % PARTIAL_SUMS];
        f32::from(byte.cast_signed()) * UNIT * layer.scale[output]
    }

    proptest! {
        /// With the instructions at hand and with none, a layer is its definition with the weights that it keeps, and
        /// those are as near as they can be.
        #[test]
        fn products(outputs in 1_usize..70, inputs in 0_usize..70, seed in 0.0_f32..9.0, bytes: bool) {
            let wave = |i: usize| (seed + 1.7 * i as f32).sin();
            let tensors = tensors(outputs, inputs, wave);
            let precision = if bytes { Precision::Bytes } else { Precision::Full };
            let layer = Linear::new(&tensors, "l", outputs, inputs, precision).expect("both are there");
            let x: Vec<f32> = (0..inputs).map(|i| wave(3 * i)).collect();
            let mut wanted = Vec::new();
            for o in 0..outputs {
                let mut sum = f64::from(wave(o));
                for (i, x) in x.iter().enumerate() {
                    let weight = kept(&layer, o, i);
                    let most = if bytes { 0.501 * UNIT * layer.scale[o] } else { 0.0 };
                    prop_assert!((weight - wave(o * inputs + i)).abs() <= most);
                    sum += f64::from(weight) * f64::from(*x);
                }
                wanted.push(sum);
            }
            let mut out = vec![f32::NAN; outputs];
            layer.apply(&x, &mut out);
            let mut plain = layer.bias.clone();
            if inputs > 0 {
                Product { layer: &layer, x: &x, out: &mut plain }.with_simd(Scalar);
            }
            for ((got, plain), wanted) in out.iter().zip(&plain).zip(wanted) {
                prop_assert!((f64::from(*got) - wanted).abs() < 1e-5);
                prop_assert!((f64::from(*plain) - wanted).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn rows_of_zeros_and_of_no_numbers() {
        for (weight, wanted) in [(0.0, Some(0.0)), (f32::NAN, None), (f32::INFINITY, None)] {
            let tensors = tensors(1, 5, |i| if i == 3 { weight } else { 0.0 });
            let layer = Linear::unbiased(&tensors, "l", 1, 5, Precision::Bytes).expect("it is there");
            let mut out = [1.0];
            layer.apply(&[3.0; 5], &mut out);
            assert_eq!(Some(out[0]).filter(|out| !out.is_nan()), wanted);
        }
    }
}
