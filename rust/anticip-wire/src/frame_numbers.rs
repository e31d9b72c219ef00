//! Consecutive numbers for the frames of a sender whose counter skips.

use std::num::NonZeroU32;

/// Counter values at most this far behind the newest belong to reordered datagrams; values farther behind, to a
/// restarted stream.
pub(crate) const MAX_REORDER: u32 = 100;
/// Steps after which the smallest step is determined again.
const STRIDE_WINDOW: u8 = 64;

/// Numbers frames by their counters. The smallest recent step of the counter counts one frame, as senders may skip a
/// fixed number of counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameNumbers {
    /// The newest frame: its counter and its number.
    newest: Option<(u32, u32)>,
    smallest_step: u32,
    /// The smallest step of the current window of [`STRIDE_WINDOW`] steps.
    window_smallest: u32,
    window_steps: u8,
}

impl Default for FrameNumbers {
    fn default() -> Self {
        Self {
            newest: None,
            smallest_step: u32::MAX,
            window_smallest: u32::MAX,
            window_steps: 0,
        }
    }
}

impl FrameNumbers {
    /// The number of the frame with this counter, which may be late; after a restart it is the counter itself.
    pub(crate) fn number(&mut self, counter: u32) -> u32 {
        let (newest, number) = *self.newest.get_or_insert((counter, counter));
        let Some(step) = NonZeroU32::new(counter.wrapping_sub(newest)) else {
            return number;
        };
        let number = match newest.wrapping_sub(counter) {
            back @ 1..=MAX_REORDER => return number.wrapping_sub(self.frames_back(back)),
            _ if step.get() < u32::MAX / 2 => number.wrapping_add(self.advance(step)),
            _ => counter,
        };
        self.newest = Some((counter, number));
        number
    }

    /// The number of another frame with the newest counter.
    pub(crate) fn repeat(&mut self, counter: u32) -> u32 {
        let number = self.number(counter).wrapping_add(1);
        self.newest = Some((counter, number));
        number
    }

    /// Makes the next frame's number its counter.
    pub(crate) fn restart(&mut self) {
        self.newest = None;
    }

    /// Number of frames in `counts` counts back.
    fn frames_back(&self, counts: u32) -> u32 {
        let smallest = self.smallest_step.min(counts).max(1);
        (counts - smallest / 2).div_ceil(smallest)
    }

    /// Number of frames in a `step` forward, which is taken into account.
    fn advance(&mut self, step: NonZeroU32) -> u32 {
        let step = step.get();
        self.smallest_step = self.smallest_step.min(step);
        self.window_smallest = self.window_smallest.min(step);
        self.window_steps += 1;
        if self.window_steps == STRIDE_WINDOW {
            *self = Self {
                newest: self.newest,
                smallest_step: self.window_smallest,
                ..Self::default()
            };
        }
        // Rounded to the nearest count; no underflow, as `smallest_step` is at most `step`.
        (step - self.smallest_step / 2).div_ceil(self.smallest_step)
    }
}
