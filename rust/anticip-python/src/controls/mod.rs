//! Bindings of `anticip-controls`.

mod convert;
pub(crate) mod desk;
pub(crate) mod events;
pub(crate) mod lead;
pub(crate) mod range;
pub(crate) mod shaping;

use anticip_controls::scalar_mapping;
use pyo3::prelude::*;

/// The parameters from the scalars alone.
#[pyfunction]
#[pyo3(name = "scalar_mapping")]
pub(crate) fn control_of_scalars(scalars: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    Ok(scalar_mapping(&convert::scalars(scalars)?).to_vec())
}
