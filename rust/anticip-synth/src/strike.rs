//! The noise of an onset: a short band of noise around 2 kHz.

use fundsp::audionode::AudioNode;
use fundsp::buffer::{BufferRef, BufferVec};
use fundsp::noise::Noise;

use crate::control::FRAME;
use crate::tone::{Band, band};

/// Rise and fall of the burst, seconds.
const ATTACK: f32 = 0.002;
const DECAY: f32 = 0.045;
/// Centre of the band, Hz.
const CENTRE: f32 = 1_900.0;

#[derive(Clone)]
pub(crate) struct Strike {
    noise: Noise,
    band: Band,
    buffer: BufferVec,
    seed: u64,
    /// What has been struck and not yet risen, and what sounds.
    waiting: f32,
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
            band: band(sample_rate, CENTRE, 0.9),
            buffer: BufferVec::new(1),
            seed,
            waiting: 0.0,
            level: 0.0,
            rise: 1.0 - (-1.0 / (ATTACK * sample_rate as f32)).exp(),
            fall: (-1.0 / (DECAY * sample_rate as f32)).exp(),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.noise.set_hash(self.seed);
        self.band.reset();
        self.waiting = 0.0;
        self.level = 0.0;
    }

    pub(crate) fn strike(&mut self, strength: f32) {
        self.waiting = (self.waiting + strength).min(1.5);
    }

    /// Adds a frame of the burst to both channels of `output`.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME]) {
        // The noise runs on, heard or not: what it is at a given sample depends on the sample count alone.
        self.noise
            .process(FRAME, &BufferRef::empty(), &mut self.buffer.buffer_mut());
        if self.waiting < 1e-4 && self.level < 1e-4 {
            self.band.reset();
            self.waiting = 0.0;
            self.level = 0.0;
            return;
        }
        for (y, x) in output.iter_mut().zip(self.buffer.channel_f32(0)) {
            let risen = self.waiting * self.rise;
            self.waiting -= risen;
            self.level = (self.level + risen) * self.fall;
            let burst = self.band.filter_mono(*x * self.level);
            y[0] += burst;
            y[1] += burst;
        }
    }
}
