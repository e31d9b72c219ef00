//! Places frames in order and in time: order by frame number, time by the sender's clock or by arrival.
//!
//! Numbers order frames and count losses; times place them on the stream's time axis. A sender's times are used as
//! long as they agree with its numbers and with the arrivals. Where there are none, or they stand still or contradict
//! the arrivals, arrival times are used instead, with jitter removed as far as frames come regularly.

mod interval;
mod outliers;
mod pace;
mod stamp;
mod stuck_number;

use super::timemap::{MAX_DRIFT, TimeMap};
use interval::Interval;
use outliers::{Outliers, Verdict};
use pace::{Pace, Pause};
pub(super) use stamp::{Placement, Stamp};
use stuck_number::StuckNumber;

/// A number this far behind the newest (frames) may be a late packet; farther behind it is of another clock.
const MAX_LATE_FRAMES: i64 = 250;
/// The same for times (seconds).
const MAX_LATE_S: f64 = 1.0;
/// A time farther ahead than the arrivals allow (seconds) is of another clock.
const MAX_JUMP_S: f64 = 1.0;
/// A time farther ahead than both the numbers and the arrivals allow (seconds): the clock was set forward.
const SET_AHEAD_S: f64 = 0.02;
/// Without numbers: a sender that was silent for longer (seconds) before its times jumped has restarted; else its
/// clock was set.
const MAX_SET_GAP_S: f64 = 0.25;
/// Consecutive frames of another clock after which the sender has restarted, and consecutive times that contradict
/// the numbers after which they are accepted.
const CONFIRMED: u32 = 10;
/// Frames without a new time (and without a number) after which the sender's clock stands still.
const STUCK: u32 = 25;
/// Weight of a frame without a time against one with a time, to detect a clock that is sent too rarely.
const UNTIMED_WEIGHT: u32 = 3;
/// Times with a coarser resolution than this (part of an interval; binary32 after some hours) are smoothed even if no
/// numbers count the frames.
const COARSE: f64 = 0.1;
/// Times with a coarser resolution than this (part of an interval) are not used.
const TOO_COARSE: f64 = 0.65;
/// A clock that was set this often is not used.
const MAX_CLOCK_SETS: u32 = 3;
/// A clock that seems to have paused twice within this time (seconds) is not used.
const MIN_PAUSE_SPACING_S: f64 = 10.0;
/// Frames that keep arriving this late (seconds) at the usual pace: the delay has grown.
const LONGER_DELAY_S: f64 = 0.04;
/// Frames that keep arriving this late (seconds): the sender had paused, and its clock with it.
const PAUSED_S: f64 = 0.5;
/// Arrivals closer together than this (seconds) are parts of one frame or a burst and say nothing about the rate.
const TOGETHER_S: f64 = 0.002;
/// A sender's time is smoothed if it is this near (part of an interval) to where the rate expects it.
const NEAR: f64 = 0.35;
/// Part of the difference that remains after smoothing.
const SMOOTHING: f64 = 0.2;

/// The newest frame: its stamp and its place on the stream's time axis.
#[derive(Debug, Clone, Copy)]
struct Newest {
    stamp: Stamp,
    seconds: f64,
}

/// The clock of one stream.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamClock {
    newest: Option<Newest>,
    /// Bit k: the number `newest - k` was seen.
    recent: u128,
    /// How far the newest number is after the first; earlier numbers were never counted as lost.
    counted: i64,
    /// Stream time less the sender's time, or less arrival.
    shift: f64,
    by_arrival: bool,
    /// The sender's clock was found wrong: arrivals are used for good.
    is_distrusted: bool,
    /// The sender has sent times that binary32 cannot represent.
    has_f64_times: bool,
    /// Consecutive frames whose time does not continue the stream's.
    odd_times: u32,
    /// Whether the time stood still in all of them.
    time_is_stuck: bool,
    /// Weighted excess of frames without a time, each separate, over those with one.
    untimed: u32,
    /// How often the sender's clock was set.
    clock_sets: u32,
    /// Newest time less its smoothed place.
    lag: f64,
    interval: Interval,
    pace: Pace,
    outliers: Outliers,
    pause: Option<Pause>,
    /// Arrival of the frame that confirmed the last pause.
    last_pause: Option<f64>,
    stuck_number: StuckNumber,
    map: TimeMap,
}

impl StreamClock {
    pub(super) fn new() -> Self {
        Self {
            time_is_stuck: true,
            map: TimeMap::new(),
            ..Self::default()
        }
    }

    /// Forgets the stream except for its declared rate.
    pub(super) fn reset(&mut self) {
        let mut interval = std::mem::take(&mut self.interval);
        interval.forget();
        *self = Self {
            interval,
            ..Self::new()
        };
    }

    /// Sets the rate that the stream declares, frames a second.
    pub(super) fn declare(&mut self, rate: Option<f64>) {
        self.interval.hint = rate.filter(|r| (1.0..=2000.0).contains(r)).map(f64::recip);
    }

    /// Seconds between two frames, if known.
    pub(super) fn interval(&self) -> Option<f64> {
        self.interval.get()
    }

    /// Frames a second of local time, if measured.
    pub(super) fn rate(&self) -> Option<f64> {
        let interval = self.interval.mean?;
        Some(
            1.0 / if self.by_arrival {
                self.pace.interval?
            } else {
                interval * (1.0 + self.map.drift().0)
            },
        )
    }

    /// Mapping of stream time to local time.
    pub(super) fn map(&self) -> &TimeMap {
        &self.map
    }

    /// Converts a time of the stream to the sender's clock, seconds.
    pub(super) fn sender_time(&self, seconds: f64) -> f64 {
        seconds - self.shift
    }

    fn start(&mut self, stamp: Stamp) -> Placement {
        self.reset();
        self.by_arrival = stamp.time.is_none();
        self.recent = 1;
        let seconds = stamp.time.unwrap_or(stamp.arrival);
        self.newest = Some(Newest { stamp, seconds });
        self.map.push(seconds, stamp.arrival);
        Placement::Next {
            seconds,
            lost: 0,
            starts: true,
        }
    }

    /// Places the next frame.
    pub(super) fn take(&mut self, stamp: Stamp) -> Placement {
        let Some(mut newest) = self.newest else {
            return self.start(stamp);
        };
        let stamp = self.stuck_number.remove(stamp, &mut newest.stamp);
        if self.by_arrival && !self.is_distrusted && newest.stamp.time.is_none() && stamp.time.is_some() {
            // The sender has a clock after all.
            return self.start(stamp);
        }
        let placement = match (newest.stamp.number, stamp.number) {
            (Some(before), Some(number)) => {
                self.place_by_number(newest, stamp, i64::from(number.wrapping_sub(before) as i32))
            }
            _ => self.place_without_number(newest, stamp),
        };
        match placement {
            Placement::Next { seconds, .. } => {
                if self.keeps_pausing(seconds, stamp.arrival) {
                    self.distrust_clock(seconds, stamp.arrival);
                }
                self.accept(stamp, seconds);
                placement
            }
            Placement::Same => placement,
            _ => match self.outliers.push(stamp) {
                Verdict::Undecided => placement,
                Verdict::SenderRestarted => self.start(stamp),
                Verdict::TimesLeap => {
                    let seconds = self.switch_to_arrivals(newest, stamp);
                    self.accept(stamp, seconds);
                    Placement::next(seconds)
                }
                Verdict::ClockSet if self.was_set(placement, newest.stamp) => {
                    let seconds = newest.seconds + (stamp.arrival - newest.stamp.arrival).max(1e-3);
                    self.follow_clock_set(seconds, stamp);
                    self.accept(stamp, seconds);
                    Placement::next(seconds)
                }
                Verdict::ClockSet => placement,
            },
        }
    }

    /// Whether outliers at the pace of their arrivals show that the sender's clock was set. `placement` is the last
    /// outlier's: a little late, or far off (`Strange`) if the first of them came right after `newest`, the stream's
    /// newest frame.
    fn was_set(&self, placement: Placement, newest: Stamp) -> bool {
        let goes_on = self.outliers.paced_from() - newest.arrival < MAX_SET_GAP_S;
        let is_set =
            placement == (Placement::Late { lost: false }) || placement == Placement::Strange && goes_on;
        is_set && !self.by_arrival
    }

    /// Whether a frame that repeats the newest number is a new one, because the number stands still.
    pub(super) fn number_is_stuck(&mut self, pose: &anticip_wire::PoseUpdate) -> bool {
        pose.seq == self.newest.and_then(|n| n.stamp.number) && self.stuck_number.push(pose)
    }

    /// Classifies a number that is not after the newest; `None` if it is, or if frames have no numbers.
    pub(super) fn classify_past(&mut self, number: u32) -> Option<Placement> {
        let newest = self.newest?.stamp.number?;
        let behind = i64::from(newest.wrapping_sub(number) as i32);
        (behind >= 0).then(|| self.classify_behind(behind))
    }

    /// Classifies a frame that is `behind` frames older than the newest.
    fn classify_behind(&mut self, behind: i64) -> Placement {
        if behind < 128 && self.recent >> behind & 1 == 1 {
            return Placement::Doubled;
        }
        if behind > MAX_LATE_FRAMES {
            return Placement::Strange;
        }
        if behind < 128 {
            self.recent |= 1 << behind;
        }
        // Beyond the remembered numbers it may have come before, as the first frames of a restarted sender have.
        Placement::Late {
            lost: behind < self.counted.min(128),
        }
    }

    fn place_by_number(&mut self, newest: Newest, stamp: Stamp, ahead: i64) -> Placement {
        if ahead <= 0 {
            return self.classify_behind(-ahead);
        }
        let elapsed = stamp.arrival - newest.stamp.arrival;
        let steps = ahead as f64;
        if steps * self.interval.get().unwrap_or(0.02) > elapsed.max(0.0) + MAX_JUMP_S {
            return Placement::Strange;
        }
        let seconds = if self.by_arrival {
            self.place_by_arrival(newest, stamp, steps)
        } else {
            let observed = stamp.time.map_or(newest.seconds, |time| time + self.shift);
            let step = observed - newest.seconds;
            let early = self.map.local(observed) - stamp.arrival;
            if step > 0.0 && step <= elapsed.max(0.0) + MAX_JUMP_S && !self.is_set_ahead(step, steps, early) {
                self.odd_times = 0;
                self.interval.push_time(step / steps, (step - self.lag) / steps);
                let seconds = self.smooth(newest.seconds, steps, observed);
                self.lag = observed - seconds;
                seconds
            } else {
                self.lag = 0.0;
                self.place_odd_time(newest, stamp, steps)
            }
        };
        Placement::Next {
            seconds,
            lost: ahead as u64 - 1,
            starts: false,
        }
    }

    /// Whether a time `step` seconds after the newest contradicts both its number, `steps` frames after the newest,
    /// and its arrival, `early` seconds before it is expected.
    fn is_set_ahead(&self, step: f64, steps: f64, early: f64) -> bool {
        let is_farther = self
            .interval
            .get()
            .is_some_and(|i| step > steps * i + SET_AHEAD_S);
        is_farther && early > SET_AHEAD_S + MAX_DRIFT * step
    }

    /// Places a frame whose number goes on while its time does not: where the rate expects it.
    fn place_odd_time(&mut self, newest: Newest, stamp: Stamp, steps: f64) -> f64 {
        let is_stuck = stamp.time.is_none_or(|time| newest.stamp.time == Some(time));
        self.time_is_stuck = is_stuck && (self.odd_times == 0 || self.time_is_stuck);
        self.odd_times += 1;
        let elapsed = stamp.arrival - newest.stamp.arrival;
        let step = self.interval.get().map_or(elapsed.max(1e-3), |i| steps * i);
        let seconds = newest.seconds + step;
        if self.odd_times >= CONFIRMED {
            self.odd_times = 0;
            let time = stamp.time.filter(|_| !self.time_is_stuck);
            self.follow_clock_set(seconds, Stamp { time, ..stamp });
        }
        seconds
    }

    /// Adapts to a sender's clock that was set: from the frame at `seconds` on its new times count, or arrivals if it
    /// has none or was set too often.
    fn follow_clock_set(&mut self, seconds: f64, stamp: Stamp) {
        self.clock_sets += 1;
        match stamp.time {
            Some(time) if self.clock_sets < MAX_CLOCK_SETS => self.shift = seconds - time,
            _ => self.distrust_clock(seconds, stamp.arrival),
        }
    }

    fn place_without_number(&mut self, newest: Newest, stamp: Stamp) -> Placement {
        if self.by_arrival {
            let observed = stamp.arrival + self.shift;
            let step = observed - newest.seconds;
            let interval = self.interval.get();
            if step < interval.map_or(TOGETHER_S, |i| 0.3 * i) {
                return Placement::Same;
            }
            let steps = interval.map_or(1.0, |i| self.pace.steps(step, i));
            return Placement::next(self.place_by_arrival(newest, stamp, steps));
        }
        // A bundle without a time belongs to the one before it.
        let before = newest.stamp.time.unwrap_or(newest.seconds);
        let step = stamp.time.map_or(0.0, |time| time - before);
        if step == 0.0 {
            self.odd_times += 1;
            // Parts of a split bundle arrive together; what arrives apart is a frame without a time.
            if stamp.time.is_none() && stamp.arrival - newest.stamp.arrival > TOGETHER_S {
                self.untimed += UNTIMED_WEIGHT;
            }
            if self.odd_times.max(self.untimed) >= STUCK {
                self.odd_times = 0;
                return Placement::next(self.switch_to_arrivals(newest, stamp));
            }
            return Placement::Same;
        }
        if step > (stamp.arrival - newest.stamp.arrival).max(0.0) + MAX_JUMP_S || step < -MAX_LATE_S {
            return Placement::Strange;
        }
        if step < 0.0 {
            return Placement::Late { lost: false };
        }
        self.odd_times = 0;
        self.untimed = self.untimed.saturating_sub(1);
        let elapsed = (stamp.arrival - newest.stamp.arrival).max(0.0);
        let expected = self.interval.get().map(|i| (i, (elapsed / i).round().max(1.0)));
        let early = self.map.local(newest.seconds + step) - stamp.arrival;
        if let Some((interval, steps)) = expected
            && self.is_set_ahead(step, steps, early)
        {
            let seconds = newest.seconds + steps * interval;
            self.follow_clock_set(seconds, stamp);
            return Placement::next(seconds);
        }
        self.interval.push_time(step, step);
        let time = stamp.time.unwrap_or(before + step);
        Placement::next(self.place_by_time(newest, time, step))
    }

    /// Places a frame without a number by the sender's time, `step` seconds after the newest.
    fn place_by_time(&mut self, newest: Newest, time: f64, step: f64) -> f64 {
        if self.resolution(time) < COARSE {
            return newest.seconds + step;
        }
        let steps = self.interval.get().map_or(1.0, |i| (step / i).round().max(1.0));
        self.smooth(newest.seconds, steps, time + self.shift)
            .max(newest.seconds + 1e-3)
    }

    /// Resolution of the sender's times, in intervals: 0 once one was finer than binary32.
    fn resolution(&mut self, time: f64) -> f64 {
        let single = time.abs() as f32;
        self.has_f64_times |= f64::from(single) != time.abs();
        match self.interval.mean {
            Some(interval) if !self.has_f64_times => {
                (f64::from(single.next_up()) - f64::from(single)) / interval
            }
            _ => 0.0,
        }
    }

    /// Places a frame `steps` after the newest by its arrival.
    fn place_by_arrival(&mut self, newest: Newest, stamp: Stamp, steps: f64) -> f64 {
        let observed = stamp.arrival + self.shift;
        let elapsed = stamp.arrival - newest.stamp.arrival;
        let has_number = stamp.number.is_some();
        // Without numbers `steps` is estimated from the interval itself, which it must not confirm.
        self.interval
            .push_arrival(elapsed, if has_number { steps } else { 1.0 });
        // With numbers the loop starts once the interval is well known: from a wrong one it converges late.
        let pace = self
            .pace
            .interval
            .filter(|_| !has_number || self.interval.is_full());
        let Some(pace) = pace.or(self.interval.get()) else {
            return observed.max(newest.seconds + 1e-3);
        };
        self.pace.place(pace, newest.seconds, steps, observed)
    }

    /// Reduces the jitter of a sender's time, if the rate is known and the time is near to what it expects.
    fn smooth(&self, newest: f64, steps: f64, observed: f64) -> f64 {
        let Some(interval) = self.interval.get() else {
            return observed;
        };
        let expected = newest + steps * interval;
        let error = observed - expected;
        if error.abs() < NEAR * interval {
            expected + SMOOTHING * error
        } else {
            observed
        }
    }

    /// Uses arrivals from this frame on, the next after the newest; returns its place.
    fn switch_to_arrivals(&mut self, newest: Newest, stamp: Stamp) -> f64 {
        let seconds = newest.seconds + (stamp.arrival - newest.stamp.arrival).max(1e-3);
        self.distrust_clock(seconds, stamp.arrival);
        seconds
    }

    /// Uses arrivals instead of the sender's clock from now on, and forgets the rate measured with that clock.
    fn distrust_clock(&mut self, seconds: f64, arrival: f64) {
        (self.by_arrival, self.is_distrusted) = (true, true);
        self.interval.forget();
        self.shift = seconds - arrival;
        self.map.reset();
    }

    fn accept(&mut self, stamp: Stamp, seconds: f64) {
        let ahead = match (self.newest.and_then(|n| n.stamp.number), stamp.number) {
            (Some(before), Some(number)) => number.wrapping_sub(before),
            _ => 128,
        };
        self.recent = if ahead < 128 { self.recent << ahead | 1 } else { 1 };
        self.counted += i64::from(ahead);
        // A missing time or number is taken over from the frame before.
        let time = stamp.time.or(self.newest.and_then(|n| n.stamp.time));
        let number = stamp.number.or(self.newest.and_then(|n| n.stamp.number));
        self.newest = Some(Newest {
            stamp: Stamp {
                time,
                number,
                ..stamp
            },
            seconds,
        });
        self.outliers = Outliers::default();
        self.map.push(seconds, stamp.arrival);
        let is_too_coarse = stamp.time.is_some_and(|time| self.resolution(time) > TOO_COARSE);
        if !self.by_arrival && (is_too_coarse || self.map.drifts_too_much()) {
            self.distrust_clock(seconds, stamp.arrival);
            self.map.push(seconds, stamp.arrival);
        }
    }

    /// Detects frames that keep arriving late at the usual pace, because the network delay has grown or the sender
    /// and its clock paused. The stream continues by the sender's times and the delays are measured again. Returns
    /// true for a clock that pauses again and again, which is not to be used.
    fn keeps_pausing(&mut self, seconds: f64, arrival: f64) -> bool {
        let late = arrival - self.map.local(seconds) - self.map.usual_delay();
        if self.by_arrival || late < LONGER_DELAY_S {
            self.pause = None;
            return false;
        }
        let pause = self.pause.get_or_insert(Pause {
            seconds,
            arrival,
            frames: 0,
        });
        pause.frames += 1;
        let keeps_pace = arrival - pause.arrival >= 0.5 * (seconds - pause.seconds);
        let has_paused = late >= PAUSED_S;
        if !keeps_pace || pause.frames <= if has_paused { CONFIRMED } else { STUCK } {
            return false;
        }
        self.pause = None;
        self.map.reset();
        let before = if has_paused {
            self.last_pause.replace(arrival)
        } else {
            None
        };
        before.is_some_and(|before| arrival - before < MIN_PAUSE_SPACING_S)
    }
}

#[cfg(test)]
mod tests;
