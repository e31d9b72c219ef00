//! The teacher's zero-phase smoother and its causal counterpart.

use crate::MemoryError;
use crate::RATE;

/// A symmetric, positive low-pass: what is bounded stays bounded, and nothing rings.
#[derive(Debug, Clone)]
pub(crate) struct Gaussian {
    /// From the middle outwards.
    taps: Vec<f64>,
}

impl Gaussian {
    /// -3 dB at `cutoff` Hz: a standard deviation of s seconds has the gain exp(-2 (pi s f)^2).
    pub(crate) fn new(cutoff: f64) -> Self {
        let sigma = std::f64::consts::LN_2.sqrt() / (std::f64::consts::TAU * cutoff) * RATE;
        let radius = (4.0 * sigma).ceil() as usize;
        let taps: Vec<f64> = (0..=radius)
            .map(|i| (-0.5 * (i as f64 / sigma).powi(2)).exp())
            .collect();
        let total = 2.0 * taps.iter().sum::<f64>() - taps[0];
        Self {
            taps: taps.iter().map(|tap| tap / total).collect(),
        }
    }

    /// How many frames it sees to either side.
    pub(crate) fn radius(&self) -> usize {
        self.taps.len() - 1
    }

    /// The frames of `0..frames` that it sees from `at`, each with its weight.
    pub(crate) fn around(&self, at: usize, frames: usize) -> impl Iterator<Item = (usize, f64)> {
        let first = at.saturating_sub(self.radius());
        let last = (at + self.radius() + 1).min(frames);
        (first..last).map(move |frame| (frame, self.taps[frame.abs_diff(at)]))
    }
}

/// Equal one-pole low-passes in a row, with an exact group delay at zero frequency.
///
/// A one-pole `y += a (x - y)` delays slow changes by (1 - a)/a frames, so n of them with a = 1/(1 + d/n) delay by d
/// frames. d = 0 passes everything through. The first frame sets the state: there is no start-up from zero.
#[derive(Debug, Clone)]
pub(crate) struct LowPass {
    gain: f64,
    stages: Vec<Vec<f64>>,
    started: bool,
}

impl LowPass {
    /// Delays rows of `width` numbers by `seconds`, with as many poles.
    pub(crate) fn new(seconds: f64, poles: usize, width: usize) -> Result<Self, MemoryError> {
        if !(0.0..=MAX_DELAY_S).contains(&seconds) {
            return Err(MemoryError::Option {
                option: "delay_s",
                expected: "0 to 10 seconds",
                given: seconds.to_string(),
            });
        }
        Ok(Self {
            gain: 1.0 / (1.0 + seconds * RATE / poles as f64),
            stages: vec![vec![0.0; width]; poles],
            started: false,
        })
    }

    pub(crate) fn reset(&mut self) {
        self.started = false;
    }

    /// Filters one row in place.
    pub(crate) fn push(&mut self, row: &mut [f64]) {
        if !self.started {
            self.started = true;
            for stage in &mut self.stages {
                stage.copy_from_slice(row);
            }
        }
        for stage in &mut self.stages {
            for (value, state) in row.iter_mut().zip(stage) {
                *state = self.gain * *value + (1.0 - self.gain) * *state;
                *value = *state;
            }
        }
    }
}

const MAX_DELAY_S: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_pass_delays_a_ramp_by_what_it_says() {
        for seconds in [0.0, 0.03, 0.2] {
            let mut filter = LowPass::new(seconds, 2, 1).unwrap();
            let mut row = [0.0];
            for frame in 0..2000 {
                row = [f64::from(frame)];
                filter.push(&mut row);
            }
            assert!((1999.0 - row[0] - seconds * RATE).abs() < 1e-6);
        }
        assert!(LowPass::new(-1.0, 2, 1).is_err());
        assert!(LowPass::new(f64::NAN, 2, 1).is_err());
    }

    #[test]
    fn a_gaussian_passes_its_cutoff_at_3_db() {
        for cutoff in [1.0, 3.0, 6.6] {
            let kernel = Gaussian::new(cutoff);
            let seen: Vec<(usize, f64)> = kernel.around(100, 1000).collect();
            assert!((seen.iter().map(|(_, tap)| tap).sum::<f64>() - 1.0).abs() < 1e-12);
            let turn = std::f64::consts::TAU * cutoff / RATE;
            let gain: f64 = seen
                .iter()
                .map(|&(at, tap)| tap * (turn * (at as f64 - 100.0)).cos())
                .sum();
            assert!((20.0 * gain.log10() + 3.0).abs() < 0.1, "{gain}");
        }
    }
}
