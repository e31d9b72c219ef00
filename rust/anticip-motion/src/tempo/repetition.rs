//! How well a movement repeats after each lag: as it was, as its mirror image, and in its rhythm alone.
//!
//! Half a stride ago the body moved as its mirror image does now: what repeats mirrored after a lag has steps of that
//! length, where the movement itself repeats only after two. So steps are told from strides by left and right.

use pulp::Arch;

use crate::kinematics::ENDS;
use crate::twin::Ring;

/// The longest lag, frames: two of the longest beats and what lies beside them.
pub(super) const LONGEST: usize = 2 * super::SLOWEST + 6;
/// Velocities of the ends, three numbers each.
pub(super) const SIZE: usize = 3 * ENDS.len();
/// Of a row: a multiple of the lanes that a product is summed in.
const WIDTH: usize = SIZE.next_multiple_of(LANES);
const LANES: usize = 4;
/// For each end the one of the other side: hands, toes, head.
const OTHER: [usize; ENDS.len()] = [1, 0, 3, 2, 4];
/// Share of the sums that stays from frame to frame: a time constant of 1.2 s.
const KEPT: f64 = 0.983_471_453_821_617;
/// Energy (m^2/s^2) below which nothing is a movement, and of the rhythm's curve (octaves^2).
pub(super) const REST: f64 = 0.05;
const LEVEL: f64 = 0.01;

/// Sums over the past, forgotten exponentially, for one lag.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    plain: f64,
    mirrored: f64,
    energy: f64,
    rhythm: f64,
    swing: f64,
}

/// The running autocorrelations.
#[derive(Debug, Clone)]
pub(super) struct Repetition {
    /// Velocities, then zeros.
    past: Ring<WIDTH>,
    /// Energy and swing.
    scale: Ring<2>,
    sums: [Sums; LONGEST + 1],
}

/// What repeats after one lag, -1 to 1 each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Likeness {
    /// The movement to itself.
    pub plain: f64,
    /// The movement to its mirror image.
    pub mirrored: f64,
    /// The rise and fall of its speed.
    pub rhythm: f64,
}

impl Repetition {
    pub(super) fn new() -> Self {
        Self {
            past: Ring::new(LONGEST + 1),
            scale: Ring::new(LONGEST + 1),
            sums: [Sums::default(); LONGEST + 1],
        }
    }

    pub(super) fn reset(&mut self) {
        self.past.clear();
        self.scale.clear();
        self.sums = [Sums::default(); LONGEST + 1];
    }

    /// Takes the velocities of the ends (x to the left, y, z) and how far their speed is from its usual, octaves; their
    /// energy.
    pub(super) fn push(&mut self, velocity: &[f64; SIZE], swing: f64) -> f64 {
        let (mut row, mut mirror) = ([0.0; WIDTH], [0.0; WIDTH]);
        row[..SIZE].copy_from_slice(velocity);
        for (i, slot) in mirror[..SIZE].iter_mut().enumerate() {
            let v = velocity[3 * OTHER[i / 3] + i % 3];
            *slot = if i % 3 == 0 { -v } else { v };
        }
        let energy = product(&row, &row);
        self.past.push(&row);
        self.scale.push(&[energy, swing]);
        Arch::new().dispatch(|| {
            for (lag, sums) in self.sums.iter_mut().enumerate().take(self.past.len()) {
                let then = self.past.ago(lag);
                let [energy_then, swing_then] = *self.scale.ago(lag);
                let add = |sum: &mut f64, new: f64| *sum = KEPT * *sum + new;
                add(&mut sums.plain, product(&row, then));
                add(&mut sums.mirrored, product(&mirror, then));
                add(&mut sums.energy, 0.5 * (energy + energy_then) + REST);
                add(&mut sums.rhythm, swing * swing_then);
                add(
                    &mut sums.swing,
                    0.5 * (swing * swing + swing_then * swing_then) + LEVEL,
                );
            }
        });
        energy
    }

    /// Reads a number of every cache line that the next frame needs; their sum means nothing.
    pub(super) fn touch(&self) -> f64 {
        let lags = 0..self.past.len().min(self.sums.len());
        let at = |lag| {
            self.past.ago(lag)[0] + self.past.ago(lag)[8] + self.scale.ago(lag)[0] + self.sums[lag].plain
        };
        lags.map(at).sum()
    }

    /// The mean energy over the time that is remembered, m^2/s^2.
    pub(super) fn energy(&self) -> f64 {
        self.sums[0].energy * (1.0 - KEPT) - REST
    }

    /// Lags from 0 that enough frames are known of.
    pub(super) fn known(&self) -> usize {
        self.past.len().saturating_sub(8).min(LONGEST + 1)
    }

    /// Of one of them.
    pub(super) fn at(&self, lag: usize) -> Likeness {
        let sums = &self.sums[lag];
        Likeness {
            plain: sums.plain / sums.energy,
            mirrored: sums.mirrored / sums.energy,
            rhythm: sums.rhythm / sums.swing,
        }
    }
}

/// The sum of the products, in lanes: in a row each addition would wait for the one before.
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
        // Left and right hand, left and right toes exchanged, and what points to the left points to the right.
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
                energy += weight * ((energies[now] + energies[then]) / 2.0 + REST);
                rhythm += weight * swing(now) * swing(then);
                level += weight * ((swing(now).powi(2) + swing(then).powi(2)) / 2.0 + LEVEL);
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
        assert_eq!(found.known(), 0);
        for frame in 0..600 {
            let known = (frame as usize).saturating_sub(8).min(LONGEST + 1);
            assert_eq!(found.known(), known);
            found.push(&[0.2; SIZE], 0.0);
        }
        assert!(
            (found.energy() - 0.04 * SIZE as f64).abs() < 1e-4,
            "{}",
            found.energy()
        );
        assert!(found.at(40).plain > 0.9 && found.at(40).mirrored > 0.2 && found.at(40).rhythm == 0.0);
        found.reset();
        assert_eq!(found.known(), 0);
    }
}
