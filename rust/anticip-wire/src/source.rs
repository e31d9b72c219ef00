//! The decoder interface, and what several decoders share: choosing one sender, and numbering frames by a counter that skips.

use std::num::NonZeroU32;

use crate::WireError;
use crate::pose::{PoseUpdate, SkeletonUpdate, TrackerUpdate};

/// One update decoded from a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Update<'a> {
    /// The sender's skeleton.
    Skeleton(&'a SkeletonUpdate),
    /// One frame of the skeleton.
    Frame(&'a PoseUpdate),
    /// One frame of trackers without a skeleton.
    Trackers(&'a TrackerUpdate),
    /// The number of a late or repeated frame, whose content is discarded.
    Late(u32),
}

/// Decoder of the datagrams of one sender; it may keep state between them.
pub trait Source: Send + Sync {
    /// Decodes one datagram and calls `on_update` for each update it completes, oldest first.
    ///
    /// # Errors
    /// The bytes belong to another protocol, are cut short or malformed. Updates already delivered stay valid.
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError>;

    /// Why some of the sender's joints cannot be played, if any.
    fn unplayed_reason(&self) -> Option<&'static str> {
        None
    }
}

/// Messages without the active sender after which another sender replaces it.
const SWITCH_AFTER: u32 = 200;

/// The one sender (performer, avatar, character) that is decoded: the first to appear, until it has been absent for
/// [`SWITCH_AFTER`] messages from others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Active<T> {
    pub(crate) id: Option<T>,
    messages_without: u32,
}

impl<T: PartialEq> Active<T> {
    /// Registers the sender of a message (the active one, if the message has several) and returns whether it has just
    /// become the active one; `None` if it is to be ignored.
    pub(crate) fn accept(&mut self, id: T) -> Option<bool> {
        let is_new = self.id.as_ref() != Some(&id);
        if is_new && self.id.is_some() && self.messages_without < SWITCH_AFTER {
            self.messages_without += 1;
            return None;
        }
        self.messages_without = 0;
        self.id = Some(id);
        Some(is_new)
    }
}

/// Counter values at most this far behind the newest belong to reordered datagrams; values farther behind, to a
/// restarted stream.
pub(crate) const MAX_REORDER: u32 = 100;
/// Steps after which the smallest step is determined again.
const STRIDE_WINDOW: u8 = 64;

/// The smallest recent step of a frame counter, which counts one frame (senders may skip a fixed number of counts).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stride {
    smallest: u32,
    /// The smallest step of the current window of [`STRIDE_WINDOW`] steps.
    window_smallest: u32,
    window_steps: u8,
}

impl Stride {
    pub(crate) const NEW: Self = Self {
        smallest: u32::MAX,
        window_smallest: u32::MAX,
        window_steps: 0,
    };

    /// Number of frames in `counts` counts back.
    pub(crate) fn frames_back(&self, counts: u32) -> u32 {
        let smallest = self.smallest.min(counts).max(1);
        (counts - smallest / 2).div_ceil(smallest)
    }

    /// Number of frames in a `step` forward, which is taken into account.
    pub(crate) fn advance(&mut self, step: NonZeroU32) -> u32 {
        let step = step.get();
        self.smallest = self.smallest.min(step);
        self.window_smallest = self.window_smallest.min(step);
        self.window_steps += 1;
        if self.window_steps == STRIDE_WINDOW {
            *self = Self {
                smallest: self.window_smallest,
                ..Self::NEW
            };
        }
        // Rounded to the nearest count; no underflow, as `smallest` is at most `step`.
        (step - self.smallest / 2).div_ceil(self.smallest)
    }
}
