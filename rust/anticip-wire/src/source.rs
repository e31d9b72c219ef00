//! What every protocol's decoder does, and what several need: the performer who is followed, counters that skip.

use crate::WireError;
use crate::pose::{PoseUpdate, SkeletonUpdate, TrackerUpdate};

/// What a datagram held.
#[derive(Clone, Copy, Debug)]
pub enum Update<'a> {
    /// The sender's body.
    Skeleton(&'a SkeletonUpdate),
    /// A frame of it.
    Frame(&'a PoseUpdate),
    /// A frame of parts that are no skeleton.
    Trackers(&'a TrackerUpdate),
    /// The number of a frame that comes after a newer one, or once more; nothing else of it is told.
    Past(u32),
}

/// The decoder of one sender's datagrams; it may remember.
pub trait Source: Send + Sync {
    /// Reads one datagram and hands on what it completes, oldest first.
    ///
    /// # Errors
    /// The bytes are another protocol's, cut short or malformed. What was handed on before holds.
    fn decode(&mut self, datagram: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError>;

    /// Why something of the frames that were handed on is not played, where that is so.
    fn left_out(&self) -> Option<&'static str> {
        None
    }
}

/// So many messages with others alone make one of them the active one.
const AWAY: u32 = 200;

/// Who is followed: the first who comes, another one when that has been away for [`AWAY`] messages of others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Active<T> {
    pub(crate) id: Option<T>,
    others: u32,
}

impl<T: PartialEq> Active<T> {
    /// Takes who is in a message, the active one where it is there: whether they are another one than before; none
    /// where they are not followed.
    pub(crate) fn accept(&mut self, id: T) -> Option<bool> {
        let is_new = self.id.as_ref() != Some(&id);
        if is_new && self.id.is_some() && self.others < AWAY {
            self.others += 1;
            return None;
        }
        self.others = 0;
        self.id = Some(id);
        Some(is_new)
    }
}

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
