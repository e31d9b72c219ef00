//! The jitter buffer: frames leave at the grid's own pace, a little later than they could.

use std::collections::VecDeque;

/// Delays that the automatic buffer is chosen from: ten seconds; what share of them it covers; how often it is looked
/// at; its bounds; and how fast it changes (nanoseconds a frame), so that the pace stays even.
const DELAYS: usize = 500;
const COVERED: f64 = 0.98;
const LOOK: u64 = 25;
const LONGEST_NS: i64 = 100_000_000;
const SPARE_NS: i64 = 1_000_000;
const SLEW_NS: i64 = 200_000;

/// When each frame of the grid leaves: so long after it could have come at the earliest, or as long as covers 98 % of
/// the delays of the last ten seconds. Depends on the frames' times and arrivals alone.
#[derive(Debug, Clone)]
pub struct Playout {
    automatic: bool,
    buffer_ns: i64,
    goal_ns: i64,
    delays: VecDeque<i64>,
    taken: u64,
}

impl Playout {
    /// Holds frames back by so many milliseconds, 0 to 100; `None`: as many as it takes.
    #[must_use]
    pub fn new(buffer_ms: Option<f64>) -> Self {
        let buffer_ns = buffer_ms.map_or(0, |ms| (ms * 1e6).round_ties_even() as i64);
        Self {
            automatic: buffer_ms.is_none(),
            buffer_ns,
            goal_ns: buffer_ns,
            delays: VecDeque::with_capacity(DELAYS),
            taken: 0,
        }
    }

    /// The buffer as it is now, milliseconds.
    #[must_use]
    pub fn buffer_ms(&self) -> f64 {
        self.buffer_ns as f64 / 1e6
    }

    /// When a frame leaves that belongs to `t_local_ns` and was complete at `t_arrival_ns`: at most 100 ms after that.
    pub fn release_ns(&mut self, t_local_ns: i64, t_arrival_ns: i64) -> i64 {
        if self.automatic {
            if self.delays.len() == DELAYS {
                self.delays.pop_front();
            }
            let delay_ns = t_arrival_ns.saturating_sub(t_local_ns);
            self.delays.push_back(delay_ns.clamp(0, LONGEST_NS));
            self.taken += 1;
            let settled = self.taken >= LOOK;
            if !settled || self.taken.is_multiple_of(LOOK) {
                let mut ordered: Vec<i64> = self.delays.iter().copied().collect();
                ordered.sort_unstable();
                let place = (COVERED * ordered.len() as f64) as usize;
                self.goal_ns = ordered[place.min(ordered.len() - 1)] + SPARE_NS;
            }
            let step = self.goal_ns - self.buffer_ns;
            self.buffer_ns += if settled {
                step.clamp(-SLEW_NS, SLEW_NS)
            } else {
                step
            };
        }
        let latest_ns = t_arrival_ns.saturating_add(LONGEST_NS);
        t_local_ns.saturating_add(self.buffer_ns).min(latest_ns)
    }
}
