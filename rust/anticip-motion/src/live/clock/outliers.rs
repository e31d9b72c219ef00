//! Detection of a new clock from consecutive frames that do not belong to the stream.

use super::{CONFIRMED, MAX_JUMP_S, Stamp};

/// Frames that follow each other at the pace of their arrivals are not late packets, which come in faster bursts,
/// from this number on.
const MIN_PACED_FRAMES: u32 = 3;

/// What consecutive frames of another clock indicate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// Not enough frames.
    Undecided,
    /// They go on at the pace of their arrivals, without a number: unless the sender was silent before them, its
    /// clock was set.
    ClockSet,
    /// The sender has restarted.
    SenderRestarted,
    /// Times advance faster than arrivals (in milliseconds, say): they are not usable.
    TimesLeap,
}

/// The last outlier, and the number of consecutive ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outliers {
    last: Option<Stamp>,
    /// Arrival of the first of those that keep the pace.
    paced_from: f64,
    frames: u32,
    paced_frames: u32,
}

impl Outliers {
    /// Arrival of the first of the consecutive outliers that keep the pace of their arrivals.
    pub(super) fn paced_from(&self) -> f64 {
        self.paced_from
    }

    pub(super) fn push(&mut self, stamp: Stamp) -> Verdict {
        let (mut follows, mut leaps, mut is_paced) = (false, false, false);
        if let Some(last) = self.last.replace(stamp) {
            if let (Some(a), Some(b)) = (last.number, stamp.number) {
                follows = (1..=50).contains(&b.wrapping_sub(a));
            } else if let (Some(a), Some(b)) = (last.time, stamp.time) {
                leaps = b - a > (stamp.arrival - last.arrival).max(0.0) + MAX_JUMP_S;
                follows = leaps || b > a && b - a < 1.0;
                is_paced = follows && stamp.arrival - last.arrival >= 0.5 * (b - a);
            }
        }
        self.frames = if follows { self.frames + 1 } else { 1 };
        if is_paced {
            self.paced_frames += 1;
        } else {
            (self.paced_frames, self.paced_from) = (1, stamp.arrival);
        }
        match (self.frames >= CONFIRMED, leaps) {
            (false, _) if self.paced_frames >= MIN_PACED_FRAMES => Verdict::ClockSet,
            (false, _) => Verdict::Undecided,
            (true, false) => Verdict::SenderRestarted,
            (true, true) => Verdict::TimesLeap,
        }
    }
}
