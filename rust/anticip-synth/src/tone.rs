//! The end of most presets' signal chains: drive, beating, resonances and a low-pass; and a noise source.

use fundsp::audionode::AudioNode;
use fundsp::svf::{BandpassMode, BellMode, FixedSvf, LowpassMode, SvfMode, SvfParams};

use crate::control::{FRAME, Line};
use crate::manner::{Following, Shape};
use crate::presets::{Controls, scale};

/// Beating frequency at full roughness, Hz: where the ear perceives harshness (Plomp & Levelt 1965).
pub(crate) const BEATING_HZ: f32 = 47.0;
/// Samples between two updates of the filter coefficients.
const FILTER_STEP: usize = 8;
/// Cutoff of the filter that removes the DC offset left by saturation, Hz.
const DC_CUTOFF_HZ: f32 = 10.0;
/// Resonance of the low-pass.
const LOW_Q: f32 = 0.8;
/// Amplitude of an inaudible oscillation (-360 dB) that keeps filters out of denormal numbers.
const BIAS: f32 = 1e-18;

/// Sets a node's sample rate.
pub(crate) fn with_sample_rate<N: AudioNode>(mut node: N, sample_rate: f64) -> N {
    node.set_sample_rate(sample_rate);
    node
}

fn filter<M: SvfMode<f32>>(mode: M, sample_rate: f64, cutoff: f32, q: f32, gain: f32) -> FixedSvf<f32, M> {
    let params = SvfParams {
        sample_rate: sample_rate as f32,
        cutoff,
        q,
        gain,
    };
    with_sample_rate(FixedSvf::new(mode, &params), sample_rate)
}

pub(crate) type Band = FixedSvf<f32, BandpassMode<f32>>;

/// A band-pass with peak gain 1.
pub(crate) fn band(sample_rate: f64, centre: f32, q: f32) -> Band {
    filter(BandpassMode::new(), sample_rate, centre, q, 1.0)
}

/// Gains of left and right at a position from 0 (left) to 1 (right): of equal power, 1 each in the middle.
pub(crate) fn equal_power(pan: f32) -> [f32; 2] {
    let angle = pan * core::f32::consts::FRAC_PI_2;
    [angle.cos(), angle.sin()].map(|w| w * core::f32::consts::SQRT_2)
}

/// Applies loudness and equal-power panning: the middle of the sound goes to the pan position, its sides around it.
pub(crate) fn apply_loudness_and_pan(sound: &mut [[f32; 2]; FRAME], loudness: Line, pan: Line) {
    let left = pan.map(|p| equal_power(p)[0]);
    let right = pan.map(|p| equal_power(p)[1]);
    for (i, x) in sound.iter_mut().enumerate() {
        let loud = loudness.at(i);
        let level = 1.65 * loud * loud;
        let middle = 0.5 * (x[0] + x[1]);
        let side = 0.5 * (x[0] - x[1]);
        *x = [
            left.at(i) * level * (middle + side),
            right.at(i) * level * (middle - side),
        ];
    }
}

/// Smooth saturation, slope 1 at 0 and at most 1 beyond: the Pade approximant of tanh, within 2 % up to 3.
#[inline]
pub(crate) fn saturate(x: f32) -> f32 {
    let x = x.clamp(-3.0, 3.0);
    let s = x * x;
    x * (27.0 + s) / (27.0 + 9.0 * s)
}

/// A stereo low-pass with a moving cutoff.
pub(crate) struct LowPass {
    filters: [FixedSvf<f32, LowpassMode<f32>>; 2],
    max_cutoff: f32,
}

impl LowPass {
    pub(crate) fn new(sample_rate: f64) -> Self {
        Self {
            filters: [(); 2].map(|()| filter(LowpassMode::new(), sample_rate, 1_000.0, LOW_Q, 1.0)),
            max_cutoff: 0.42 * sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        for filter in &mut self.filters {
            filter.reset();
        }
    }

    /// Updates the cutoff (Hz) at sample `i` of a frame; `cutoff` is evaluated only once every few samples.
    #[inline]
    pub(crate) fn update_cutoff(&mut self, i: usize, cutoff: impl FnOnce() -> f32) {
        if i.is_multiple_of(FILTER_STEP) {
            let cutoff = cutoff().min(self.max_cutoff);
            for filter in &mut self.filters {
                filter.set_cutoff(cutoff);
            }
        }
    }

    #[inline]
    pub(crate) fn tick(&mut self, side: usize, x: f32) -> f32 {
        self.filters[side].filter_mono(x)
    }
}

/// Resonances of a body: Hz, Q and dB of each band.
pub(crate) type Body = [[f32; 3]; 3];

/// Drive and beating by roughness, the body's resonances, a low-pass.
pub(crate) struct Tone {
    body: [[FixedSvf<f32, BellMode<f32>>; 3]; 2],
    bands: Body,
    octaves: f32,
    following: Following,
    /// As the resonances are set.
    shape: Shape,
    low: LowPass,
    /// DC offset on each side, as estimated.
    dc_offset: [f32; 2],
    /// Coefficient of its estimation, per sample.
    dc_rate: f32,
    phase: f32,
    step: f32,
    max_cutoff: f32,
}

impl Tone {
    pub(crate) fn new(sample_rate: f64, body: &Body) -> Self {
        Self::transposed(sample_rate, body, 0.0)
    }

    /// The same with body and low-pass shifted up by `octaves`.
    pub(crate) fn transposed(sample_rate: f64, body: &Body, octaves: f32) -> Self {
        let bands = body.map(|[centre, q, decibels]| [centre * octaves.exp2(), q, decibels]);
        let resonance_filter = |[centre, q, decibels]: [f32; 3]| {
            let (cutoff, gain) = (
                centre.min(0.4 * sample_rate as f32),
                10.0_f32.powf(decibels / 20.0),
            );
            filter(BellMode::new(), sample_rate, cutoff, q, gain)
        };
        Self {
            body: [bands.map(resonance_filter), bands.map(resonance_filter)],
            bands,
            octaves,
            following: Following::default(),
            shape: Shape::default(),
            low: LowPass::new(sample_rate),
            dc_offset: [0.0; 2],
            dc_rate: 1.0 - (-core::f32::consts::TAU * DC_CUTOFF_HZ / sample_rate as f32).exp(),
            phase: 0.0,
            step: core::f32::consts::TAU * BEATING_HZ / sample_rate as f32,
            max_cutoff: 0.42 * sample_rate as f32,
        }
    }

    /// The same with resonances that follow the performer's manner, at about the same loudness.
    pub(crate) fn following(self, following: Following) -> Self {
        Self { following, ..self }
    }

    pub(crate) fn reset(&mut self) {
        // NaN forces an update in the next frame.
        self.shape.octaves = f32::NAN;
        for node in self.body.iter_mut().flatten() {
            node.reset();
        }
        self.low.reset();
        self.dc_offset = [0.0; 2];
        self.phase = 0.0;
    }

    /// Power of partials, each given as Hz and power, after this frame's filters; `octaves` as in
    /// [`Tone::render`].
    pub(crate) fn output_power(
        &self,
        controls: &Controls,
        octaves: Line,
        partials: impl Iterator<Item = [f32; 2]>,
    ) -> f32 {
        let shift = controls.resonance_shift().exp2();
        let bands = self.bands.map(|[centre, q, decibels]| {
            let rise = 10.0_f32.powf(decibels / 40.0);
            [(centre * shift).min(self.max_cutoff), rise / q, 1.0 / (rise * q)]
        });
        let cutoff = (110.0 * (octaves.to + self.octaves).exp2()).min(self.max_cutoff);
        // Squared magnitudes of the filters' prototypes: a bell, and the low-pass.
        let resonance = |ratio: f32, width: f32| {
            let (real, imaginary) = (1.0 - ratio * ratio, ratio * width);
            real * real + imaginary * imaginary
        };
        let filtered_power = |[hz, power]: [f32; 2]| {
            let band_powers = bands.map(|[centre, numerator, denominator]| {
                resonance(hz / centre, numerator) / resonance(hz / centre, denominator)
            });
            power * band_powers.iter().product::<f32>() / resonance(hz / cutoff, 1.0 / LOW_Q)
        };
        partials.map(filtered_power).sum()
    }

    /// Processes a frame in place. `octaves`, above 110 Hz and transposed with the body, is the cutoff of the
    /// low-pass.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME], controls: &Controls, octaves: Line) {
        self.render_shifted(output, controls, octaves, controls.resonance_shift());
    }

    /// The same with the resonances shifted up by `shift` octaves.
    pub(crate) fn render_shifted(
        &mut self,
        output: &mut [[f32; 2]; FRAME],
        controls: &Controls,
        octaves: Line,
        shift: f32,
    ) {
        let mut shape = self.following.shape(controls.manner);
        shape.octaves += shift;
        if shape != self.shape {
            self.shape = shape;
            for (k, [centre, q, decibels]) in self.bands.into_iter().enumerate() {
                let centre = (centre * shape.octaves.exp2()).min(self.max_cutoff);
                let gain = 10.0_f32.powf((decibels + shape.lifts[k]) / 20.0);
                for node in &mut self.body {
                    node[k].set_center_q_gain(centre, q, gain);
                }
            }
        }
        for (i, x) in output.iter_mut().enumerate() {
            self.low
                .update_cutoff(i, || 110.0 * (octaves.at(i) + self.octaves).exp2());
            let rough = controls.roughness.at(i);
            // Drive makes quiet sound louder; compensated, so that roughness does not act as loudness.
            let drive = 1.0 + 7.0 * rough * rough;
            let level = 1.0 / (0.22 * drive + 0.78);
            self.phase += self.step;
            let oscillation = self.phase.sin();
            let beat = 1.0 - 0.45 * rough * rough.sqrt() * (1.0 + oscillation);
            for (side, (v, body)) in x.iter_mut().zip(&mut self.body).enumerate() {
                let driven = saturate(*v * drive) * level * beat + BIAS * oscillation;
                let dc_offset = &mut self.dc_offset[side];
                *dc_offset += self.dc_rate * (driven - *dc_offset);
                let band_powers = body
                    .iter_mut()
                    .fold(driven - *dc_offset, |v, node| node.filter_mono(v));
                *v = self.low.tick(side, band_powers);
            }
        }
        self.phase %= core::f32::consts::TAU;
        scale(output, 10.0_f32.powf(-shape.louder / 20.0));
    }
}

/// White noise in -1..1; depends only on the seed and the number of values drawn.
#[derive(Clone)]
pub(crate) struct White {
    seed: u32,
    state: u32,
}

impl White {
    pub(crate) fn new(seed: u64) -> Self {
        let seed = (seed ^ (seed >> 32)) as u32 ^ 0x9e37_79b9;
        Self { seed, state: seed }
    }

    pub(crate) fn reset(&mut self) {
        self.state = self.seed;
    }

    #[inline]
    pub(crate) fn next(&mut self) -> f32 {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.state >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
}
