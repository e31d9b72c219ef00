//! What most presets end with: drive, beating, a body and a low-pass; and a source of noise.

use fundsp::audionode::AudioNode;
use fundsp::svf::{BandpassMode, BellMode, FixedSvf, LowpassMode, SvfMode, SvfParams};

use crate::control::{FRAME, Line};
use crate::manner::Shape;
use crate::presets::{Controls, scale};

/// Beating of full roughness, Hz: in the range where the ear hears it as harshness (Plomp & Levelt 1965).
pub(crate) const BEATING: f32 = 47.0;
/// Samples between two computations of the filter's coefficients.
const FILTER_STEP: usize = 8;
/// Where what saturation leaves of something constant ends and sound begins, Hz.
const LOWEST: f32 = 10.0;
/// Resonance of the low-pass.
const LOW_Q: f32 = 0.8;
/// What swings far below audibility (-360 dB) keeps filters out of denormal numbers.
const BIAS: f32 = 1e-18;

/// A node that runs at this rate.
pub(crate) fn running<N: AudioNode>(mut node: N, sample_rate: f64) -> N {
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
    running(FixedSvf::new(mode, &params), sample_rate)
}

pub(crate) type Band = FixedSvf<f32, BandpassMode<f32>>;

/// A band-pass whose peak gain is 1.
pub(crate) fn band(sample_rate: f64, centre: f32, q: f32) -> Band {
    filter(BandpassMode::new(), sample_rate, centre, q, 1.0)
}

/// Smooth saturation, slope 1 at 0 and at most 1 beyond: the Pade approximant of tanh, exact to 2 % up to 3.
#[inline]
pub(crate) fn saturate(x: f32) -> f32 {
    let x = x.clamp(-3.0, 3.0);
    let s = x * x;
    x * (27.0 + s) / (27.0 + 9.0 * s)
}

/// A low-pass whose cut-off moves: one for each side.
pub(crate) struct LowPass {
    filters: [FixedSvf<f32, LowpassMode<f32>>; 2],
    highest: f32,
}

impl LowPass {
    pub(crate) fn new(sample_rate: f64) -> Self {
        Self {
            filters: [(); 2].map(|()| filter(LowpassMode::new(), sample_rate, 1_000.0, LOW_Q, 1.0)),
            highest: 0.42 * sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        for filter in &mut self.filters {
            filter.reset();
        }
    }

    /// Where it cuts at sample `i` of a frame, Hz: asked for once in a few samples.
    #[inline]
    pub(crate) fn cut(&mut self, i: usize, cutoff: impl FnOnce() -> f32) {
        if i.is_multiple_of(FILTER_STEP) {
            let cutoff = cutoff().min(self.highest);
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

/// A body that rings: Hz, Q and dB of each of its bands.
pub(crate) type Body = [[f32; 3]; 3];

/// Drive and beating by roughness, the body, a low-pass.
pub(crate) struct Tone {
    body: [[FixedSvf<f32, BellMode<f32>>; 3]; 2],
    bands: Body,
    octaves: f32,
    shape: Shape,
    low: LowPass,
    /// What is constant on each side, and how fast it is followed.
    constant: [f32; 2],
    follow: f32,
    phase: f32,
    step: f32,
    highest: f32,
}

impl Tone {
    pub(crate) fn new(sample_rate: f64, body: &Body) -> Self {
        Self::raised(sample_rate, body, 0.0)
    }

    /// The same so many octaves higher, body and low-pass.
    pub(crate) fn raised(sample_rate: f64, body: &Body, octaves: f32) -> Self {
        let bands = body.map(|[centre, q, decibels]| [centre * octaves.exp2(), q, decibels]);
        let ring = |[centre, q, decibels]: [f32; 3]| {
            let (cutoff, gain) = (
                centre.min(0.4 * sample_rate as f32),
                10.0_f32.powf(decibels / 20.0),
            );
            filter(BellMode::new(), sample_rate, cutoff, q, gain)
        };
        Self {
            body: [bands.map(ring), bands.map(ring)],
            bands,
            octaves,
            shape: Shape::default(),
            low: LowPass::new(sample_rate),
            constant: [0.0; 2],
            follow: 1.0 - (-core::f32::consts::TAU * LOWEST / sample_rate as f32).exp(),
            phase: 0.0,
            step: core::f32::consts::TAU * BEATING / sample_rate as f32,
            highest: 0.42 * sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        // Computed anew with the next frame.
        self.shape.small = f32::NAN;
        for node in self.body.iter_mut().flatten() {
            node.reset();
        }
        self.low.reset();
        self.constant = [0.0; 2];
        self.phase = 0.0;
    }

    /// Power that is left of partials, each its Hz and power, in this frame; `octaves` as in [`Tone::render`].
    pub(crate) fn passed(
        &self,
        controls: &Controls,
        octaves: Line,
        partials: impl Iterator<Item = [f32; 2]>,
    ) -> f32 {
        let small = controls.small().exp2();
        let bands = self.bands.map(|[centre, q, decibels]| {
            let rise = 10.0_f32.powf(decibels / 40.0);
            [(centre * small).min(self.highest), rise / q, 1.0 / (rise * q)]
        });
        let cutoff = (110.0 * (octaves.to + self.octaves).exp2()).min(self.highest);
        // The filters' prototypes: a bell, and the low-pass.
        let resonance = |ratio: f32, width: f32| {
            let (apart, along) = (1.0 - ratio * ratio, ratio * width);
            apart * apart + along * along
        };
        let left = |[hz, power]: [f32; 2]| {
            let rung =
                bands.map(|[centre, up, down]| resonance(hz / centre, up) / resonance(hz / centre, down));
            power * rung.iter().product::<f32>() / resonance(hz / cutoff, 1.0 / LOW_Q)
        };
        partials.map(left).sum()
    }

    /// Shapes a frame in place; `octaves` above 110 Hz, in a body that is not raised, is where the low-pass begins to cut.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME], controls: &Controls, octaves: Line) {
        self.sized(output, controls, octaves, controls.small());
    }

    /// The same in a body whose resonances lie `small` octaves higher than in the middle.
    pub(crate) fn sized(
        &mut self,
        output: &mut [[f32; 2]; FRAME],
        controls: &Controls,
        octaves: Line,
        small: f32,
    ) {
        let shape = Shape {
            small,
            ..Shape::default()
        };
        self.shaped(output, controls, octaves, shape);
    }

    /// The same as [`Tone::render`] in a body of the performer's own, which is kept about as loud.
    pub(crate) fn performed(
        &mut self,
        output: &mut [[f32; 2]; FRAME],
        controls: &Controls,
        octaves: Line,
        manner: Shape,
    ) {
        let shape = Shape {
            small: controls.small() + manner.small,
            ..manner
        };
        self.shaped(output, controls, octaves, shape);
        scale(output, 10.0_f32.powf(-shape.louder / 20.0));
    }

    fn shaped(&mut self, output: &mut [[f32; 2]; FRAME], controls: &Controls, octaves: Line, shape: Shape) {
        if shape != self.shape {
            self.shape = shape;
            for (k, [centre, q, decibels]) in self.bands.into_iter().enumerate() {
                let centre = (centre * shape.small.exp2()).min(self.highest);
                let gain = 10.0_f32.powf((decibels + shape.lifts[k]) / 20.0);
                for node in &mut self.body {
                    node[k].set_center_q_gain(centre, q, gain);
                }
            }
        }
        for (i, x) in output.iter_mut().enumerate() {
            self.low.cut(i, || 110.0 * (octaves.at(i) + self.octaves).exp2());
            let rough = controls.roughness.at(i);
            // Drive raises the level of the quiet; divided out so that roughness is not loudness.
            let drive = 1.0 + 7.0 * rough * rough;
            let level = 1.0 / (0.22 * drive + 0.78);
            self.phase += self.step;
            let swing = self.phase.sin();
            let beat = 1.0 - 0.45 * rough * rough.sqrt() * (1.0 + swing);
            for (side, (v, body)) in x.iter_mut().zip(&mut self.body).enumerate() {
                let driven = saturate(*v * drive) * level * beat + BIAS * swing;
                let constant = &mut self.constant[side];
                *constant += self.follow * (driven - *constant);
                let rung = body
                    .iter_mut()
                    .fold(driven - *constant, |v, node| node.filter_mono(v));
                *v = self.low.tick(side, rung);
            }
        }
        self.phase %= core::f32::consts::TAU;
    }
}

/// White noise, -1..1, that depends on the seed and on how much was drawn alone.
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
