//! Fully connected layers and norms of one row, in vector code for the processor at hand.

use std::sync::Arc;

use pulp::{Arch, Simd, WithSimd, bytemuck};

use crate::{ModelError, Tensors, tensor};

/// Outputs that are summed side by side.
const STRIP: usize = 16;
/// Inputs with sums of their own, so that additions need not wait for each other; of a byte each, they share a word.
const APART: usize = 4;
/// How far to the left the bytes of a word have to go to be its upper one.
const LEFT: [u32; APART] = [24, 16, 8, 0];
const UPPER: u32 = 0xff00_0000;
/// What is one for an upper byte.
const UNIT: f32 = 16_777_216.0;

const EPSILON: f64 = 1e-5;

/// How weights are kept. A step reads every weight once, out of caches that are cold, and takes as long as there is to
/// read (`docs/model.md` says what bytes change).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// As they are: where parameters and hazards are read off, and little is to be read.
    Full,
    /// In bytes relative to the largest of their row: inside the blocks.
    Bytes,
}

/// A fully connected layer: weights (outputs, inputs) and a bias.
///
/// The weights lie in strips of [`STRIP`] outputs, of each strip all inputs one after the other: a product reads them
/// from the first to the last, which is as fast as memory gives them. Clones share them, so that of several performers
/// the first one's step warms the others'.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    inputs: usize,
    precision: Precision,
    /// Of [`APART`] inputs at a time a number each, or a byte each.
    words: Arc<[[u32; STRIP]]>,
    /// What an output's products are multiplied with.
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

    /// A layer of weights alone.
    pub(crate) fn unbiased(
        tensors: &Tensors,
        name: &str,
        outputs: usize,
        inputs: usize,
        precision: Precision,
    ) -> Result<Self, ModelError> {
        let weight = tensor(tensors, &format!("{name}.weight"), &[outputs, inputs])?;
        let length = inputs.div_ceil(APART) * precision.words();
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
            // What is no number, or infinite, stays none.
            let one = largest / f32::from(i8::MAX) + 0.0 * row.iter().sum::<f32>();
            // All bytes of it are exact: what was kept is kept as it is.
            let one = f32::from_bits(one.to_bits() & !0x7f);
            *scale = one / UNIT;
            for (slot, some) in slots.zip(row.chunks(APART)) {
                let byte = |i| {
                    some.get(i)
                        .map_or(0_i8, |w: &f32| (w / one).round_ties_even() as i8)
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
            Arch::new().dispatch(Product { layer: self, x, out });
        }
    }
}

impl Precision {
    /// Words of [`APART`] weights.
    fn words(self) -> usize {
        if self == Self::Full { APART } else { 1 }
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
    /// `V` vectors are a strip.
    #[inline(always)]
    fn run<S: Simd, const V: usize, const BYTES: bool>(self, s: S) {
        let words = S::as_simd_u32s(self.layer.words.as_flattened())
            .0
            .as_chunks::<V>()
            .0;
        let size = if BYTES { 1 } else { APART };
        let (left, upper) = (LEFT.map(|by| s.splat_u32s(by)), s.splat_u32s(UPPER));
        let (many, few) = self.x.as_chunks::<APART>();
        let mut last = [0.0; APART];
        last[..few.len()].copy_from_slice(few);
        let last = &[last][..usize::from(!few.is_empty())];
        let strips = words.chunks_exact(self.x.len().div_ceil(APART) * size);
        let outputs = self.out.chunks_mut(STRIP).zip(self.layer.scale.chunks(STRIP));
        for (strip, (out, scale)) in strips.zip(outputs) {
            let mut sums = [[s.splat_f32s(0.0); V]; APART];
            for (words, x) in strip.chunks_exact(size).zip(many.iter().chain(last)) {
                for (i, x) in x.iter().enumerate() {
                    let x = s.splat_f32s(*x);
                    for v in 0..V {
                        let weight = if BYTES {
                            let moved = s.wrapping_dyn_shl_u32s(words[0][v], left[i]);
                            converted(s, s.and_u32s(moved, upper))
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

/// Words as signed whole numbers; a compiler makes one instruction of it.
#[inline(always)]
fn converted<S: Simd>(s: S, words: S::u32s) -> S::f32s {
    let mut numbers = [s.splat_f32s(0.0)];
    let to = bytemuck::cast_slice_mut::<_, f32>(&mut numbers).iter_mut();
    for (to, word) in to.zip(bytemuck::cast_slice::<_, i32>(&[words])) {
        *to = *word as f32;
    }
    numbers[0]
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
        let at = output / STRIP * layer.inputs.div_ceil(APART) * size;
        if layer.precision == Precision::Full {
            return f32::from_bits(layer.words[at + input][output % STRIP]);
        }
        let byte = layer.words[at + input / APART][output % STRIP].to_le_bytes()[input % APART];
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
