//! How well a movement repeats after each lag: plain, as its mirror image, and in its rhythm alone.
//!
//! Half a stride ago the body moved as its mirror image does now. What repeats mirrored after a lag has steps of that
//! length; the movement itself repeats only after two of them. Left and right thus distinguish steps from strides.

use pulp::Arch;

use crate::kinematics::ENDS;
use crate::twin::Ring;

/// Longest lag, frames: two of the longest periods and a margin.
pub(super) const MAX_LAG: usize = 2 * super::MAX_PERIOD + 6;
/// Velocities of the ends, three numbers each.
pub(super) const SIZE: usize = 3 * ENDS.len();
/// Length of a row: a multiple of the lanes in which a product is summed.
const WIDTH: usize = SIZE.next_multiple_of(LANES);
const LANES: usize = 4;
/// The opposite of each end: hands, toes, head.
const OPPOSITE: [usize; ENDS.len()] = [1, 0, 3, 2, 4];
/// Decay of the sums per frame: a time constant of 1.2 s.
const DECAY: f64 = 0.983_471_453_821_617;
/// Energy (m^2/s^2) of a body at rest.
pub(super) const REST_ENERGY: f64 = 0.05;
/// The same for the rhythm's curve (octaves^2).
const REST_SWING: f64 = 0.01;

/// Exponentially decaying sums for one lag.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    plain: f64,
    mirrored: f64,
    energy: f64,
    rhythm: f64,
    swing: f64,
}

/// Running autocorrelations of the movement.
#[derive(Debug, Clone)]
pub(super) struct Repetition {
    /// Velocities, padded with zeros.
    past: Ring<WIDTH>,
    /// Energy and swing.
    scale: Ring<2>,
    sums: [Sums; MAX_LAG + 1],
}

/// Correlations at one lag, -1 to 1 each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Similarity {
    /// Of the movement with itself.
    pub plain: f64,
    /// Of the movement with its mirror image.
    pub mirrored: f64,
    /// Of the rise and fall of its speed.
    pub rhythm: f64,
}

impl Repetition {
    pub(super) fn new() -> Self {
        Self {
            past: Ring::new(MAX_LAG + 1),
            scale: Ring::new(MAX_LAG + 1),
            sums: [Sums::default(); MAX_LAG + 1],
        }
    }

    pub(super) fn reset(&mut self) {
        self.past.clear();
        self.scale.clear();
        self.sums = [Sums::default(); MAX_LAG + 1];
    }

    /// Takes the velocities of the ends (x to the left, y, z) and the deviation of their speed from the usual one
    /// (octaves); returns their energy.
    pub(super) fn push(&mut self, velocity: &[f64; SIZE], swing: f64) -> f64 {
        let (mut row, mut mirror) = ([0.0; WIDTH], [0.0; WIDTH]);
        row[..SIZE].copy_from_slice(velocity);
        for (i, slot) in mirror[..SIZE].iter_mut().enumerate() {
            let v = velocity[3 * OPPOSITE[i / 3] + i % 3];
            *slot = if i % 3 == 0 { -v } else { v };
        }
        let energy = product(&row, &row);
        self.past.push(&row);
        self.scale.push(&[energy, swing]);
        Arch::new().dispatch(|| {
            for (lag, sums) in self.sums.iter_mut().enumerate().take(self.past.len()) {
                let then = self.past.ago(lag);
                let [energy_then, swing_then] = *self.scale.ago(lag);
                let add = |sum: &mut f64, new: f64| *sum = DECAY * *sum + new;
                add(&mut sums.plain, product(&row, then));
                add(&mut sums.mirrored, product(&mirror, then));
                add(&mut sums.energy, 0.5 * (energy + energy_then) + REST_ENERGY);
                add(&mut sums.rhythm, swing * swing_then);
                add(
                    &mut sums.swing,
                    0.5 * (swing * swing + swing_then * swing_then) + REST_SWING,
                );
            }
        });
        energy
    }

    /// Reads a number from every cache line that the next frame needs; the sum has no meaning.
    pub(super) fn touch(&self) -> f64 {
        let lags = 0..self.past.len().min(self.sums.len());
        let at = |lag| {
            self.past.ago(lag)[0] + self.past.ago(lag)[8] + self.scale.ago(lag)[0] + self.sums[lag].plain
        };
        lags.map(at).sum()
    }

    /// Mean energy over the remembered time, m^2/s^2.
    pub(super) fn energy(&self) -> f64 {
        self.sums[0].energy * (1.0 - DECAY) - REST_ENERGY
    }

    /// Number of lags, from 0 on, with enough frames.
    pub(super) fn known_lags(&self) -> usize {
        self.past.len().saturating_sub(8).min(MAX_LAG + 1)
    }

    /// Correlations at one lag.
    pub(super) fn at(&self, lag: usize) -> Similarity {
        let sums = &self.sums[lag];
        Similarity {
            plain: sums.plain / sums.energy,
            mirrored: sums.mirrored / sums.energy,
            rhythm: sums.rhythm / sums.swing,
        }
    }
}

/// Inner product, summed in lanes so that additions do not wait for each other.
#[inline(always)]
fn product(a: &[f64; WIDTH], b: &[f64; WIDTH]) -> f64 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for i in 0..LANES {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_running_sums_are_their_definition() {
        let frames = 150;
        let body = |frame: usize| -> [f64; SIZE] {
            std::array::from_fn(|i| (frame as f64 * 0.3 + i as f64).sin() * (1.0 + (i * frame) as f64 % 7.0))
        };
        let swing = |frame: usize| (frame as f64 * 0.7).cos();
        let mut found = Repetition::new();
        let energies: Vec<f64> = (0..frames)
            .map(|frame| found.push(&body(frame), swing(frame)))
            .collect();
        let dot = |a: [f64; SIZE], b: [f64; SIZE]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        // Exchanges left and right hand and left and right toes, and negates x.
        let mirror = |v: [f64; SIZE]| -> [f64; SIZE] {
            let order = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8, 12, 13, 14];
            std::array::from_fn(|i| if i % 3 == 0 { -v[order[i]] } else { v[order[i]] })
        };
        for lag in [0, 1, 17, 60, 126] {
            let (mut plain, mut mirrored, mut energy, mut rhythm, mut level) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for now in lag..frames {
                let (then, weight) = (now - lag, (-((frames - 1 - now) as f64) / 60.0).exp());
                assert!(near(energies[now], dot(body(now), body(now))));
                plain += weight * dot(body(now), body(then));
                mirrored += weight * dot(mirror(body(now)), body(then));
                energy += weight * ((energies[now] + energies[then]) / 2.0 + REST_ENERGY);
                rhythm += weight * swing(now) * swing(then);
                level += weight * ((swing(now).powi(2) + swing(then).powi(2)) / 2.0 + REST_SWING);
            }
            let like = found.at(lag);
            assert!(near(like.plain, plain / energy), "{lag}");
            assert!(near(like.mirrored, mirrored / energy), "{lag}");
            assert!(near(like.rhythm, rhythm / level), "{lag}");
        }
    }

    #[test]
    fn the_energy_is_that_of_the_time_that_is_remembered() {
        let mut found = Repetition::new();
        assert_eq!(found.known_lags(), 0);
        for frame in 0..600 {
            let known_lags = (frame as usize).saturating_sub(8).min(MAX_LAG + 1);
            assert_eq!(found.known_lags(), known_lags);
            found.push(&[0.2; SIZE], 0.0);
        }
        assert!(
            (found.energy() - 0.04 * SIZE as f64).abs() < 1e-4,
            "{}",
            found.energy()
        );
        assert!(found.at(40).plain > 0.9 && found.at(40).mirrored > 0.2 && found.at(40).rhythm == 0.0);
        found.reset();
        assert_eq!(found.known_lags(), 0);
    }
}
