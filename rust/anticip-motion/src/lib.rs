//! The canonical body, retargeting, resampling, model features and the live front end.
//!
//! Conventions of the whole crate: right-handed, y up, metres, seconds, radians. Quaternions are Hamilton, in the
//! order `w, x, y, z`, and local to the parent joint.
#![forbid(unsafe_code)]

mod agreement;
pub mod canonical;
mod completion;
mod curve;
mod ensemble;
mod error;
mod expand;
pub mod features;
mod inverse;
pub mod kinematics;
mod layout;
mod limbs;
mod live;
mod mapping;
mod names;
mod noise;
mod pose;
mod resample;
mod rest;
mod retarget;
mod skeleton;
pub mod standard;
mod tempo;
mod trackers;
pub mod twin;
mod vector;

pub use agreement::{Agreement, BONES, Disagreement};
pub use completion::{Completion, MAX_MEASURED};
pub use ensemble::{Ensemble, EnsembleState};
pub use error::MotionError;
pub use expand::Distributor;
pub use features::{
    CanonicalPose, FEATURE_COUNT, FEATURE_COUNT_V1, FEATURES_VERSION, FeatureExtractor, feature_names,
    motion_features,
};
pub use kinematics::{KINEMATICS_COUNT, body_kinematics};
pub use limbs::{Limb, LimbTracker};
pub use live::{
    Counters, FRAME, FRAME_NS, FrameGrid, FrontConfig, FrontOutput, GridPosition, LiveFront, Playout,
    SenderState, Source, Stages, Timing,
};
pub use mapping::guess_joints;
pub use noise::NoiseGate;
pub use pose::Pose;
pub use resample::{GridFrame, MAX_GAP, Pushed, Resampler, resample};
pub use retarget::{Positions, Retargeter, T_POSE_TOLERANCE, t_pose_deviation};
pub use skeleton::Skeleton;
pub use tempo::{Tempo, TempoTracker};
pub use trackers::Trackers;
