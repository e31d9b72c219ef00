//! A tracking loop that removes jitter from arrivals, as far as frames come regularly.

use super::MAX_JUMP_S;

/// Part of the difference between an arrival and its expectation that goes into the frame's place.
const PLACE_GAIN: f64 = 0.1;
/// Part of that difference that goes into the interval.
const INTERVAL_GAIN: f64 = 0.005;
/// Without numbers, a frame that is late by this many times the usual deviation indicates lost frames.
const LOSS_THRESHOLD: f64 = 10.0;
/// Weight of a new frame in the usual deviation.
const DEVIATION_GAIN: f64 = 0.02;

/// State of the loop.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// Estimated seconds between two frames.
    pub(super) interval: Option<f64>,
    /// Usual deviation of arrivals from their expectation, seconds.
    deviation: f64,
    /// The newest frame, which has no number, was late and still taken for the next one.
    was_late: bool,
}

impl Pace {
    /// Number of frames from the newest one to one without a number that arrives `step` seconds later. A frame that
    /// jitter may have delayed is the next one, unless it is the second such frame in a row.
    pub(super) fn steps(&mut self, step: f64, interval: f64) -> f64 {
        let steps = (step / interval).round().max(1.0);
        let late = step - self.interval.unwrap_or(interval);
        self.was_late = steps > 1.0 && !self.was_late && late < LOSS_THRESHOLD * self.deviation;
        if self.was_late { 1.0 } else { steps }
    }

    /// Places a frame that arrives at `observed`, `steps` intervals of `interval` seconds after the newest.
    pub(super) fn place(&mut self, interval: f64, newest: f64, steps: f64, observed: f64) -> f64 {
        let expected = newest + steps * interval;
        let error = observed - expected;
        if error > MAX_JUMP_S {
            // Not a burst: the numbers stood still in the meantime.
            return observed;
        }
        let error = error.clamp(-0.5 * interval, 0.5 * interval);
        self.deviation += DEVIATION_GAIN * (error.abs() - self.deviation);
        self.interval = Some(interval + INTERVAL_GAIN * error / steps);
        expected + PLACE_GAIN * error
    }
}

/// A run of frames that arrive late at the usual pace: its first frame, and its length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pause {
    pub(super) seconds: f64,
    pub(super) arrival: f64,
    pub(super) frames: u32,
}
