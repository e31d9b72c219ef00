//! Control signals: smoothed once per frame, linear within it.

use core::ops::{Add, Mul};

use fundsp::MAX_BUFFER_SIZE;

/// Samples in a frame: the grid on which controls move (fundsp's block size).
pub const FRAME: usize = MAX_BUFFER_SIZE;

/// Duration of a frame, seconds.
pub(crate) fn frame_seconds(sample_rate: f64) -> f32 {
    (FRAME as f64 / sample_rate) as f32
}

/// A control over one frame, linear from the value at the end of the last frame to that at the end of this
/// one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Line {
    pub(crate) from: f32,
    pub(crate) to: f32,
}

impl Line {
    pub(crate) fn flat(value: f32) -> Self {
        Self {
            from: value,
            to: value,
        }
    }

    /// Value at sample `i` of the frame; the last one is `to`.
    #[inline]
    pub(crate) fn at(&self, i: usize) -> f32 {
        self.from + (self.to - self.from) * ((i + 1) as f32 / FRAME as f32)
    }

    /// The line between the mapped ends.
    pub(crate) fn map(self, f: impl Fn(f32) -> f32) -> Self {
        Self {
            from: f(self.from),
            to: f(self.to),
        }
    }
}

impl Add for Line {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            from: self.from + other.from,
            to: self.to + other.to,
        }
    }
}

impl Mul for Line {
    type Output = Self;

    /// The line between the products of the ends.
    fn mul(self, other: Self) -> Self {
        Self {
            from: self.from * other.from,
            to: self.to * other.to,
        }
    }
}

/// Critically damped follower, solved exactly for a constant target over a frame: no overshoot from rest, no
/// drift.
#[derive(Clone)]
pub(crate) struct Smoother {
    value: f32,
    velocity: f32,
    omega: f32,
    dt: f32,
    decay: f32,
}

impl Smoother {
    /// `tau` is in seconds: 95 % of a step is reached after 4.7 `tau`.
    pub(crate) fn new(tau: f32, sample_rate: f64) -> Self {
        let dt = frame_seconds(sample_rate);
        let omega = 1.0 / tau;
        Self {
            value: 0.0,
            velocity: 0.0,
            omega,
            dt,
            decay: (-omega * dt).exp(),
        }
    }

    /// Jumps to `value` and stays there.
    pub(crate) fn jump(&mut self, value: f32) {
        self.value = value;
        self.velocity = 0.0;
    }

    /// Moves one frame towards `target`.
    pub(crate) fn step(&mut self, target: f32) -> Line {
        let from = self.value;
        let error = self.value - target;
        let slope = self.velocity + self.omega * error;
        self.value = target + (error + slope * self.dt) * self.decay;
        self.velocity = (self.velocity - self.omega * slope * self.dt) * self.decay;
        // Settling exactly avoids denormals and makes a fade end in exact zeros.
        if (self.value - target).abs() < 1e-6 && (self.velocity * self.dt).abs() < 1e-6 {
            self.jump(target);
        }
        Line { from, to: self.value }
    }
}

/// An exponentially decaying value after `time_constants`. It is set to 0 before it becomes denormal, where
/// rounding would keep it from decaying further.
pub(crate) fn decayed(value: f32, time_constants: f32) -> f32 {
    if value < 1e-20 {
        0.0
    } else {
        value * (-time_constants).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_followed_without_overshoot_and_ends_exactly() {
        let mut smoother = Smoother::new(0.005, 48_000.0);
        let mut last = 0.0;
        for _ in 0..200 {
            let line = smoother.step(1.0);
            assert!(line.to >= last && line.to <= 1.0);
            last = line.to;
        }
        assert_eq!(last, 1.0);
    }

    #[test]
    fn lines_join() {
        let line = Line { from: 1.0, to: 3.0 };
        assert_eq!(line.at(FRAME - 1), 3.0);
        assert_eq!(line.at(FRAME / 2 - 1), 2.0);
    }
}
