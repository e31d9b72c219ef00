//! Bindings of `anticip-wire`.

use pyo3::prelude::*;

/// Adds this module's classes and functions to `pyanticip._core`.
pub(crate) fn register(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
