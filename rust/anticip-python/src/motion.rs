//! Bindings of `anticip-motion`.

mod body;
mod completion;
pub(crate) mod convert;
mod ensemble;
pub(crate) mod features;
pub(crate) mod front_output;
pub(crate) mod live;
mod resample;
mod tempo;

use anticip_motion::MotionError;
use pyo3::prelude::*;

use crate::errors::{Kind, raise};

/// Adds this module's classes and functions to `pyanticip._core`.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    body::register(m)?;
    completion::register(m)?;
    ensemble::register(m)?;
    features::register(m)?;
    live::register(m)?;
    resample::register(m)?;
    tempo::register(m)
}

/// The one place where a motion error becomes a Python exception.
pub(crate) fn motion_error(err: &MotionError) -> PyErr {
    let kind = match err {
        MotionError::Shape { .. } => Kind::Shape,
        MotionError::Skeleton(_) | MotionError::Unmapped { .. } | MotionError::Hierarchy { .. } => {
            Kind::Skeleton
        }
        MotionError::Option { .. } | MotionError::Scalars(_) => Kind::Value,
    };
    raise(kind, &err.to_string())
}
