//! Quaternions, the pose and vector spaces, the window and the seven anticipation scalars.
//!
//! Conventions, stated once: right-handed, y up, metres, seconds, radians; quaternions are
//! Hamilton, `w, x, y, z`, local to the parent joint.
#![forbid(unsafe_code)]

mod quat;

pub use quat::{MIN_NORM, Quat};
