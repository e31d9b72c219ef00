//! Quaternions, the pose and vector spaces, the window and the seven anticipation scalars.
//!
//! Conventions of the whole crate: right-handed, y up, metres, seconds, radians. Quaternions are Hamilton, in the
//! order `w, x, y, z`, and local to the parent joint.
//!
//! ```
//! use anticip_geometry::{PoseConfig, PoseStream, SCALARS};
//!
//! let mut stream = PoseStream::new(27, PoseConfig::default())?;
//! let scalars = stream.push(&[[1.0, 0.0, 0.0, 0.0]; 27])?;
//! assert_eq!(SCALARS[5], "novelty");
//! assert_eq!(scalars, [0.0, 1.0, 0.0, 1.0, 0.5, 1.0, 1.0]);
//! # Ok::<(), anticip_geometry::GeometryError>(())
//! ```
#![forbid(unsafe_code)]

mod batch;
mod coarse;
mod config;
mod engine;
mod error;
mod increments;
mod kernel;
mod markley;
mod paper;
mod quat;
mod sketch;
mod space;
mod stream;
mod vendi;
mod window;

pub use batch::{pose_scalars, vector_scalars};
pub use config::{JointLimit, Options, PoseConfig, SCALARS, Stability, Uncertainty};
pub use error::GeometryError;
pub use quat::{MIN_NORM, Quat};
pub use stream::{PoseStream, VectorStream};
