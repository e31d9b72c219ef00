//! Frames that do not belong to the stream and follow each other.

use super::{CONFIRMED, JUMP, Stamp};

/// So many of them at the pace of their arrivals are no late packets. A burst of those comes faster.
const PACED: u32 = 3;

/// What frames of a strange clock, none of the known one between them, tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// Too little.
    Open,
    /// They go on as their arrivals do: where they are a little behind, the sender's clock was set.
    SetBack,
    /// The sender has started over.
    StartedOver,
    /// Its times run ahead of the arrivals from frame to frame (in milliseconds, say): they are no clock.
    Leaps,
}

/// The last of them, and how many there were in order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rivals {
    last: Option<Stamp>,
    frames: u32,
    paced: u32,
}

impl Rivals {
    pub(super) fn take(&mut self, stamp: Stamp) -> Verdict {
        let (mut follows, mut leaps, mut paced) = (false, false, false);
        if let Some(last) = self.last.replace(stamp) {
            if let (Some(a), Some(b)) = (last.number, stamp.number) {
                follows = (1..=50).contains(&b.wrapping_sub(a));
            } else if let (Some(a), Some(b)) = (last.time, stamp.time) {
                leaps = b - a > (stamp.arrival - last.arrival).max(0.0) + JUMP;
                follows = leaps || b > a && b - a < 1.0;
                paced = follows && stamp.arrival - last.arrival >= 0.5 * (b - a);
            }
        }
        self.frames = if follows { self.frames + 1 } else { 1 };
        self.paced = if paced { self.paced + 1 } else { 1 };
        match (self.frames >= CONFIRMED, leaps) {
            (false, _) if self.paced >= PACED => Verdict::SetBack,
            (false, _) => Verdict::Open,
            (true, false) => Verdict::StartedOver,
            (true, true) => Verdict::Leaps,
        }
    }
}
