//! The slots of the 50 Hz grid: which frame leaves under which number, and when the next one is late.
//!
//! Times saturate: a recording's may be any.

use super::FrontOutput;
use super::playout::Playout;

/// Nanoseconds between two frames of the grid.
pub const FRAME_NS: i64 = 20_000_000;
/// The same in seconds.
pub const FRAME: f64 = FRAME_NS as f64 / 1e9;

/// A frame is never waited for longer than this, nor shorter.
const SHORTEST_NS: i64 = 1_000_000;
const LONGEST_NS: i64 = 60_000_000;
/// Frames that have been behind their turn for so long, by about as many frames all the while, have a longer way.
const DETOUR_NS: i64 = 300_000_000;
const ABOUT: i64 = 10;

/// Where a frame belongs that a datagram completed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridPosition {
    /// Its number.
    pub number: i64,
    /// Seconds since the last such frame.
    pub since: f64,
    /// Seconds since the last frame that was heard; `None` where its turn has passed.
    pub dt: Option<f64>,
    /// When it leaves.
    pub release_ns: i64,
}

/// Counts the frames that leave: each number once and in order, whatever the source's numbers do.
#[derive(Debug, Clone)]
pub struct FrameGrid {
    /// Holds frames back, where it is there.
    pub playout: Option<Playout>,
    /// When the next frame is late.
    pub due_ns: i64,
    newest: i64,
    completed: i64,
    // The newest that was more than silence.
    spoken: i64,
    base: i64,
    // Since when frames come behind their turn, and by how many at least.
    behind: Option<(i64, i64)>,
}

impl FrameGrid {
    /// No frame yet.
    #[must_use]
    pub fn new(now_ns: i64, playout: Option<Playout>) -> Self {
        Self {
            playout,
            due_ns: now_ns.saturating_add(FRAME_NS),
            newest: -1,
            completed: -1,
            spoken: -1,
            base: 0,
            behind: None,
        }
    }

    /// The frame that left last, by a datagram or without one; -1: none.
    #[must_use]
    pub fn newest(&self) -> i64 {
        self.newest
    }

    /// How many have left since the last one that a datagram completed.
    #[must_use]
    pub fn away(&self) -> i64 {
        self.newest - self.completed
    }

    /// The slot of a frame that came at `now_ns`.
    pub fn take(&mut self, out: &FrontOutput, now_ns: i64) -> GridPosition {
        let number = self.number(out, now_ns);
        let since = (number - self.completed).max(1) as f64 * FRAME;
        self.completed = self.completed.max(number);
        let mut release_ns = now_ns;
        if let Some(playout) = &mut self.playout {
            release_ns = playout.release_ns(out.t_local_ns, now_ns);
            // Where the way has become longer than the buffer, the next one's turn may be over.
            let turns = self.newest.max(number).saturating_add(1).saturating_sub(number);
            let due_ns = release_ns.saturating_add(turns.saturating_mul(FRAME_NS));
            self.due_ns = due_ns.max(now_ns.saturating_add(SHORTEST_NS));
        } else if number >= self.newest {
            self.wait(out, now_ns);
        }
        let dt = (number > self.newest).then(|| {
            let dt = if self.newest >= 0 { number - self.spoken } else { 1 };
            (self.newest, self.spoken) = (number, number);
            dt as f64 * FRAME
        });
        GridPosition {
            number,
            since,
            dt,
            release_ns,
        }
    }

    /// The turns that are still to come, in order, of numbers that a frame leaps over: it came before them, as only what is
    /// held back does.
    #[must_use]
    pub fn leapt(&self, out: &FrontOutput, now_ns: i64) -> Vec<i64> {
        let leaps = self.newest >= 0 && !out.reset && self.base + index(out) > self.newest + 1;
        if self.playout.is_none() || !leaps {
            return Vec::new();
        }
        let slot = self.clone().take(out, now_ns);
        let ahead = slot.release_ns.saturating_sub(now_ns).max(0) / FRAME_NS;
        ((self.newest + 1).max(slot.number - ahead)..slot.number)
            .map(|number| {
                slot.release_ns
                    .saturating_sub((slot.number - number).saturating_mul(FRAME_NS))
            })
            .filter(|&turn_ns| turn_ns >= now_ns)
            .collect()
    }

    /// The frame after `out` is late when `out` says, within reason.
    pub fn wait(&mut self, out: &FrontOutput, now_ns: i64) {
        let [least, most] = [SHORTEST_NS, LONGEST_NS].map(|ns| now_ns.saturating_add(ns));
        self.due_ns = out.late_ns.clamp(least, most);
    }

    /// `out` came at `now_ns` and leaves with a newer one that is here already: the frame after it is not late before that.
    pub fn hold(&mut self, out: &FrontOutput, now_ns: i64) {
        let speaks = self.newest < 0 || out.reset || self.base + index(out) >= self.newest;
        if self.playout.is_none() && speaks {
            self.wait(out, now_ns);
        }
    }

    /// One slot without a datagram; `silent`: nothing is said of it.
    pub fn skip(&mut self, silent: bool) {
        self.newest += 1;
        if !silent {
            self.spoken = self.newest;
        }
    }

    /// Whether a frame that is foreseen belongs into the newest slot.
    #[must_use]
    pub fn is_newest(&self, out: &FrontOutput) -> bool {
        self.base + index(out) == self.newest
    }

    /// Grid indices go on where the stream begins anew or slots were skipped ahead of it.
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

    /// Whether frames keep coming behind their turn: the count has to go on with them.
    fn has_detour(&mut self, number: i64, now_ns: i64) -> bool {
        let late = self.newest - number;
        // Between two frames of a slow source its grid frames leave without it.
        if late < (number - self.completed - 1).max(1) {
            self.behind = None;
            return false;
        }
        // Of a burst each is less late than the one before; all that follow a standstill are far later.
        let (since, least) = self
            .behind
            .filter(|&(_, least)| (least..=least + ABOUT).contains(&late))
            .unwrap_or((now_ns, late));
        self.behind = Some((since, least));
        now_ns.saturating_sub(since) > DETOUR_NS
    }
}

fn index(out: &FrontOutput) -> i64 {
    i64::try_from(out.seq).unwrap_or(i64::MAX / 2)
}
