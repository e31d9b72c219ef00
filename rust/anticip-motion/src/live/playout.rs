//! Jitter buffer: delays frames a little so that they leave at the grid's even pace.

use std::collections::VecDeque;

/// Delays that the automatic buffer is chosen from: ten seconds.
const WINDOW_FRAMES: usize = 500;
/// Share of those delays that the buffer covers.
const COVERAGE: f64 = 0.98;
/// Frames between two updates of the automatic buffer.
const UPDATE_FRAMES: u64 = 25;
/// Longest time that a frame is held back.
const MAX_BUFFER_NS: i64 = 100_000_000;
/// Added to the covered delay.
const MARGIN_NS: i64 = 1_000_000;
/// Most that the buffer changes with each frame, so that the pace stays even.
const SLEW_NS: i64 = 200_000;

/// Schedules when each grid frame leaves: a fixed time after its earliest possible arrival, or a time that covers 98
/// % of the delays of the last ten seconds. Depends only on the frames' times and arrivals.
#[derive(Debug, Clone)]
pub struct Playout {
    automatic: bool,
    buffer_ns: i64,
    target_ns: i64,
    delays: VecDeque<i64>,
    frames: u64,
}

impl Playout {
    /// Creates a buffer of `buffer_ms` milliseconds, 0 to 100; `None` chooses its length automatically.
    #[must_use]
    pub fn new(buffer_ms: Option<f64>) -> Self {
        let buffer_ns = buffer_ms.map_or(0, |ms| (ms * 1e6).round_ties_even() as i64);
        Self {
            automatic: buffer_ms.is_none(),
            buffer_ns,
            target_ns: buffer_ns,
            delays: VecDeque::with_capacity(WINDOW_FRAMES),
            frames: 0,
        }
    }

    /// Current length of the buffer, milliseconds.
    #[must_use]
    pub fn buffer_ms(&self) -> f64 {
        self.buffer_ns as f64 / 1e6
    }

    /// Returns when a frame of time `t_local_ns` that was complete at `t_arrival_ns` leaves: at most 100 ms after
    /// that.
    pub fn release_ns(&mut self, t_local_ns: i64, t_arrival_ns: i64) -> i64 {
        if self.automatic {
            if self.delays.len() == WINDOW_FRAMES {
                self.delays.pop_front();
            }
            let delay_ns = t_arrival_ns.saturating_sub(t_local_ns);
            self.delays.push_back(delay_ns.clamp(0, MAX_BUFFER_NS));
            self.frames += 1;
            let settled = self.frames >= UPDATE_FRAMES;
            if !settled || self.frames.is_multiple_of(UPDATE_FRAMES) {
                let mut ordered: Vec<i64> = self.delays.iter().copied().collect();
                ordered.sort_unstable();
                let rank = (COVERAGE * ordered.len() as f64) as usize;
                self.target_ns = ordered[rank.min(ordered.len() - 1)] + MARGIN_NS;
            }
            let step = self.target_ns - self.buffer_ns;
            self.buffer_ns += if settled {
                step.clamp(-SLEW_NS, SLEW_NS)
            } else {
                step
            };
        }
        let latest_ns = t_arrival_ns.saturating_add(MAX_BUFFER_NS);
        t_local_ns.saturating_add(self.buffer_ns).min(latest_ns)
    }
}
