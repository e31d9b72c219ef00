//! The slots of the 50 Hz grid: the number of each output frame, and when the next one is late.
//!
//! Arithmetic on times saturates, because a recording may hold any values.

use super::FrontOutput;
use super::playout::Playout;

/// Nanoseconds between two grid frames.
pub const FRAME_NS: i64 = 20_000_000;
/// Seconds between two grid frames.
pub const FRAME: f64 = FRAME_NS as f64 / 1e9;

/// Shortest and longest time to wait for a frame.
const MIN_WAIT_NS: i64 = 1_000_000;
const MAX_WAIT_NS: i64 = 60_000_000;
/// Time that frames must have been behind their slots before the network delay counts as grown.
const DETOUR_NS: i64 = 300_000_000;
/// Most frames by which the amount they are behind may vary in that time.
const DETOUR_SPREAD: i64 = 10;

/// The slot of a frame that a datagram completed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridPosition {
    /// Frame number.
    pub number: i64,
    /// Seconds since the last frame that a datagram completed.
    pub since_completed_s: f64,
    /// Seconds since the last frame that was reported; `None` if its slot has passed.
    pub dt: Option<f64>,
    /// When it leaves, nanoseconds.
    pub release_ns: i64,
}

/// Numbers the output frames: each number once and in order, whatever the source's numbers do.
#[derive(Debug, Clone)]
pub struct FrameGrid {
    /// Holds frames back, if set.
    pub playout: Option<Playout>,
    /// When the next frame is late.
    pub due_ns: i64,
    newest: i64,
    /// Newest frame that a datagram completed.
    completed: i64,
    /// Newest frame that was not skipped silently.
    reported: i64,
    /// Frame number less grid index.
    base: i64,
    /// Since when frames come behind their slots, and by how many frames at least.
    behind: Option<(i64, i64)>,
}

impl FrameGrid {
    /// Creates a grid without frames.
    #[must_use]
    pub fn new(now_ns: i64, playout: Option<Playout>) -> Self {
        Self {
            playout,
            due_ns: now_ns.saturating_add(FRAME_NS),
            newest: -1,
            completed: -1,
            reported: -1,
            base: 0,
            behind: None,
        }
    }

    /// Number of the last frame that left, by a datagram or without one; -1 if none did.
    #[must_use]
    pub fn newest(&self) -> i64 {
        self.newest
    }

    /// Frames that left since the last one that a datagram completed.
    #[must_use]
    pub fn frames_since_completed(&self) -> i64 {
        self.newest - self.completed
    }

    /// Assigns a slot to a frame that arrived at `now_ns`.
    pub fn take(&mut self, out: &FrontOutput, now_ns: i64) -> GridPosition {
        let number = self.number(out, now_ns);
        let since_completed_s = (number - self.completed).max(1) as f64 * FRAME;
        self.completed = self.completed.max(number);
        let mut release_ns = now_ns;
        if let Some(playout) = &mut self.playout {
            release_ns = playout.release_ns(out.t_local_ns, now_ns);
            // If the network delay now exceeds the buffer, the next frame's slot may already be over.
            let slots = self.newest.max(number).saturating_add(1).saturating_sub(number);
            let due_ns = release_ns.saturating_add(slots.saturating_mul(FRAME_NS));
            self.due_ns = due_ns.max(now_ns.saturating_add(MIN_WAIT_NS));
        } else if number >= self.newest {
            self.set_deadline(out, now_ns);
        }
        let dt = (number > self.newest).then(|| {
            let dt = if self.newest >= 0 {
                number - self.reported
            } else {
                1
            };
            (self.newest, self.reported) = (number, number);
            dt as f64 * FRAME
        });
        GridPosition {
            number,
            since_completed_s,
            dt,
            release_ns: release_ns.max(now_ns),
        }
    }

    /// Release times, in order, of the slots still to come, or just missed, that this frame skips. Only frames that are
    /// held back can arrive before such slots.
    #[must_use]
    pub fn skipped_slots_ns(&self, out: &FrontOutput, now_ns: i64) -> Vec<i64> {
        let skips = self.newest >= 0 && !out.reset && self.base + index(out) > self.newest + 1;
        if self.playout.is_none() || !skips {
            return Vec::new();
        }
        let slot = self.clone().take(out, now_ns);
        // A slot's time moves a little with the estimate of the delay: it may be over before its deadline was.
        let begin_ns = now_ns.saturating_sub(FRAME_NS / 4);
        let ahead = slot.release_ns.saturating_sub(begin_ns).max(0) / FRAME_NS;
        ((self.newest + 1).max(slot.number - ahead)..slot.number)
            .map(|number| {
                slot.release_ns
                    .saturating_sub((slot.number - number).saturating_mul(FRAME_NS))
            })
            .filter(|&release_ns| release_ns >= begin_ns)
            .collect()
    }

    /// Sets the deadline of the frame after `out` to the one in `out`, within 1 to 60 ms from now.
    pub fn set_deadline(&mut self, out: &FrontOutput, now_ns: i64) {
        let [earliest, latest] = [MIN_WAIT_NS, MAX_WAIT_NS].map(|ns| now_ns.saturating_add(ns));
        self.due_ns = out.late_ns.clamp(earliest, latest);
    }

    /// Like [`Self::set_deadline`], for an `out` that leaves with a newer frame that is here already.
    pub fn postpone(&mut self, out: &FrontOutput, now_ns: i64) {
        let is_current = self.newest < 0 || out.reset || self.base + index(out) >= self.newest;
        if self.playout.is_none() && is_current {
            self.set_deadline(out, now_ns);
        }
    }

    /// Passes one slot without a datagram; `silent`: nothing is reported for it.
    pub fn skip(&mut self, silent: bool) {
        self.newest += 1;
        if !silent {
            self.reported = self.newest;
        }
    }

    /// Whether an extrapolated frame belongs to the newest slot.
    #[must_use]
    pub fn is_newest(&self, out: &FrontOutput) -> bool {
        self.base + index(out) == self.newest
    }

    /// Number of a frame. The count continues when a stream restarts or slots were skipped ahead of it.
    fn number(&mut self, out: &FrontOutput, now_ns: i64) -> i64 {
        if self.newest < 0 {
            self.base = -index(out);
        }
        let number = self.base + index(out);
        if number > self.newest {
            self.behind = None;
            return number;
        }
        if !out.reset && !self.has_detour(number, now_ns) {
            return number;
        }
        self.base += self.newest + 1 - number;
        self.behind = None;
        self.newest + 1
    }

    /// Whether frames keep arriving behind their slots, so that the count has to follow them.
    fn has_detour(&mut self, number: i64, now_ns: i64) -> bool {
        let late = self.newest - number;
        // Grid frames between two frames of a slow source leave without it.
        if late < (number - self.completed - 1).max(1) {
            self.behind = None;
            return false;
        }
        // In a burst each frame is less late than the one before; after a stall all are far later.
        let (since_ns, least) = self
            .behind
            .filter(|&(_, least)| (least..=least + DETOUR_SPREAD).contains(&late))
            .unwrap_or((now_ns, late));
        self.behind = Some((since_ns, least));
        now_ns.saturating_sub(since_ns) > DETOUR_NS
    }
}

fn index(out: &FrontOutput) -> i64 {
    i64::try_from(out.seq).unwrap_or(i64::MAX / 2)
}
