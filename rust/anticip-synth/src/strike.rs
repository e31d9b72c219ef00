//! The noise of an onset: a short burst of noise around 2 kHz.

use fundsp::audionode::AudioNode;
use fundsp::buffer::{BufferRef, BufferVec};
use fundsp::noise::Noise;

use crate::control::FRAME;
use crate::tone::{Band, band};

/// Rise time of the burst, seconds.
const ATTACK_S: f32 = 0.002;
/// Decay time of the burst, seconds.
const DECAY_S: f32 = 0.045;
/// Centre of the band, Hz.
const CENTRE_HZ: f32 = 1_900.0;

#[derive(Clone)]
pub(crate) struct Strike {
    noise: Noise,
    band: Band,
    buffer: BufferVec,
    seed: u64,
    /// Strength that has not risen yet.
    pending: f32,
    /// Current level.
    level: f32,
    rise: f32,
    fall: f32,
}

impl Strike {
    pub(crate) fn new(sample_rate: f64, seed: u64) -> Self {
        let mut noise = Noise::new();
        noise.set_hash(seed);
        Self {
            noise,
            band: band(sample_rate, CENTRE_HZ, 0.9),
            buffer: BufferVec::new(1),
            seed,
            pending: 0.0,
            level: 0.0,
            rise: 1.0 - (-1.0 / (ATTACK_S * sample_rate as f32)).exp(),
            fall: (-1.0 / (DECAY_S * sample_rate as f32)).exp(),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.noise.set_hash(self.seed);
        self.band.reset();
        self.pending = 0.0;
        self.level = 0.0;
    }

    /// Adds a burst.
    pub(crate) fn strike(&mut self, strength: f32) {
        self.pending = (self.pending + strength).min(1.5);
    }

    /// Adds a frame of the burst to both channels of `output`.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME]) {
        // The noise always runs on, so that it depends on the sample count alone.
        self.noise
            .process(FRAME, &BufferRef::empty(), &mut self.buffer.buffer_mut());
        if self.pending < 1e-4 && self.level < 1e-4 {
            self.band.reset();
            self.pending = 0.0;
            self.level = 0.0;
            return;
        }
        for (y, x) in output.iter_mut().zip(self.buffer.channel_f32(0)) {
            let risen = self.pending * self.rise;
            self.pending -= risen;
            self.level = (self.level + risen) * self.fall;
            let burst = self.band.filter_mono(*x * self.level);
            y[0] += burst;
            y[1] += burst;
        }
    }
}
