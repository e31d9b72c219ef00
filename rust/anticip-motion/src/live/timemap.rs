//! Mapping of stream time to local time: the lower envelope of (arrival - stream time), with its drift.

use std::collections::VecDeque;

/// Length of a bucket of arrivals (seconds); only the least delayed arrival of each bucket counts.
const BUCKET_S: f64 = 0.5;
/// Buckets that are kept: 20 seconds.
const BUCKETS: usize = 40;
/// Drift is estimated from this span (seconds) on.
const MIN_DRIFT_SPAN_S: f64 = 5.0;
/// Largest drift of a usable clock, once it was observed for [`CONFIRMED_SPAN_S`].
pub(super) const MAX_DRIFT: f64 = 0.01;
/// Span (seconds) from which on [`MAX_DRIFT`] applies.
const CONFIRMED_SPAN_S: f64 = 10.0;
/// Largest drift of a usable clock before that span.
const MAX_EARLY_DRIFT: f64 = 0.1;
/// If the least delay is lower than all before by this (seconds) in two successive buckets, the network delay has
/// shrunk.
const SHORTER_DELAY_S: f64 = 0.01;
/// Limit of a frame's delay above the envelope (seconds) in the usual delay: a burst is not representative.
const MAX_USUAL_S: f64 = 0.05;
/// Weight of a new frame in the usual delay and its variance.
const GAIN: f64 = 1.0 / 64.0;

/// The least delayed frame of a bucket.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    number: i64,
    seconds: f64,
    offset: f64,
}

/// A line below the delays of the last twenty seconds; jitter and bursts lie above it.
///
/// Its slope is the median of the slopes between the buckets' least delays, which neither bursts nor stalls bend; its
/// height is the least delay.
#[derive(Debug, Clone, Default)]
pub(super) struct TimeMap {
    buckets: VecDeque<Bucket>,
    slopes: Vec<f64>,
    slope: f64,
    span: f64,
    /// Height of the line at `origin`, seconds.
    low: f64,
    origin: f64,
    usual_delay: f64,
    variance: f64,
    frames: u32,
}

impl TimeMap {
    pub(super) fn new() -> Self {
        Self {
            buckets: VecDeque::with_capacity(BUCKETS + 1),
            slopes: Vec::with_capacity(BUCKETS * BUCKETS / 2),
            ..Self::default()
        }
    }

    pub(super) fn reset(&mut self) {
        self.buckets.clear();
        (self.slope, self.span, self.low) = (0.0, 0.0, 0.0);
        (self.usual_delay, self.variance, self.frames) = (0.0, 0.0, 0);
    }

    /// Adds a frame of stream time `seconds` that arrived at `arrival` (local seconds).
    pub(super) fn push(&mut self, seconds: f64, arrival: f64) {
        let offset = arrival - seconds;
        let number = (arrival / BUCKET_S).floor() as i64;
        match self.buckets.back_mut() {
            Some(last) if last.number >= number => {
                if offset < last.offset {
                    (last.seconds, last.offset) = (seconds, offset);
                }
            }
            _ => {
                self.fit();
                self.buckets.push_back(Bucket {
                    number,
                    seconds,
                    offset,
                });
                while self.buckets[0].number <= number - BUCKETS as i64 {
                    self.buckets.pop_front();
                }
            }
        }
        self.origin = seconds;
        let heights = self
            .buckets
            .iter()
            .map(|b| b.offset + self.slope * (seconds - b.seconds));
        self.low = heights.fold(f64::INFINITY, f64::min);
        self.frames = self.frames.saturating_add(1);
        let weight = GAIN.max(1.0 / f64::from(self.frames));
        let delay = arrival - self.local(seconds);
        self.usual_delay += weight * (delay.min(MAX_USUAL_S) - self.usual_delay);
        self.variance += weight * ((delay.min(1.0) - self.usual_delay).powi(2) - self.variance);
    }

    /// If the delay has shrunk suddenly, shifts the older buckets down to match, because a step is not a drift.
    fn level(&mut self) {
        let Some(older) = self.buckets.len().checked_sub(2) else {
            return;
        };
        let (first, next) = (self.buckets[older], self.buckets[older + 1]);
        let above = |b: &Bucket| b.offset + self.slope * (first.seconds - b.seconds) - first.offset;
        let step = self
            .buckets
            .iter()
            .take(older)
            .map(above)
            .fold(f64::INFINITY, f64::min);
        if step.is_finite() && step > SHORTER_DELAY_S && above(&next).abs() < 0.5 * step {
            for bucket in self.buckets.iter_mut().take(older) {
                bucket.offset -= step;
            }
        }
    }

    /// Fits the slope: the median of the slopes between complete buckets.
    fn fit(&mut self) {
        self.level();
        let (Some(first), Some(last)) = (self.buckets.front(), self.buckets.back()) else {
            return;
        };
        self.span = (last.number - first.number) as f64 * BUCKET_S;
        self.slopes.clear();
        for (i, a) in self.buckets.iter().enumerate() {
            for b in self.buckets.iter().skip(i + 1) {
                if b.seconds - a.seconds > BUCKET_S / 2.0 {
                    self.slopes.push((b.offset - a.offset) / (b.seconds - a.seconds));
                }
            }
        }
        let middle = self.slopes.len() / 2;
        self.slope = if self.span >= MIN_DRIFT_SPAN_S && middle > 0 {
            *self.slopes.select_nth_unstable_by(middle, f64::total_cmp).1
        } else {
            0.0
        };
    }

    /// How much slower than the local clock stream time runs (0.01 is one per cent; 0 while unknown), and over how
    /// many seconds that was observed.
    pub(super) fn drift(&self) -> (f64, f64) {
        (self.slope, self.span)
    }

    /// Whether the drift is larger than any usable clock's.
    pub(super) fn drifts_too_much(&self) -> bool {
        [(MAX_DRIFT, CONFIRMED_SPAN_S), (MAX_EARLY_DRIFT, 0.0)]
            .iter()
            .any(|&(max, min_span)| self.span >= min_span && self.slope.abs() > max)
    }

    /// Earliest local time (seconds) at which a frame of this stream time arrives.
    pub(super) fn local(&self, seconds: f64) -> f64 {
        seconds + self.low + self.slope * (seconds - self.origin)
    }

    /// Mean delay of frames after that time, seconds.
    pub(super) fn usual_delay(&self) -> f64 {
        self.usual_delay
    }

    /// Standard deviation of those delays, seconds.
    pub(super) fn jitter(&self) -> f64 {
        self.variance.max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_delay_wins_and_is_forgotten() {
        let mut map = TimeMap::new();
        for i in 0..100 {
            let t = f64::from(i) * 0.02;
            map.push(t, 1.0 + t + if i == 10 { 0.001 } else { 0.003 });
        }
        assert!((map.local(2.0) - 3.001).abs() < 1e-9);
        for i in 100..1300 {
            let t = f64::from(i) * 0.02;
            map.push(t, 1.0 + t + 0.003);
        }
        assert!((map.local(26.0) - 27.003).abs() < 1e-6);
    }

    #[test]
    fn drift_is_found_and_bursts_do_not_bend_it() {
        for drift in [-0.003, 0.0, 0.0004, 0.02] {
            let mut map = TimeMap::new();
            for i in 0..1200 {
                let t = f64::from(i) / 60.0;
                let mut arrival = 5.0 + t * (1.0 + drift) + f64::from(i * 7919 % 13) * 0.001;
                // Every second, 150 ms are held back and arrive together.
                let held = arrival.fract();
                if held < 0.15 {
                    arrival += 0.15 - held;
                }
                map.push(t, arrival);
            }
            let (slope, span) = map.drift();
            assert!(span > 15.0);
            assert!((slope - drift).abs() < 5e-4, "{slope} for {drift}");
            let ideal = 5.0 + 19.9 * (1.0 + drift);
            assert!((map.local(19.9) - ideal).abs() < 0.005, "{drift}");
            assert!(map.usual_delay() < 0.03 && map.jitter() < 0.06);
        }
    }

    #[test]
    fn what_is_usual_is_the_mean_delay_and_a_burst_hardly_counts() {
        let mut map = TimeMap::new();
        let mut push = |i: i32, delay: f64| {
            let t = f64::from(i) * 0.02;
            map.push(t, 7.0 + t + delay);
            (map.usual_delay(), map.jitter())
        };
        // The first frames are averaged with equal weights.
        assert_eq!(push(0, 0.0).0, 0.0);
        assert!((push(1, 0.02).0 - 0.01).abs() < 1e-9);
        let (mut usual_delay, mut jitter) = (0.0, 0.0);
        for i in 2..2000 {
            (usual_delay, jitter) = push(i, if i % 2 == 0 { 0.0 } else { 0.02 });
        }
        assert!(
            (usual_delay - 0.01).abs() < 2e-4 && (jitter - 0.01).abs() < 2e-4,
            "{usual_delay} {jitter}"
        );
        let (later, wider) = push(2000, 3.0);
        assert!(
            (later - usual_delay - (0.05 - usual_delay) / 64.0).abs() < 1e-9,
            "{later}"
        );
        assert!(
            (wider.powi(2) - jitter.powi(2) - ((1.0 - later).powi(2) - jitter.powi(2)) / 64.0).abs() < 1e-9
        );
    }

    #[test]
    fn a_drift_is_believed_after_five_seconds() {
        let mut map = TimeMap::new();
        for i in 0..400 {
            let t = f64::from(i) * 0.02;
            map.push(t, t * 1.01);
            let (slope, span) = map.drift();
            assert_eq!(slope != 0.0, span >= 5.0, "{t}");
            assert!(slope == 0.0 || (slope - 0.01).abs() < 1e-6);
        }
        assert!(map.drift().1 > 7.0);
        // The drift also extrapolates.
        assert!((map.local(9.0) - 9.09).abs() < 1e-3);
    }

    #[test]
    fn a_way_that_becomes_shorter_is_no_drift() {
        for (drift, shorter) in [(0.0, 0.03), (0.0, 0.15), (0.004, 0.1), (-0.004, 0.1)] {
            let mut map = TimeMap::new();
            for i in 0..2000 {
                let t = f64::from(i) / 60.0;
                let late = if t < 11.2 { shorter } else { 0.0 };
                map.push(t, 5.0 + t * (1.0 + drift) + late);
                if t > 6.0 {
                    assert!((map.drift().0 - drift).abs() < 5e-4, "{drift} {shorter} {t}");
                }
                if t > 12.5 {
                    // The least delay is at the older end of the line.
                    assert!(
                        (map.local(t) - 5.0 - t * (1.0 + drift)).abs() < 0.004,
                        "{drift} {shorter} {t}"
                    );
                }
            }
            assert!(map.drift().1 > 15.0);
        }
    }

    #[test]
    fn nothing_overflows() {
        let mut map = TimeMap::new();
        for (seconds, arrival) in [(9e9, -9e9), (-9e9, 9e9), (0.0, 0.0), (1e-300, 9e9)] {
            map.push(seconds, arrival);
            assert!(map.local(seconds).is_finite());
        }
    }
}
