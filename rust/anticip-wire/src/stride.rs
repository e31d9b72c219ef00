//! Counters that skip where fewer frames are sent than are captured.

/// A counter this far back is that of a datagram that was overtaken; farther, of a stream that began anew.
pub(crate) const OVERTAKEN: u32 = 100;
/// Steps of a counter after which its smallest one may have become larger.
const STEPS: u8 = 64;

/// The smallest step that a counter took lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stride {
    least: u32,
    next: u32,
    steps: u8,
}

impl Stride {
    pub(crate) const NEW: Self = Self {
        least: u32::MAX,
        next: u32::MAX,
        steps: 0,
    };

    /// How many frames so many steps back are.
    pub(crate) fn back(&self, steps: u32) -> u32 {
        let least = self.least.min(steps).max(1);
        (steps - least / 2).div_ceil(least)
    }

    /// How many frames a step of the counter is.
    pub(crate) fn frames(&mut self, step: u32) -> u32 {
        self.least = self.least.min(step);
        self.next = self.next.min(step);
        self.steps += 1;
        if self.steps == STEPS {
            *self = Self {
                least: self.next,
                ..Self::NEW
            };
        }
        // A step is at least the smallest.
        (step - self.least / 2).div_ceil(self.least)
    }
}
