//! Reverberation: an eight-line feedback delay network (Jot & Chaigne 1991) with diffused input.
//!
//! Built from fundsp's delays, nested all-passes, one-pole low-passes and its Hadamard matrix. fundsp's own
//! reverbs are not used because their feedback node changes the calling thread's floating-point mode, the
//! all-pass loop keeps part of its state on reset, and neither supports a changing decay time.

use fundsp::audionode::{AudioNode, FrameUnop};
use fundsp::delay::{AllNest, Delay};
use fundsp::feedback::FrameHadamard;
use fundsp::filter::Lowpole;
use fundsp::numeric_array::typenum::{U1, U8};
use fundsp::{DEFAULT_SR, Frame};

use crate::control::{FRAME, Line};
use crate::tone::with_sample_rate;

const LINES: usize = 8;
/// Mutually prime delay lengths in samples at 44.1 kHz: 25 to 66 ms.
const LENGTHS: [f64; LINES] = [1117.0, 1277.0, 1453.0, 1663.0, 1901.0, 2179.0, 2503.0, 2903.0];
/// Delay lengths of the input diffusers of each channel, in samples at 44.1 kHz.
const DIFFUSION: [[f64; 3]; 2] = [[142.0, 379.0, 277.0], [107.0, 419.0, 331.0]];
/// Cutoff of the low-pass in the loop, Hz.
const DAMPING_HZ: f32 = 5_200.0;
/// Reverberation time (to -60 dB) at space 0, seconds.
const MIN_DECAY_S: f32 = 0.5;
/// Reverberation time at space 1, seconds.
const MAX_DECAY_S: f32 = 2.7;
/// An inaudible constant (-400 dB) that keeps the tail out of denormal numbers.
const BIAS: f32 = 1e-20;

type Diffuser = AllNest<U1, Delay>;

#[derive(Clone)]
pub(crate) struct Room {
    diffusers: [[Diffuser; 3]; 2],
    lines: [Delay; LINES],
    damping: [Lowpole<f32, U1>; LINES],
    feedback: Frame<f32, U8>,
    gains: [f32; LINES],
}

impl Room {
    pub(crate) fn new(sample_rate: f64) -> Self {
        let diffuser =
            |length: f64| with_sample_rate(Diffuser::new(0.6, Delay::new(length / DEFAULT_SR)), sample_rate);
        let mut room = Self {
            diffusers: DIFFUSION.map(|channel| channel.map(diffuser)),
            lines: LENGTHS.map(|length| with_sample_rate(Delay::new(length / DEFAULT_SR), sample_rate)),
            damping: core::array::from_fn(|_| {
                with_sample_rate(
                    Lowpole::new(DAMPING_HZ.min(0.4 * sample_rate as f32)),
                    sample_rate,
                )
            }),
            feedback: Frame::default(),
            gains: [0.0; LINES],
        };
        room.gains = Self::targets(0.0);
        room
    }

    pub(crate) fn reset(&mut self, space: f32) {
        for node in self.diffusers.iter_mut().flatten() {
            node.reset();
        }
        for node in &mut self.lines {
            node.reset();
        }
        for node in &mut self.damping {
            node.reset();
        }
        self.feedback = Frame::default();
        self.gains = Self::targets(space);
    }

    /// Gains of the lines for the reverberation time of `space`.
    fn targets(space: f32) -> [f32; LINES] {
        let decay_s = MIN_DECAY_S * (MAX_DECAY_S / MIN_DECAY_S).powf(space);
        LENGTHS.map(|length| {
            let delay_s = (length / DEFAULT_SR) as f32;
            (-3.0 * core::f32::consts::LN_10 * delay_s / decay_s).exp()
        })
    }

    /// Writes the reverberation alone, without the input, to `output`.
    pub(crate) fn render(&mut self, input: &[[f32; 2]; FRAME], output: &mut [[f32; 2]; FRAME], space: Line) {
        let targets = Self::targets(space.to);
        let mut steps = [0.0; LINES];
        for i in 0..LINES {
            steps[i] = (targets[i] - self.gains[i]) / FRAME as f32;
        }
        let matrix = FrameHadamard::<U8>::new();
        for (x, y) in input.iter().zip(output.iter_mut()) {
            let mut diffused = [0.0; 2];
            for (channel, diffusers) in self.diffusers.iter_mut().enumerate() {
                diffused[channel] = diffusers
                    .iter_mut()
                    .fold(x[channel] + BIAS, |v, node| node.filter_mono(v));
            }
            let mut fed_back = Frame::<f32, U8>::default();
            let mut sums = [0.0; 2];
            for i in 0..LINES {
                let delayed = self.lines[i].filter_mono(diffused[i & 1] + self.feedback[i]);
                let damped = self.damping[i].filter_mono(delayed);
                self.gains[i] += steps[i];
                fed_back[i] = damped * self.gains[i];
                // Alternating signs decorrelate the lines within a channel.
                sums[i & 1] += if i & 2 == 0 { damped } else { -damped };
            }
            self.feedback = matrix.frame(&fed_back);
            *y = sums.map(|s| s * 0.33);
        }
        self.gains = targets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decay(space: f32) -> f64 {
        let mut room = Room::new(48_000.0);
        room.reset(space);
        let mut energies = Vec::new();
        let mut input = [[0.0; 2]; FRAME];
        input[0] = [1.0, 1.0];
        let mut output = [[0.0; 2]; FRAME];
        for _ in 0..3000 {
            room.render(&input, &mut output, Line::flat(space));
            energies.push(
                output
                    .iter()
                    .map(|y| f64::from(y[0] * y[0] + y[1] * y[1]))
                    .sum::<f64>(),
            );
            input = [[0.0; 2]; FRAME];
        }
        // Schroeder's backward integration, -5 to -25 dB, extrapolated to -60.
        let total: f64 = energies.iter().sum();
        let mut rest = total;
        let (mut at5, mut at25) = (0, 0);
        for (i, e) in energies.iter().enumerate() {
            rest -= e;
            let db = 10.0 * (rest.max(1e-30) / total).log10();
            if db > -5.0 {
                at5 = i;
            }
            if db > -25.0 {
                at25 = i;
            }
        }
        (at25 - at5) as f64 * FRAME as f64 / 48_000.0 * 3.0
    }

    #[test]
    fn space_lengthens_the_tail() {
        let (short, middle, long) = (decay(0.0), decay(0.5), decay(1.0));
        assert!(short < 0.8, "{short}");
        assert!(middle > 1.3 * short && middle < long, "{short} {middle} {long}");
        assert!(long > 1.8, "{long}");
    }

    #[test]
    fn the_tail_dies_without_denormals() {
        let mut room = Room::new(48_000.0);
        let mut input = [[1.0; 2]; FRAME];
        let mut output = [[0.0; 2]; FRAME];
        for _ in 0..20_000 {
            room.render(&input, &mut output, Line::flat(0.0));
            input = [[0.0; 2]; FRAME];
        }
        assert!(output.iter().flatten().all(|y| y.abs() < 1e-15));
        assert!(room.feedback.iter().all(|v| v.is_normal()));
    }
}
