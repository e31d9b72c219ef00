//! Bindings of `anticip-motion`.

pub(crate) mod body;
mod clip;
pub(crate) mod completion;
pub(crate) mod convert;
pub(crate) mod ensemble;
pub(crate) mod features;
pub(crate) mod front_output;
pub(crate) mod live;
pub(crate) mod resample;
pub(crate) mod tempo;

use anticip_motion::MotionError;
use pyo3::prelude::*;

use crate::errors::{Kind, raise};

/// Converts a motion error to a Python exception.
pub(crate) fn motion_error(err: MotionError) -> PyErr {
    let kind = match err {
        MotionError::Shape { .. } => Kind::Shape,
        MotionError::Skeleton(_) | MotionError::Unmapped { .. } | MotionError::Hierarchy { .. } => {
            Kind::Skeleton
        }
        MotionError::Option { .. } | MotionError::Scalars(_) => Kind::Value,
    };
    raise(kind, &err.to_string())
}
