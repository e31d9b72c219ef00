//! Running covariances of everybody's speeds with everybody's a while ago.
//!
//! Means are forgotten exponentially: with `d` how far a row is from the mean before it and `a` the share of the new,
//! `cov <- (1 - a) (cov + a d d')`. The mean of what was a while ago is the mean of then, so of the past only the `d`
//! are kept.

use pulp::Arch;

use crate::canonical::JOINT_COUNT;
use crate::live::FRAME;

/// Numbers that are worked on at once.
const LANES: usize = 8;
/// Variance, summed over the joints, that suits have of themselves: who stands still is with nobody.
const NOISE: f32 = JOINT_COUNT as f32 * 0.02 * 0.02;

type Row = [f32; JOINT_COUNT];
type Lanes = [f32; LANES];

/// Of n performers at lags of 0 to some number of frames, all joints taken together.
#[derive(Debug, Clone)]
pub(super) struct Covariance {
    /// Share of the new.
    new: f32,
    /// Lags.
    depth: usize,
    /// Lanes that hold a number a performer.
    width: usize,
    /// Where in the rings the newest is.
    head: usize,
    mean: Vec<Row>,
    /// `[performer][depth]`, rings: rows less the mean before them, and variances.
    past: Vec<Row>,
    variance: Vec<f32>,
    /// `[width][joint]`: the newest of `past`.
    newest: Vec<[Lanes; JOINT_COUNT]>,
    /// `[then][lag][width]`: who was so a while ago, how long, who is so now.
    products: Vec<Lanes>,
}

impl Covariance {
    /// Of so many, to a longest lag, with a time constant in seconds.
    pub(super) fn new(performers: usize, longest: usize, seconds: f64) -> Self {
        let (depth, width) = (longest + 1, performers.div_ceil(LANES));
        Self {
            new: 1.0 - (-FRAME / seconds).exp() as f32,
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

    /// As if `who` had always moved as now: nobody is like them by coming.
    pub(super) fn begin(&mut self, who: usize, row: &Row) {
        let (depth, width) = (self.depth, self.width);
        self.mean[who] = *row;
        self.past[who * depth..][..depth].fill([0.0; JOINT_COUNT]);
        self.variance[who * depth..][..depth].fill(0.0);
        self.products[who * depth * width..][..depth * width].fill([0.0; LANES]);
        for lanes in self.products.chunks_exact_mut(width) {
            lanes[who / LANES][who % LANES] = 0.0;
        }
    }

    /// Takes one row of each; who gives none is not there, and begins when they are back.
    pub(super) fn push<'a>(&mut self, row: impl Fn(usize) -> Option<&'a Row>) {
        let (new, depth) = (self.new, self.depth);
        let before = self.head;
        self.head = (before + 1) % depth;
        for (who, mean) in self.mean.iter_mut().enumerate() {
            let Some(row) = row(who) else { continue };
            let away: Row = std::array::from_fn(|joint| row[joint] - mean[joint]);
            for (joint, (mean, away)) in mean.iter_mut().zip(away).enumerate() {
                *mean += new * away;
                self.newest[who / LANES][joint][who % LANES] = away;
            }
            let square: f32 = away.iter().map(|d| d * d).sum();
            self.past[who * depth + self.head] = away;
            self.variance[who * depth + self.head] =
                (1.0 - new) * (self.variance[who * depth + before] + new * square);
        }
        Arch::new().dispatch(|| {
            for then in (0..self.mean.len()).filter(|&who| row(who).is_some()) {
                for lag in 0..depth {
                    let at = then * depth + lag;
                    let past = &self.past[then * depth + slot(self.head, lag, depth)];
                    let products = &mut self.products[at * self.width..][..self.width];
                    for (lanes, newest) in products.iter_mut().zip(&self.newest) {
                        let mut sums = [0.0; LANES];
                        for (away, now) in past.iter().zip(newest) {
                            for (sum, now) in sums.iter_mut().zip(now) {
                                *sum += away * now;
                            }
                        }
                        for (product, sum) in lanes.iter_mut().zip(sums) {
                            *product = (1.0 - new) * (*product + new * sum);
                        }
                    }
                }
            }
        });
    }

    /// One over how much somebody's rows varied so many frames ago.
    fn per_deviation(&self, who: usize, lag: usize) -> f32 {
        let variance = self.variance[who * self.depth + slot(self.head, lag, self.depth)];
        1.0 / (variance + NOISE).sqrt()
    }

    /// How `now` is like `then` was `lag` frames ago, -1 to 1.
    pub(super) fn correlation(&self, now: usize, then: usize, lag: usize) -> f32 {
        let lanes = &self.products[(then * self.depth + lag) * self.width..];
        lanes[now / LANES][now % LANES] * self.per_deviation(now, 0) * self.per_deviation(then, lag)
    }

    /// For everybody now and everybody then the lag at which they are most alike, where a lag counts as `nearness`
    /// says.
    pub(super) fn best_lags(&self, nearness: &[f32]) -> BestLags {
        let mut found = BestLags {
            width: self.width,
            lag: vec![[0.0; LANES]; self.mean.len() * self.width],
            score: vec![[f32::MIN; LANES]; self.mean.len() * self.width],
        };
        Arch::new().dispatch(|| {
            for then in 0..self.mean.len() {
                let rows = then * self.width..(then + 1) * self.width;
                let (best_lags, best_scores) = (&mut found.lag[rows.clone()], &mut found.score[rows]);
                for (lag, nearness) in nearness.iter().enumerate().take(self.depth) {
                    let scale = nearness * self.per_deviation(then, lag);
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

/// Where in a ring of `depth` with its newest at `head` is what came `lag` before.
fn slot(head: usize, lag: usize, depth: usize) -> usize {
    (head + depth - lag) % depth
}

/// What [`Covariance::best_lags`] found.
#[derive(Debug)]
pub(super) struct BestLags {
    width: usize,
    /// `[then][width]`, frames.
    lag: Vec<Lanes>,
    score: Vec<Lanes>,
}

impl BestLags {
    /// The lag, and how much the likeness at it counts.
    pub(super) fn of(&self, now: usize, then: usize) -> (usize, f32) {
        let (at, lane) = (then * self.width + now / LANES, now % LANES);
        (self.lag[at][lane] as usize, self.score[at][lane])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some movement of so many, each with a rhythm of their own.
    fn row(who: usize, frame: usize) -> Row {
        std::array::from_fn(|joint| {
            let phase = (who * 7 + joint) as f32;
            1.0 + ((0.11 + 0.03 * who as f32) * frame as f32 + phase).sin()
        })
    }

    #[test]
    fn they_are_their_definition() {
        const FRAMES: usize = 120;
        let (performers, longest, seconds) = (11, 4, 0.5);
        let mut running = Covariance::new(performers, longest, seconds);
        for who in 0..performers {
            running.begin(who, &row(who, 0));
        }
        for frame in 0..FRAMES {
            let rows: Vec<Row> = (0..performers).map(|who| row(who, frame)).collect();
            running.push(|who| Some(&rows[who]));
        }
        let keep = (-FRAME / seconds).exp();
        // Before the first frame everybody moved as in it.
        let at = |who, frame: isize| row(who, frame.max(0) as usize).map(f64::from);
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
            let spread = |who, lag| (covariance(who, lag, who, lag) + f64::from(NOISE)).sqrt();
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
            let rows: Vec<Row> = (0..3).map(|who| row(who, frame)).collect();
            running.push(|who| (who < 2).then_some(&rows[who]));
            fresh.push(|who| (who < 2).then_some(&rows[who]));
            if frame < 20 {
                running.push(|who| (who == 2).then_some(&rows[who]));
                fresh.push(|_| None);
            }
        }
        for one in [&mut running, &mut fresh] {
            one.begin(2, &row(2, 50));
        }
        for frame in 50..60 {
            let rows: Vec<Row> = (0..3).map(|who| row(who, frame)).collect();
            for one in [&mut running, &mut fresh] {
                one.push(|who| Some(&rows[who]));
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
