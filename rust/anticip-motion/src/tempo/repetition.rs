//! How well a movement repeats after each lag: as it was, as its mirror image, and in its rhythm alone.
//!
//! Half a stride ago the body moved as its mirror image does now: what repeats mirrored after a lag has steps of that
//! length, where the movement itself repeats only after two. So steps are told from strides by left and right.

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
fn product(a: &[f64; WIDTH], b: &[f64; WIDTH]) -> f64 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for i in 0..LANES {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum()
}
