//! Modal synthesis: a pool of struck, damped sinusoids.

use crate::control::FRAME;

/// Number of sinusoids that can sound at once.
const MAX_MODES: usize = 160;
/// Amplitude below which a sinusoid has ended (-86 dB).
const END_AMPLITUDE: f32 = 5e-5;

/// A damped sinusoid: a complex number multiplied by `step` at each sample.
#[derive(Clone, Copy, Default)]
struct Mode {
    re: f32,
    im: f32,
    step: [f32; 2],
    weights: [f32; 2],
    is_active: bool,
}

/// Parameters of one sinusoid.
#[derive(Clone, Copy)]
pub(crate) struct Partial {
    /// Hz; ignored above 0.42 of the sample rate.
    pub(crate) frequency: f32,
    pub(crate) amplitude: f32,
    /// Time constant of the decay, seconds.
    pub(crate) decay: f32,
}

pub(crate) struct Modes {
    pool: [Mode; MAX_MODES],
    sample_rate: f32,
}

impl Modes {
    pub(crate) fn new(sample_rate: f64) -> Self {
        Self {
            pool: [Mode::default(); MAX_MODES],
            sample_rate: sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.pool = [Mode::default(); MAX_MODES];
    }

    /// Starts a sinusoid at phase 0; dropped if none is free (reusing a sounding one would click).
    pub(crate) fn strike(&mut self, partial: Partial, weights: [f32; 2]) {
        let Partial {
            frequency,
            amplitude,
            decay,
        } = partial;
        if frequency > 0.42 * self.sample_rate || amplitude < END_AMPLITUDE {
            return;
        }
        let Some(mode) = self.pool.iter_mut().find(|mode| !mode.is_active) else {
            return;
        };
        let factor = (-1.0 / (decay * self.sample_rate)).exp();
        let angle = core::f32::consts::TAU * frequency / self.sample_rate;
        *mode = Mode {
            re: amplitude,
            im: 0.0,
            step: [factor * angle.cos(), factor * angle.sin()],
            weights,
            is_active: true,
        };
    }

    /// Adds a frame of every sounding sinusoid.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME]) {
        for mode in self.pool.iter_mut().filter(|mode| mode.is_active) {
            let ([cos, sin], [left, right]) = (mode.step, mode.weights);
            let (mut re, mut im) = (mode.re, mode.im);
            for y in output.iter_mut() {
                (re, im) = (re * cos - im * sin, re * sin + im * cos);
                y[0] += im * left;
                y[1] += im * right;
            }
            (mode.re, mode.im) = (re, im);
            mode.is_active = re * re + im * im > END_AMPLITUDE * END_AMPLITUDE;
        }
    }
}
