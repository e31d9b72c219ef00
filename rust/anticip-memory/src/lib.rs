//! What a performer did before, and what it says about what comes next.
//!
//! Conventions, stated once: frames are those of the 50 Hz grid ([`RATE`]); a pose is 22 canonical rotations; the
//! eight sound parameters are in 0..1; times ahead and behind are counted in frames. Nothing looks ahead: what is
//! learned of a frame is learned when the teacher's support has arrived.
#![forbid(unsafe_code)]

mod error;

pub use anticip_motion::features::RATE;
pub use error::MemoryError;

/// How many sound parameters there are.
pub const PARAMETER_COUNT: usize = 8;
