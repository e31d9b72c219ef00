//! Timing information of a frame, and the placement derived from it.

/// Timing information that came with a frame.
#[derive(Debug, Clone, Copy)]
pub(in crate::live) struct Stamp {
    /// Frame number; wraps around.
    pub(in crate::live) number: Option<u32>,
    /// Time of the sender's clock, seconds.
    pub(in crate::live) time: Option<f64>,
    /// Arrival time of the local clock, seconds.
    pub(in crate::live) arrival: f64,
}

/// Where a frame belongs in the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::live) enum Placement {
    /// After the newest, at `seconds` of the stream, with `lost` frames between; `starts`: it starts a stream.
    Next { seconds: f64, lost: u64, starts: bool },
    /// At the same time as the newest: part of the same frame.
    Same,
    /// A repetition of an earlier frame.
    Doubled,
    /// Older than the newest; `lost` if it had been counted as lost.
    Late { lost: bool },
    /// Of another clock than this stream's.
    Strange,
}

impl Placement {
    /// The next frame where no number counts losses.
    pub(super) fn next(seconds: f64) -> Self {
        Self::Next {
            seconds,
            lost: 0,
            starts: false,
        }
    }
}
