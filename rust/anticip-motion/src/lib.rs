//! The canonical body, retargeting, resampling, model features and the live front end.
//!
//! Conventions, stated once: right-handed, y up, metres, seconds, radians; quaternions are Hamilton, `w, x, y, z`,
//! local to the parent joint.
#![forbid(unsafe_code)]

pub mod canonical;
mod error;
mod expand;
mod mapping;
mod names;
mod resample;
mod rest;
mod retarget;
mod skeleton;
pub mod standard;

pub use error::MotionError;
pub use expand::Distributor;
pub use resample::{MAX_GAP, Pose, Pushed, Resampler, resample};
pub use retarget::{Retargeter, T_POSE_TOLERANCE, t_pose_deviation};
pub use skeleton::Skeleton;
