//! Memory of what a performer did before, and forecasts from it of what comes next.
//!
//! Conventions: frames are those of the 50 Hz grid ([`RATE`]); a pose is 22 canonical rotations; the eight
//! sound parameters are in 0..1; times ahead and behind are counted in frames. Nothing looks ahead: a frame
//! is learned once all frames that the teacher needs for it have arrived.
#![forbid(unsafe_code)]

mod correction;
mod cues;
mod error;
mod following;
mod gaussian;
mod key;
mod learn;
mod memory;
mod mixing;
mod nearest;
mod sketch;
mod store;
mod teacher;

pub use anticip_motion::features::RATE;
pub use anticip_motion::twin::{PARAMETER_COUNT, body::Rotations};
pub use cues::{Cue, Cues, Due};
pub use error::MemoryError;
pub use following::{Follower, GESTURE_FRAMES, KeptPose, Place, Spotted, Spotter};
pub use key::{KEY_SIZE, KEYS_VERSION, Key};
pub use memory::{MODEL_HORIZONS, Memory, MixedForecast, ModelRows};
pub use mixing::Table;
pub use store::{FOLLOWED, Followed, MOMENT_STEP, MOMENTS_PER_HOUR, Origin, Store};
pub use teacher::{TEACHER_REACH, TEACHER_START, Teacher};

/// The mixed horizons in frames: 100, 200 and 400 ms.
pub const HORIZONS: [usize; 3] = [5, 10, 20];
