//! Modal synthesis: a pool of struck, damped sinusoids.

use crate::control::FRAME;

/// Sinusoids that can sound at once.
const POOL: usize = 160;
/// Amplitude below which one has ended (-86 dB).
const END: f32 = 5e-5;

/// A sinusoid as a number that turns in the complex plane and shrinks.
#[derive(Clone, Copy, Default)]
struct Mode {
    re: f32,
    im: f32,
    turn: [f32; 2],
    weights: [f32; 2],
    sounding: bool,
}

/// What one sinusoid is struck with.
#[derive(Clone, Copy)]
pub(crate) struct Partial {
    /// Hz; above 0.42 of the sample rate it is not heard.
    pub(crate) frequency: f32,
    pub(crate) amplitude: f32,
    /// Time constant of the decay, seconds.
    pub(crate) decay: f32,
}

pub(crate) struct Modes {
    pool: [Mode; POOL],
    sample_rate: f32,
}

impl Modes {
    pub(crate) fn new(sample_rate: f64) -> Self {
        Self {
            pool: [Mode::default(); POOL],
            sample_rate: sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.pool = [Mode::default(); POOL];
    }

    /// Strikes a sinusoid, which begins at zero; with none free it is not heard (taking one would click).
    pub(crate) fn strike(&mut self, partial: Partial, weights: [f32; 2]) {
        let Partial {
            frequency,
            amplitude,
            decay,
        } = partial;
        if frequency > 0.42 * self.sample_rate || amplitude < END {
            return;
        }
        let Some(mode) = self.pool.iter_mut().find(|mode| !mode.sounding) else {
            return;
        };
        let shrink = (-1.0 / (decay * self.sample_rate)).exp();
        let angle = core::f32::consts::TAU * frequency / self.sample_rate;
        *mode = Mode {
            re: amplitude,
            im: 0.0,
            turn: [shrink * angle.cos(), shrink * angle.sin()],
            weights,
            sounding: true,
        };
    }

    /// Adds a frame of every sounding sinusoid.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME]) {
        for mode in self.pool.iter_mut().filter(|mode| mode.sounding) {
            let ([cos, sin], [left, right]) = (mode.turn, mode.weights);
            let (mut re, mut im) = (mode.re, mode.im);
            for y in output.iter_mut() {
                (re, im) = (re * cos - im * sin, re * sin + im * cos);
                y[0] += im * left;
                y[1] += im * right;
            }
            (mode.re, mode.im) = (re, im);
            mode.sounding = re * re + im * im > END * END;
        }
    }
}
