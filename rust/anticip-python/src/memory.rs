//! The teacher as a stream, the memory of rehearsals, following and live mixing.

use anticip_memory::MemoryError;
use pyo3::prelude::*;

use crate::errors::{Kind, raise};

pub(crate) fn register(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}

#[expect(dead_code, reason = "for the first binding")]
fn memory_error(error: &MemoryError) -> PyErr {
    let kind = match error {
        MemoryError::Shape { .. } => Kind::Shape,
        MemoryError::Option { .. } => Kind::Value,
    };
    raise(kind, &error.to_string())
}
