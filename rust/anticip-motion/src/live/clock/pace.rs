//! The loop that takes jitter out of arrivals, as far as frames come regularly.

use super::JUMP;

/// How much of the difference between an arrival and where it was expected is believed: for the place, for the interval.
const BELIEVED: (f64, f64) = (0.1, 0.005);
/// Without numbers a frame that comes so many times as late as arrivals mostly are off tells of lost ones; how much of a
/// frame's difference that is learned from.
const SPREAD: (f64, f64) = (10.0, 0.02);

/// How frames arrive.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// Between two frames, as the loop has it.
    pub(super) seconds: Option<f64>,
    /// How far arrivals mostly are from where they are expected, seconds.
    spread: f64,
    /// The newest frame, which has no number, was late and yet taken for the next.
    late: bool,
}

impl Pace {
    /// How many frames after the newest one without a number is that arrives `step` after it. Where jitter may have made
    /// one late it is the next, unless it is the second in a row.
    pub(super) fn steps(&mut self, step: f64, interval: f64) -> f64 {
        let steps = (step / interval).round().max(1.0);
        let late = step - self.seconds.unwrap_or(interval);
        self.late = steps > 1.0 && !self.late && late < SPREAD.0 * self.spread;
        if self.late { 1.0 } else { steps }
    }

    /// The place of a frame that arrives at `observed`, `steps` of `pace` after the newest.
    pub(super) fn place(&mut self, pace: f64, newest: f64, steps: f64, observed: f64) -> f64 {
        let expected = newest + steps * pace;
        let error = observed - expected;
        if error > JUMP {
            // Not a burst: the numbers have stood still meanwhile.
            return observed;
        }
        let error = error.clamp(-0.5 * pace, 0.5 * pace);
        self.spread += SPREAD.1 * (error.abs() - self.spread);
        self.seconds = Some(pace + BELIEVED.1 * error / steps);
        expected + BELIEVED.0 * error
    }
}

/// Frames that come late at the usual pace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pause {
    pub(super) seconds: f64,
    pub(super) arrival: f64,
    pub(super) frames: u32,
}
