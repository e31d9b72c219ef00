//! The rings of keys and values of a pathway's blocks.

use std::ops::Range;

/// Where a pathway's rings and its newest keys and values lie, and how far they are.
///
/// A ring has as many slots as past steps are seen; a step's keys and values go to slot `count mod past` when the graph
/// has run, over those of the step that has just left the context.
#[derive(Debug, Clone)]
pub(super) struct Rings {
    /// Rings, one after the other: key and value of the first block, of the second, and so on, each (heads, past,
    /// width).
    pub(super) kept: Range<usize>,
    /// What a step adds to each ring: (heads, width).
    pub(super) new: Range<usize>,
    pub(super) past: usize,
    /// Width of a head.
    pub(super) width: usize,
    /// Steps so far.
    pub(super) count: usize,
}

impl Rings {
    /// The slot that is written next.
    pub(super) fn slot(&self) -> usize {
        self.count % self.past
    }

    /// Stores the newest keys and values.
    pub(super) fn advance(&mut self, memory: &mut [f32]) {
        self.write(memory, false);
        self.count += 1;
    }

    /// Goes through what [`Self::advance`] does and changes nothing.
    pub(super) fn rehearse(&self, memory: &mut [f32]) {
        self.write(memory, true);
    }

    fn write(&self, memory: &mut [f32], itself: bool) {
        let (slot, width) = (self.slot(), self.width);
        for i in 0..self.new.len() / width {
            let to = self.kept.start + (i * self.past + slot) * width;
            let from = if itself { to } else { self.new.start + i * width };
            memory.copy_within(from..from + width, to);
        }
    }

    /// Forgets the stream.
    pub(super) fn reset(&mut self, memory: &mut [f32]) {
        memory[self.kept.clone()].fill(0.0);
        self.count = 0;
    }
}
