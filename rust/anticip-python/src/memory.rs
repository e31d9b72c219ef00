//! Bindings of `anticip-memory`.

pub(crate) mod following;
pub(crate) mod stream;
pub(crate) mod teacher;

use anticip_memory::{MemoryError, Rotations};
use anticip_motion::canonical::JOINT_COUNT;
use pyo3::prelude::*;

use crate::errors::{Kind, raise};
use crate::motion::convert::{about_unit, doubles};

fn memory_error(error: MemoryError) -> PyErr {
    let kind = match error {
        MemoryError::Shape { .. } => Kind::Shape,
        MemoryError::Option { .. } | MemoryError::Full { .. } | MemoryError::Played => Kind::Value,
    };
    raise(kind, &error.to_string())
}

/// Canonical rotations (T, 22, 4), refused where one is none.
fn poses(quats: &Bound<'_, PyAny>) -> PyResult<Vec<Rotations>> {
    let values = doubles(quats, "canonical rotations", &[None, Some(JOINT_COUNT), Some(4)])?.values;
    about_unit(&values, "canonical rotations")?;
    Ok(values.as_chunks().0.as_chunks().0.to_vec())
}
