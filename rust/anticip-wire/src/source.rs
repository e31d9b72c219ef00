//! The decoder interface, and the choice of one sender among several.

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
