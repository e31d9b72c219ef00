//! What a frame says of its time, and what is found of it.

/// What a frame says of its time.
#[derive(Debug, Clone, Copy)]
pub(in crate::live) struct Stamp {
    /// Frame number, wrapping.
    pub(in crate::live) number: Option<u32>,
    /// Seconds of the sender's clock.
    pub(in crate::live) time: Option<f64>,
    /// Arrival, seconds of the local clock.
    pub(in crate::live) arrival: f64,
}

/// Where a frame belongs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::live) enum When {
    /// After the newest: at `seconds` of the stream's axis, `lost` frames between; `anew` where it begins the stream.
    Next { seconds: f64, lost: u64, anew: bool },
    /// With the newest, at the same time.
    Same,
    /// It came before.
    Doubled,
    /// Older than the newest; `lost` where it had been counted as lost.
    Late { lost: bool },
    /// Of another clock than this stream's.
    Strange,
}
