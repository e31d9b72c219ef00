//! The teacher's zero-phase low-pass filter.

use crate::RATE;

/// A symmetric Gaussian low-pass. All taps are positive: bounded input stays bounded, without ringing.
#[derive(Debug, Clone)]
pub(crate) struct Gaussian {
    /// Taps from the centre outwards.
    taps: Vec<f64>,
}

impl Gaussian {
    /// Gain -3 dB at `cutoff` Hz; a standard deviation of s seconds has the gain exp(-2 (pi s f)^2).
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

    /// Number of frames on each side of the centre.
    pub(crate) fn radius(&self) -> usize {
        self.taps.len() - 1
    }

    /// The frames of `0..frames` under the kernel centred on `at`, each with its weight.
    pub(crate) fn around(&self, at: usize, frames: usize) -> impl Iterator<Item = (usize, f64)> {
        let first = at.saturating_sub(self.radius());
        let last = (at + self.radius() + 1).min(frames);
        (first..last).map(move |frame| (frame, self.taps[frame.abs_diff(at)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gaussian_passes_its_cutoff_at_3_db() {
        for cutoff in [1.0, 3.0, 6.6] {
            let kernel = Gaussian::new(cutoff);
            let taps: Vec<(usize, f64)> = kernel.around(100, 1000).collect();
            assert!((taps.iter().map(|(_, tap)| tap).sum::<f64>() - 1.0).abs() < 1e-12);
            let phase_step = std::f64::consts::TAU * cutoff / RATE;
            let gain: f64 = taps
                .iter()
                .map(|&(at, tap)| tap * (phase_step * (at as f64 - 100.0)).cos())
                .sum();
            assert!((20.0 * gain.log10() + 3.0).abs() < 0.1, "{gain}");
        }
    }
}
