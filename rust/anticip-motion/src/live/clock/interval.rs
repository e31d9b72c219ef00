//! The time between two frames of a stream.

/// Intervals that the mean is computed from.
const MAX_INTERVALS: usize = 64;
/// Intervals that it takes at least; also how often a full buffer is evaluated.
const MIN_INTERVALS: usize = 8;

/// Arrivals are counted together until they span this time (seconds).
const MIN_ARRIVAL_SPAN_S: f64 = 0.01;

/// Consecutive intervals that are all longer, or all shorter, than the mean by [`CHANGE`] after which the rate has
/// changed. Jitter cannot cause that, because it shortens the next interval.
const CHANGE_FRAMES: usize = 8;
/// Factor by which an interval differs from the mean of another rate.
const CHANGE: f64 = 1.15;

/// Time between two frames: the mean of the latest intervals near their median. Jitter cancels out in it, and
/// intervals with lost frames are left out.
#[derive(Debug, Clone, Default)]
pub(super) struct Interval {
    recent: Vec<f64>,
    next: usize,
    sorted: Vec<f64>,
    /// Consecutive intervals that contradict the mean, and their number.
    changed: [f64; CHANGE_FRAMES],
    changed_count: usize,
    /// Seconds and frames since the last arrival that was counted.
    pending: (f64, f64),
    /// Declared by the stream; used until the mean is known.
    pub(super) hint: Option<f64>,
    pub(super) mean: Option<f64>,
}

impl Interval {
    /// Forgets everything except the declared interval.
    pub(super) fn forget(&mut self) {
        *self = Self {
            hint: self.hint,
            ..Self::default()
        };
    }

    /// Adds an interval of the sender's clock, `smoothed` and as `reported`. If the rate changes, earlier intervals
    /// are dropped, because a mean over both rates is wrong for either.
    pub(super) fn push_time(&mut self, smoothed: f64, reported: f64) {
        let side = self.mean.map_or(0, |mean| {
            i8::from(reported > mean * CHANGE) - i8::from(reported < mean / CHANGE)
        });
        let is_same_side = self
            .mean
            .is_some_and(|mean| (side > 0) == (self.changed[0] > mean));
        if side == 0 || !is_same_side {
            self.changed_count = 0;
        }
        if side != 0 {
            self.changed[self.changed_count] = reported;
            self.changed_count += 1;
        }
        if self.changed_count < CHANGE_FRAMES {
            return self.push(smoothed);
        }
        (self.changed_count, self.next) = (0, 0);
        self.recent.clear();
        self.changed.into_iter().for_each(|reported| self.push(reported));
    }

    /// Adds one interval.
    pub(super) fn push(&mut self, seconds: f64) {
        if self.recent.len() < MAX_INTERVALS {
            self.recent.push(seconds);
        } else {
            self.recent[self.next] = seconds;
        }
        self.next = (self.next + 1) % MAX_INTERVALS;
        // A full buffer is evaluated only now and then: the rate does not change from frame to frame.
        let full = self.is_full();
        if self.recent.len() < MIN_INTERVALS || full && !self.next.is_multiple_of(MIN_INTERVALS) {
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

    /// Adds `frames` frames that arrived `seconds` after the last ones. Close arrivals are counted together; without
    /// them a fast sender would seem slow.
    pub(super) fn push_arrival(&mut self, seconds: f64, frames: f64) {
        let (seconds, frames) = (self.pending.0 + seconds, self.pending.1 + frames);
        self.pending = (seconds, frames);
        if seconds > MIN_ARRIVAL_SPAN_S {
            self.pending = (0.0, 0.0);
            self.push(seconds / frames);
        }
    }

    /// Whether the buffer of intervals is full.
    pub(super) fn is_full(&self) -> bool {
        self.recent.len() == MAX_INTERVALS
    }

    /// The measured interval, else the declared one.
    pub(super) fn get(&self) -> Option<f64> {
        self.mean.or(self.hint)
    }
}
