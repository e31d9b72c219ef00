//! What every protocol's decoder does.

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
