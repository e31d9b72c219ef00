//! Running covariances of all performers' speeds with those of all performers some frames ago.
//!
//! Means are forgotten exponentially: with `d` the deviation of a row from the mean before it and `a` the gain,
//! `cov <- (1 - a) (cov + a d d')`. The mean at an earlier time is that of earlier rows, so only the deviations `d` of
//! the past are stored.

use pulp::Arch;

use crate::canonical::JOINT_COUNT;
use crate::live::FRAME;

/// Performers that are processed at once.
const LANES: usize = 8;
/// Variance of a suit's noise, summed over the joints: bodies that stand still are uncorrelated.
const NOISE: f32 = JOINT_COUNT as f32 * 0.02 * 0.02;

type Row = [f32; JOINT_COUNT];
type Lanes = [f32; LANES];

/// Covariances of n performers at lags from 0 to some number of frames, summed over the joints.
#[derive(Debug, Clone)]
pub(super) struct Covariance {
    /// Weight of a new row.
    gain: f32,
    /// Number of lags.
    depth: usize,
    /// Groups of lanes for one number per performer.
    width: usize,
    /// Index of the newest slot in the rings.
    head: usize,
    mean: Vec<Row>,
    /// `[performer][depth]`, rings of deviations from the mean before each row, and of variances.
    past: Vec<Row>,
    variance: Vec<f32>,
    /// `[width][joint]`: the newest deviations of `past`.
    newest: Vec<[Lanes; JOINT_COUNT]>,
    /// `[then][lag][width]`: the performer in the past, the lag, the performer now.
    products: Vec<Lanes>,
}

impl Covariance {
    /// Covariances of this many performers up to the lag `max_lag` (frames), with a time constant in seconds.
    pub(super) fn new(performers: usize, max_lag: usize, seconds: f64) -> Self {
        let (depth, width) = (max_lag + 1, performers.div_ceil(LANES));
        Self {
            gain: 1.0 - (-FRAME / seconds).exp() as f32,
            depth,
            width,
            head: 0,
            mean: vec![[0.0; JOINT_COUNT]; performers],
            past: vec![[0.0; JOINT_COUNT]; performers * depth],
            variance: vec![0.0; performers * depth],
            newest: vec![[[0.0; LANES]; JOINT_COUNT]; width],
            products: vec![[0.0; LANES]; performers * depth * width],
        }
    }

    /// Resets a performer as if they had always moved like this, so that an arrival correlates with nobody.
    pub(super) fn begin(&mut self, performer: usize, row: &Row) {
        let (depth, width) = (self.depth, self.width);
        self.mean[performer] = *row;
        self.past[performer * depth..][..depth].fill([0.0; JOINT_COUNT]);
        self.variance[performer * depth..][..depth].fill(0.0);
        self.products[performer * depth * width..][..depth * width].fill([0.0; LANES]);
        for lanes in self.products.chunks_exact_mut(width) {
            lanes[performer / LANES][performer % LANES] = 0.0;
        }
    }

    /// Takes one row of each performer; `None` for absent ones, which must `begin` when they return.
    pub(super) fn push<'a>(&mut self, row: impl Fn(usize) -> Option<&'a Row>) {
        let (gain, depth) = (self.gain, self.depth);
        let before = self.head;
        self.head = (before + 1) % depth;
        for (performer, mean) in self.mean.iter_mut().enumerate() {
            let Some(row) = row(performer) else { continue };
            let deviation: Row = std::array::from_fn(|joint| row[joint] - mean[joint]);
            for (joint, (mean, deviation)) in mean.iter_mut().zip(deviation).enumerate() {
                *mean += gain * deviation;
                self.newest[performer / LANES][joint][performer % LANES] = deviation;
            }
            let square: f32 = deviation.iter().map(|d| d * d).sum();
            self.past[performer * depth + self.head] = deviation;
            self.variance[performer * depth + self.head] =
                (1.0 - gain) * (self.variance[performer * depth + before] + gain * square);
        }
        Arch::new().dispatch(|| {
            for then in (0..self.mean.len()).filter(|&performer| row(performer).is_some()) {
                for lag in 0..depth {
                    let at = then * depth + lag;
                    let past = &self.past[then * depth + slot(self.head, lag, depth)];
                    let products = &mut self.products[at * self.width..][..self.width];
                    for (lanes, newest) in products.iter_mut().zip(&self.newest) {
                        let mut sums = [0.0; LANES];
                        for (deviation, now) in past.iter().zip(newest) {
                            for (sum, now) in sums.iter_mut().zip(now) {
                                *sum += deviation * now;
                            }
                        }
                        for (product, sum) in lanes.iter_mut().zip(sums) {
                            *product = (1.0 - gain) * (*product + gain * sum);
                        }
                    }
                }
            }
        });
    }

    /// Reciprocal of the standard deviation of a performer's rows `lag` frames ago.
    fn per_deviation(&self, performer: usize, lag: usize) -> f32 {
        let variance = self.variance[performer * self.depth + slot(self.head, lag, self.depth)];
        1.0 / (variance + NOISE).sqrt()
    }

    /// Correlation of `now` with `then` as of `lag` frames ago, -1 to 1.
    pub(super) fn correlation(&self, now: usize, then: usize, lag: usize) -> f32 {
        let lanes = &self.products[(then * self.depth + lag) * self.width..];
        lanes[now / LANES][now % LANES] * self.per_deviation(now, 0) * self.per_deviation(then, lag)
    }

    /// For every pair of a performer now and one in the past, the lag with the highest score: the correlation times
    /// its `lag_weights`.
    pub(super) fn best_lags(&self, lag_weights: &[f32]) -> BestLags {
        let mut found = BestLags {
            width: self.width,
            lag: vec![[0.0; LANES]; self.mean.len() * self.width],
            score: vec![[f32::MIN; LANES]; self.mean.len() * self.width],
        };
        Arch::new().dispatch(|| {
            for then in 0..self.mean.len() {
                let rows = then * self.width..(then + 1) * self.width;
                let (best_lags, best_scores) = (&mut found.lag[rows.clone()], &mut found.score[rows]);
                for (lag, weight) in lag_weights.iter().enumerate().take(self.depth) {
                    let scale = weight * self.per_deviation(then, lag);
                    let products = &self.products[(then * self.depth + lag) * self.width..][..self.width];
                    let best = best_lags.iter_mut().zip(best_scores.iter_mut());
                    for ((best_lags, best_scores), products) in best.zip(products) {
                        for lane in 0..LANES {
                            let score = products[lane] * scale;
                            let is_better = score > best_scores[lane];
                            best_scores[lane] = if is_better { score } else { best_scores[lane] };
                            best_lags[lane] = if is_better { lag as f32 } else { best_lags[lane] };
                        }
                    }
                }
            }
        });
        for now in 0..self.mean.len() {
            let scale = self.per_deviation(now, 0);
            for scores in found.score.chunks_exact_mut(self.width) {
                scores[now / LANES][now % LANES] *= scale;
            }
        }
        found
    }
}

/// Index of the entry `lag` before the newest, at `head`, in a ring of `depth` entries.
fn slot(head: usize, lag: usize, depth: usize) -> usize {
    (head + depth - lag) % depth
}

/// Result of [`Covariance::best_lags`].
#[derive(Debug)]
pub(super) struct BestLags {
    width: usize,
    /// `[then][width]`, frames.
    lag: Vec<Lanes>,
    score: Vec<Lanes>,
}

impl BestLags {
    /// The best lag of a pair, and its score.
    pub(super) fn of(&self, now: usize, then: usize) -> (usize, f32) {
        let (at, lane) = (then * self.width + now / LANES, now % LANES);
        (self.lag[at][lane] as usize, self.score[at][lane])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A movement with a rhythm of each performer's own.
    fn row(performer: usize, frame: usize) -> Row {
        std::array::from_fn(|joint| {
            let phase = (performer * 7 + joint) as f32;
            1.0 + ((0.11 + 0.03 * performer as f32) * frame as f32 + phase).sin()
        })
    }

    #[test]
    fn they_are_their_definition() {
        const FRAMES: usize = 120;
        let (performers, longest, seconds) = (11, 4, 0.5);
        let mut running = Covariance::new(performers, longest, seconds);
        for performer in 0..performers {
            running.begin(performer, &row(performer, 0));
        }
        for frame in 0..FRAMES {
            let rows: Vec<Row> = (0..performers).map(|performer| row(performer, frame)).collect();
            running.push(|performer| Some(&rows[performer]));
        }
        let keep = (-FRAME / seconds).exp();
        // Before the first frame all moved as in it.
        let at = |performer, frame: isize| row(performer, frame.max(0) as usize).map(f64::from);
        let mean = |of: &dyn Fn(isize) -> f64| -> f64 {
            let last = FRAMES as isize - 1;
            (0..2000)
                .map(|ago| (1.0 - keep) * keep.powi(ago as i32) * of(last - ago))
                .sum()
        };
        let covariance = |one: usize, lag_one: isize, other: usize, lag_other: isize| -> f64 {
            let parts = (0..JOINT_COUNT).map(|joint| {
                let (x, y) = (
                    |frame| at(one, frame - lag_one)[joint],
                    |frame| at(other, frame - lag_other)[joint],
                );
                mean(&|frame| x(frame) * y(frame)) - mean(&x) * mean(&y)
            });
            parts.sum()
        };
        for (now, then, lag) in [(0, 1, 0), (3, 9, 4), (10, 2, 1), (5, 5, 3)] {
            let back = lag as isize;
            let spread =
                |performer, lag| (covariance(performer, lag, performer, lag) + f64::from(NOISE)).sqrt();
            let expected = covariance(now, 0, then, back) / (spread(now, 0) * spread(then, back));
            let found = f64::from(running.correlation(now, then, lag));
            assert!(
                (found - expected).abs() < 1e-3,
                "{now} {then} {lag}: {found}, not {expected}"
            );
        }
        let found = running.best_lags(&[1.0, 0.9, 0.8, 0.7, 0.6]);
        for (now, then) in [(0, 1), (9, 3), (10, 10)] {
            let scores =
                (0..=longest).map(|lag| running.correlation(now, then, lag) * [1.0, 0.9, 0.8, 0.7, 0.6][lag]);
            let scores: Vec<f32> = scores.collect();
            let (lag, score) = found.of(now, then);
            assert!((score - scores[lag]).abs() < 1e-5);
            assert!(scores.iter().all(|&other| other <= score + 1e-5));
        }
    }

    #[test]
    fn who_comes_is_like_nobody_and_what_they_were_before_does_not_matter() {
        let mut running = Covariance::new(3, 4, 0.5);
        let mut fresh = running.clone();
        for frame in 0..50 {
            let rows: Vec<Row> = (0..3).map(|performer| row(performer, frame)).collect();
            running.push(|performer| (performer < 2).then_some(&rows[performer]));
            fresh.push(|performer| (performer < 2).then_some(&rows[performer]));
            if frame < 20 {
                running.push(|performer| (performer == 2).then_some(&rows[performer]));
                fresh.push(|_| None);
            }
        }
        for one in [&mut running, &mut fresh] {
            one.begin(2, &row(2, 50));
        }
        for frame in 50..60 {
            let rows: Vec<Row> = (0..3).map(|performer| row(performer, frame)).collect();
            for one in [&mut running, &mut fresh] {
                one.push(|performer| Some(&rows[performer]));
            }
        }
        for (now, then, lag) in [(2, 0, 0), (0, 2, 3), (2, 2, 1)] {
            assert_eq!(
                running.correlation(now, then, lag),
                fresh.correlation(now, then, lag)
            );
        }
    }
}
