//! When a frame was: its order by number, its place on the stream's time axis by the sender's clock or by arrival.
//!
//! Numbers order frames and count losses; times place them. A sender's own times are believed as long as they go on
//! as its numbers and the arrivals do. Where it has none, or they stand still or contradict the arrivals, arrivals
//! stand in, with their jitter taken out as far as the frames come regularly.

mod interval;
mod pace;
mod rivals;
mod stamp;
mod standing;

use super::timemap::TimeMap;
use interval::Interval;
use pace::{Pace, Pause};
use rivals::{Rivals, Verdict};
pub(super) use stamp::{Stamp, When};
use standing::Standing;

/// Numbers or times this far behind the newest (frames, seconds) may be a late packet; farther is another clock.
const BEHIND: (i64, f64) = (250, 1.0);
/// A time may be ahead of what the arrivals allow by this (seconds) before it is another clock.
const JUMP: f64 = 1.0;
/// A time farther ahead of what the numbers tell than this (seconds), and of what could have come by then, was set on.
const SET_ON: f64 = 0.02;
/// So many frames in order of another clock, none of the known one between them, and the sender has started over; so
/// many times that contradict the numbers, and they are taken as they are from then on.
const CONFIRMED: u32 = 10;
/// So many frames without a new time (and without a number): the sender's clock stands still.
const STUCK: u32 = 25;
/// A frame without a time counts so many times as much as one with a time against a clock that tells too rarely.
const UNTIMED: u32 = 3;
/// Of an interval: times told more coarsely than the first (in binary32, after some hours) are smoothed whether or not
/// numbers count the frames; coarser than the second they tell too little.
const COARSE: (f64, f64) = (0.1, 0.65);
/// A clock that runs wrong by this is none: after ten seconds, and as soon as a drift is believed.
const WRONG: [(f64, f64); 2] = [(0.01, 10.0), (0.1, 0.0)];
/// A clock that was set so often is none; nor is one that seems to have paused twice within these seconds.
const UNSTEADY: (u32, f64) = (3, 10.0);
/// Frames that keep coming this late (seconds) at the usual pace have a longer way than before; this late: the sender had
/// paused and its clock with it.
const LONGER: f64 = 0.04;
const PAUSED: f64 = 0.5;
/// Arrivals closer than this (seconds) are parts of one frame or a burst; they say nothing of the rate.
const TOGETHER: f64 = 0.002;
/// How far (of an interval) a sender's time may be from where the rate expects it to be smoothed, and how much of the
/// difference is believed.
const NEAR: f64 = 0.35;
const BELIEVED: f64 = 0.2;

#[derive(Debug, Clone, Copy)]
struct Newest {
    stamp: Stamp,
    seconds: f64,
}

/// The next frame, where no number tells of losses.
fn next(seconds: f64) -> When {
    When::Next {
        seconds,
        lost: 0,
        anew: false,
    }
}

/// The clock of one stream.
#[derive(Debug, Clone)]
pub(super) struct StreamClock {
    newest: Option<Newest>,
    /// Bit k: number newest - k was seen.
    recent: u128,
    /// How many numbers the newest is after the first; what is missing of those before was never counted.
    counted: i64,
    /// Stream seconds less the sender's, or less arrival.
    shift: f64,
    by_arrival: bool,
    /// True where the sender's clock was found wrong: arrivals stand in for good.
    wrong: bool,
    /// True where the sender tells times that binary32 cannot.
    precise: bool,
    /// Frames in a row whose time does not go on as the stream does, and whether it stood still in all of them.
    odd: u32,
    stands: bool,
    /// How far frames without a time, each of its own, outweigh those with one.
    untimed: u32,
    /// How often the sender's clock was set.
    sets: u32,
    /// How far the newest's time is after its place, which is smoothed.
    lag: f64,
    interval: Interval,
    pace: Pace,
    rivals: Rivals,
    pause: Option<Pause>,
    /// Arrival of the frame that confirmed the last pause.
    paused: Option<f64>,
    standing: Standing,
    map: TimeMap,
}

impl StreamClock {
    pub(super) fn new() -> Self {
        Self {
            newest: None,
            recent: 0,
            counted: 0,
            shift: 0.0,
            by_arrival: false,
            wrong: false,
            precise: false,
            odd: 0,
            stands: true,
            untimed: 0,
            sets: 0,
            lag: 0.0,
            interval: Interval::default(),
            pace: Pace::default(),
            rivals: Rivals::default(),
            pause: None,
            paused: None,
            standing: Standing::default(),
            map: TimeMap::new(),
        }
    }

    /// Forgets the stream; what it declared stays.
    pub(super) fn reset(&mut self) {
        let mut interval = std::mem::take(&mut self.interval);
        interval.forget();
        *self = Self {
            interval,
            ..Self::new()
        };
    }

    /// What the stream declares as its rate, frames a second.
    pub(super) fn declare(&mut self, rate: Option<f64>) {
        self.interval.hint = rate.filter(|r| (1.0..=2000.0).contains(r)).map(f64::recip);
    }

    /// Seconds between two frames, once known.
    pub(super) fn interval(&self) -> Option<f64> {
        self.interval.get()
    }

    /// Frames a second of local time, once measured.
    pub(super) fn rate(&self) -> Option<f64> {
        let interval = self.interval.mean?;
        Some(
            1.0 / if self.by_arrival {
                self.pace.seconds?
            } else {
                interval * (1.0 + self.map.drift().0)
            },
        )
    }

    /// Stream time to local time.
    pub(super) fn map(&self) -> &TimeMap {
        &self.map
    }

    /// The sender's clock at a time of the stream, seconds.
    pub(super) fn sender_time(&self, seconds: f64) -> f64 {
        seconds - self.shift
    }

    fn begin(&mut self, stamp: Stamp) -> When {
        self.reset();
        self.by_arrival = stamp.time.is_none();
        self.recent = 1;
        let seconds = stamp.time.unwrap_or(stamp.arrival);
        self.newest = Some(Newest { stamp, seconds });
        self.map.push(seconds, stamp.arrival);
        When::Next {
            seconds,
            lost: 0,
            anew: true,
        }
    }

    /// Takes a frame's stamp.
    pub(super) fn take(&mut self, stamp: Stamp) -> When {
        let Some(mut newest) = self.newest else {
            return self.begin(stamp);
        };
        let stamp = self.standing.believed(stamp, &mut newest.stamp);
        if self.by_arrival && !self.wrong && newest.stamp.time.is_none() && stamp.time.is_some() {
            // It has a clock after all.
            return self.begin(stamp);
        }
        let when = match (newest.stamp.number, stamp.number) {
            (Some(before), Some(number)) => {
                self.by_number(newest, stamp, i64::from(number.wrapping_sub(before) as i32))
            }
            _ => self.by_time(newest, stamp),
        };
        match when {
            When::Next { seconds, .. } => {
                if self.keeps_pausing(seconds, stamp.arrival) {
                    self.go_by_arrival(seconds, stamp.arrival);
                }
                self.accept(stamp, seconds);
                when
            }
            When::Same => when,
            _ => match self.rivals.take(stamp) {
                Verdict::Open => when,
                Verdict::StartedOver => self.begin(stamp),
                Verdict::Leaps => {
                    let seconds = self.give_way(newest, stamp);
                    self.accept(stamp, seconds);
                    next(seconds)
                }
                Verdict::SetBack if when == (When::Late { lost: false }) && !self.by_arrival => {
                    let seconds = newest.seconds + (stamp.arrival - newest.stamp.arrival).max(1e-3);
                    self.set(seconds, stamp);
                    self.accept(stamp, seconds);
                    next(seconds)
                }
                Verdict::SetBack => when,
            },
        }
    }

    /// Whether a frame that is doubled by its number is none: the number stands still, and counts no more.
    pub(super) fn stands_still(&mut self, pose: &anticip_wire::PoseUpdate) -> bool {
        pose.seq == self.newest.and_then(|n| n.stamp.number) && self.standing.repeat(pose)
    }

    /// What a number is that is not after the newest; none where it is, or where frames have none.
    pub(super) fn past(&mut self, number: u32) -> Option<When> {
        let newest = self.newest?.stamp.number?;
        let behind = i64::from(newest.wrapping_sub(number) as i32);
        (behind >= 0).then(|| self.behind(behind))
    }

    /// What a frame is that is so many behind the newest.
    fn behind(&mut self, behind: i64) -> When {
        if behind < 128 && self.recent >> behind & 1 == 1 {
            return When::Doubled;
        }
        if behind > BEHIND.0 {
            return When::Strange;
        }
        if behind < 128 {
            self.recent |= 1 << behind;
        }
        // Farther behind than is remembered it may have come: so are the first frames of a sender that starts over.
        When::Late {
            lost: behind < self.counted.min(128),
        }
    }

    fn by_number(&mut self, newest: Newest, stamp: Stamp, ahead: i64) -> When {
        if ahead <= 0 {
            return self.behind(-ahead);
        }
        let elapsed = stamp.arrival - newest.stamp.arrival;
        let steps = ahead as f64;
        if steps * self.interval.get().unwrap_or(0.02) > elapsed.max(0.0) + JUMP {
            return When::Strange;
        }
        let seconds = if self.by_arrival {
            self.by_arrivals(newest, stamp, steps)
        } else {
            let observed = stamp.time.map_or(newest.seconds, |time| time + self.shift);
            let step = observed - newest.seconds;
            let early = self.map.local(observed) - stamp.arrival;
            if step > 0.0 && step <= elapsed.max(0.0) + JUMP && !self.is_set_on(step, steps, early) {
                self.odd = 0;
                self.interval.follow(step / steps, (step - self.lag) / steps);
                let seconds = self.smooth(newest.seconds, steps, observed);
                self.lag = observed - seconds;
                seconds
            } else {
                self.lag = 0.0;
                self.odd_time(newest, stamp, steps)
            }
        };
        When::Next {
            seconds,
            lost: ahead as u64 - 1,
            anew: false,
        }
    }

    /// Whether a time `step` after the newest, of a frame `steps` after it that comes `early`, contradicts both its
    /// number and its arrival.
    fn is_set_on(&self, step: f64, steps: f64, early: f64) -> bool {
        let farther = self.interval.get().is_some_and(|i| step > steps * i + SET_ON);
        farther && early > SET_ON + WRONG[0].0 * step
    }

    /// The place of a frame whose number goes on while its time does not: where the rate expects it.
    fn odd_time(&mut self, newest: Newest, stamp: Stamp, steps: f64) -> f64 {
        let stands = stamp.time.is_none_or(|time| newest.stamp.time == Some(time));
        self.stands = stands && (self.odd == 0 || self.stands);
        self.odd += 1;
        let elapsed = stamp.arrival - newest.stamp.arrival;
        let step = self.interval.get().map_or(elapsed.max(1e-3), |i| steps * i);
        let seconds = newest.seconds + step;
        if self.odd >= CONFIRMED {
            self.odd = 0;
            let time = stamp.time.filter(|_| !self.stands);
            self.set(seconds, Stamp { time, ..stamp });
        }
        seconds
    }

    /// The sender's clock was set: what it says of a frame at `seconds` counts from here on, unless that is too often.
    fn set(&mut self, seconds: f64, stamp: Stamp) {
        self.sets += 1;
        match stamp.time {
            Some(time) if self.sets < UNSTEADY.0 => self.shift = seconds - time,
            _ => self.go_by_arrival(seconds, stamp.arrival),
        }
    }

    fn by_time(&mut self, newest: Newest, stamp: Stamp) -> When {
        if self.by_arrival {
            let observed = stamp.arrival + self.shift;
            let step = observed - newest.seconds;
            let interval = self.interval.get();
            if step < interval.map_or(TOGETHER, |i| 0.3 * i) {
                return When::Same;
            }
            let steps = interval.map_or(1.0, |i| self.pace.steps(step, i));
            return next(self.by_arrivals(newest, stamp, steps));
        }
        // A bundle without a time belongs to the one before it.
        let before = newest.stamp.time.unwrap_or(newest.seconds);
        let step = stamp.time.map_or(0.0, |time| time - before);
        if step == 0.0 {
            self.odd += 1;
            // What a bundle that was split holds comes at once; apart, it is a frame that has no time.
            if stamp.time.is_none() && stamp.arrival - newest.stamp.arrival > TOGETHER {
                self.untimed += UNTIMED;
            }
            if self.odd.max(self.untimed) >= STUCK {
                self.odd = 0;
                return next(self.give_way(newest, stamp));
            }
            return When::Same;
        }
        if step > (stamp.arrival - newest.stamp.arrival).max(0.0) + JUMP || step < -BEHIND.1 {
            return When::Strange;
        }
        if step < 0.0 {
            return When::Late { lost: false };
        }
        self.odd = 0;
        self.untimed = self.untimed.saturating_sub(1);
        let elapsed = (stamp.arrival - newest.stamp.arrival).max(0.0);
        let expected = self.interval.get().map(|i| (i, (elapsed / i).round().max(1.0)));
        let early = self.map.local(newest.seconds + step) - stamp.arrival;
        if let Some((interval, steps)) = expected
            && self.is_set_on(step, steps, early)
        {
            let seconds = newest.seconds + steps * interval;
            self.set(seconds, stamp);
            return next(seconds);
        }
        self.interval.follow(step, step);
        let time = stamp.time.unwrap_or(before + step);
        next(self.by_sender(newest, time, step))
    }

    /// The place of a frame without a number by the sender's time, `step` after the newest.
    fn by_sender(&mut self, newest: Newest, time: f64, step: f64) -> f64 {
        if self.grain(time) < COARSE.0 {
            return newest.seconds + step;
        }
        let steps = self.interval.get().map_or(1.0, |i| (step / i).round().max(1.0));
        self.smooth(newest.seconds, steps, time + self.shift)
            .max(newest.seconds + 1e-3)
    }

    /// How coarsely the sender tells its time, in intervals: 0 where one was ever told more finely than binary32 can.
    fn grain(&mut self, time: f64) -> f64 {
        let single = time.abs() as f32;
        self.precise |= f64::from(single) != time.abs();
        match self.interval.mean {
            Some(interval) if !self.precise => (f64::from(single.next_up()) - f64::from(single)) / interval,
            _ => 0.0,
        }
    }

    /// The place of a frame `steps` after the newest by its arrival.
    fn by_arrivals(&mut self, newest: Newest, stamp: Stamp, steps: f64) -> f64 {
        let observed = stamp.arrival + self.shift;
        let elapsed = stamp.arrival - newest.stamp.arrival;
        let numbered = stamp.number.is_some();
        // Without numbers the steps are a guess by the interval itself, which must not confirm it.
        self.interval.gather(elapsed, if numbered { steps } else { 1.0 });
        // Of a numbered stream the loop begins where the interval is known well: from a wrong one it finds home late.
        let pace = self.pace.seconds.filter(|_| !numbered || self.interval.is_full());
        let Some(pace) = pace.or(self.interval.get()) else {
            return observed.max(newest.seconds + 1e-3);
        };
        self.pace.place(pace, newest.seconds, steps, observed)
    }

    /// A sender's time with its jitter taken out, where the rate is known and it is near what the rate expects.
    fn smooth(&self, newest: f64, steps: f64, observed: f64) -> f64 {
        let Some(interval) = self.interval.get() else {
            return observed;
        };
        let expected = newest + steps * interval;
        let error = observed - expected;
        if error.abs() < NEAR * interval {
            expected + BELIEVED * error
        } else {
            observed
        }
    }

    /// Arrivals stand in from this frame on, the next after the newest.
    fn give_way(&mut self, newest: Newest, stamp: Stamp) -> f64 {
        let seconds = newest.seconds + (stamp.arrival - newest.stamp.arrival).max(1e-3);
        self.go_by_arrival(seconds, stamp.arrival);
        seconds
    }

    fn go_by_arrival(&mut self, seconds: f64, arrival: f64) {
        (self.by_arrival, self.wrong) = (true, true);
        // What its times told of the rate is as wrong.
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
        // What a frame leaves out goes on from the one before.
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
        self.rivals = Rivals::default();
        self.map.push(seconds, stamp.arrival);
        let (drift, span) = self.map.drift();
        let tells_too_little = stamp.time.is_some_and(|time| self.grain(time) > COARSE.1);
        let runs_wrong = WRONG
            .iter()
            .any(|&(most, after)| span >= after && drift.abs() > most);
        if !self.by_arrival && (tells_too_little || runs_wrong) {
            self.go_by_arrival(seconds, stamp.arrival);
            self.map.push(seconds, stamp.arrival);
        }
    }

    /// Frames that keep coming late at the usual pace: their way has become longer, or the sender and its clock had
    /// paused. The movement goes on as the sender says, its delays are told anew. True for a clock that pauses again
    /// and again: it is none.
    fn keeps_pausing(&mut self, seconds: f64, arrival: f64) -> bool {
        let late = arrival - self.map.local(seconds) - self.map.usual();
        if self.by_arrival || late < LONGER {
            self.pause = None;
            return false;
        }
        let pause = self.pause.get_or_insert(Pause {
            seconds,
            arrival,
            frames: 0,
        });
        pause.frames += 1;
        let paced = arrival - pause.arrival >= 0.5 * (seconds - pause.seconds);
        let paused = late >= PAUSED;
        if !paced || pause.frames <= if paused { CONFIRMED } else { STUCK } {
            return false;
        }
        self.pause = None;
        self.map.reset();
        let before = if paused {
            self.paused.replace(arrival)
        } else {
            None
        };
        before.is_some_and(|before| arrival - before < UNSTEADY.1)
    }
}

#[cfg(test)]
mod tests;
