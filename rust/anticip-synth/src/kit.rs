//! Building blocks of drums: membranes (modes of a circular one, Rossing 2000) and bursts of filtered noise.

use fundsp::audionode::AudioNode;

use crate::control::FRAME;
use crate::modes::{Modes, Partial};
use crate::tone::{Band, White, band};

/// Modes of an ideal membrane, relative to the lowest: frequency ratio, amplitude, decay.
const MEMBRANE: [[f32; 3]; 6] = [
    [1.0, 1.0, 1.0],
    [1.59, 0.5, 0.6],
    [2.14, 0.4, 0.45],
    [2.3, 0.3, 0.4],
    [2.65, 0.25, 0.35],
    [2.92, 0.2, 0.3],
];
/// Bursts that can sound at once.
const MAX_BURSTS: usize = 8;

/// A burst of filtered noise.
struct Burst {
    band: Band,
    level: f32,
    rise: f32,
    fall: f32,
    weights: [f32; 2],
}

pub(crate) struct Kit {
    modes: Modes,
    bursts: [Burst; MAX_BURSTS],
    white: White,
    sample_rate: f32,
}

impl Kit {
    pub(crate) fn new(sample_rate: f64, seed: u64) -> Self {
        Self {
            modes: Modes::new(sample_rate),
            bursts: core::array::from_fn(|_| Burst {
                band: band(sample_rate, 1_000.0, 1.0),
                level: 0.0,
                rise: 0.0,
                fall: 0.0,
                weights: [1.0; 2],
            }),
            white: White::new(seed),
            sample_rate: sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.modes.reset();
        for burst in &mut self.bursts {
            burst.level = 0.0;
        }
        self.white.reset();
    }

    /// Strikes a membrane with this lowest frequency (Hz) and decay (seconds).
    pub(crate) fn drum(&mut self, frequency: f32, strength: f32, decay: f32, weights: [f32; 2]) {
        for [ratio, amplitude, decay_ratio] in MEMBRANE {
            let partial = Partial {
                frequency: frequency * ratio,
                amplitude: 0.4 * strength * amplitude,
                decay: decay * decay_ratio,
            };
            self.modes.strike(partial, weights);
        }
    }

    /// Starts a burst of noise; dropped if none is free.
    pub(crate) fn noise(&mut self, centre: f32, q: f32, strength: f32, decay: f32, weights: [f32; 2]) {
        let Some(burst) = self.bursts.iter_mut().find(|burst| burst.level <= 0.0) else {
            return;
        };
        burst.band.reset();
        burst.band.set_center_q(centre.min(0.4 * self.sample_rate), q);
        burst.level = strength;
        burst.rise = 0.0;
        burst.fall = (-1.0 / (decay * self.sample_rate)).exp();
        burst.weights = weights;
    }

    /// Writes a frame.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME]) {
        *output = [[0.0; 2]; FRAME];
        self.modes.render(output);
        let rise = 1.0 / (0.001 * self.sample_rate);
        for y in output.iter_mut() {
            let white = self.white.next();
            for burst in self.bursts.iter_mut().filter(|burst| burst.level > 0.0) {
                burst.rise = (burst.rise + rise).min(1.0);
                let x = burst.band.filter_mono(white * burst.rise * burst.level);
                burst.level *= burst.fall;
                if burst.level < 1e-4 {
                    burst.level = 0.0;
                }
                y[0] += x * burst.weights[0];
                y[1] += x * burst.weights[1];
            }
        }
    }
}
