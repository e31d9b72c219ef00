//! Frames that do not belong to the stream and follow each other.

use super::{CONFIRMED, JUMP, Stamp};

/// What frames of a strange clock, none of the known one between them, tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// Too little.
    Open,
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
}

impl Rivals {
    pub(super) fn take(&mut self, stamp: Stamp) -> Verdict {
        let (mut follows, mut leaps) = (false, false);
        if let Some(last) = self.last.replace(stamp) {
            if let (Some(a), Some(b)) = (last.number, stamp.number) {
                follows = (1..=50).contains(&b.wrapping_sub(a));
            } else if let (Some(a), Some(b)) = (last.time, stamp.time) {
                leaps = b - a > (stamp.arrival - last.arrival).max(0.0) + JUMP;
                follows = leaps || b > a && b - a < 1.0;
            }
        }
        self.frames = if follows { self.frames + 1 } else { 1 };
        match (self.frames >= CONFIRMED, leaps) {
            (false, _) => Verdict::Open,
            (true, false) => Verdict::StartedOver,
            (true, true) => Verdict::Leaps,
        }
    }
}
