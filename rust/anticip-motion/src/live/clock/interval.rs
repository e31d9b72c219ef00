//! The time between two frames of a stream.

/// Intervals that the rate is told from, and how many it takes.
const INTERVALS: (usize, usize) = (64, 8);

/// Arrivals of frames count together until they are this far apart (seconds).
const GATHERED: f64 = 0.01;

/// So many frames in a row, each farther apart than the mean by this factor, or each closer: the rate is another one.
/// Jitter cannot do that; it makes the next interval the shorter.
const CHANGED: (usize, f64) = (8, 1.15);

/// The time between two frames: the mean of the latest ones near their median. Jitter telescopes in it, loss is left out.
#[derive(Debug, Clone, Default)]
pub(super) struct Interval {
    recent: Vec<f64>,
    next: usize,
    sorted: Vec<f64>,
    /// Intervals in a row that the mean does not hold for, and how many.
    other: [f64; CHANGED.0],
    others: usize,
    /// Seconds and frames since the arrival that was counted last.
    gathered: (f64, f64),
    /// What the stream declares; counts until it is known better.
    pub(super) hint: Option<f64>,
    pub(super) mean: Option<f64>,
}

impl Interval {
    /// Forgets all but what was declared.
    pub(super) fn forget(&mut self) {
        *self = Self {
            hint: self.hint,
            ..Self::default()
        };
    }

    /// Takes an interval of the sender's own clock: of places, whose jitter is smoothed, and as it was `told`. Where the
    /// rate changes, those of before no longer count: a mean of both is neither.
    pub(super) fn follow(&mut self, seconds: f64, told: f64) {
        let side = self.mean.map_or(0, |mean| {
            i8::from(told > mean * CHANGED.1) - i8::from(told < mean / CHANGED.1)
        });
        let same = self.mean.is_some_and(|mean| (side > 0) == (self.other[0] > mean));
        if side == 0 || !same {
            self.others = 0;
        }
        if side != 0 {
            self.other[self.others] = told;
            self.others += 1;
        }
        if self.others < CHANGED.0 {
            return self.push(seconds);
        }
        (self.others, self.next) = (0, 0);
        self.recent.clear();
        self.other.into_iter().for_each(|told| self.push(told));
    }

    pub(super) fn push(&mut self, seconds: f64) {
        if self.recent.len() < INTERVALS.0 {
            self.recent.push(seconds);
        } else {
            self.recent[self.next] = seconds;
        }
        self.next = (self.next + 1) % INTERVALS.0;
        // Full, it is looked at now and then: a rate does not change from frame to frame.
        let full = self.is_full();
        if self.recent.len() < INTERVALS.1 || full && !self.next.is_multiple_of(INTERVALS.1) {
            return;
        }
        self.sorted.clone_from(&self.recent);
        self.sorted.sort_unstable_by(f64::total_cmp);
        let median = self.sorted[self.sorted.len() / 2];
        let near = |v: &&f64| (0.4 * median..=1.6 * median).contains(*v);
        let (sum, count) = self
            .sorted
            .iter()
            .filter(near)
            .fold((0.0, 0.0), |(s, n), v| (s + v, n + 1.0));
        self.mean = (count > 0.0 && sum > 0.0).then(|| sum / count);
    }

    /// Takes `frames` that arrived `seconds` after the last. Those that come close to each other count together: left out,
    /// they would make a quick sender seem slow.
    pub(super) fn gather(&mut self, seconds: f64, frames: f64) {
        let (seconds, frames) = (self.gathered.0 + seconds, self.gathered.1 + frames);
        self.gathered = (seconds, frames);
        if seconds > GATHERED {
            self.gathered = (0.0, 0.0);
            self.push(seconds / frames);
        }
    }

    /// Whether as many intervals were pushed as it is told from.
    pub(super) fn is_full(&self) -> bool {
        self.recent.len() == INTERVALS.0
    }

    pub(super) fn get(&self) -> Option<f64> {
        self.mean.or(self.hint)
    }
}
