//! Bindings of `anticip-controls`.

mod convert;
pub(crate) mod desk;
pub(crate) mod events;
pub(crate) mod lead;
pub(crate) mod range;
pub(crate) mod shaping;

use anticip_controls::{Commitment, scalar_mapping};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};
use crate::shared::Shared;

/// The parameters so many milliseconds ahead, one lead for all or one for each.
#[pyfunction]
pub(crate) fn at_lead(params: &Bound<'_, PyAny>, lead_ms: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let forecast = convert::forecast(params)?;
    let leads: Option<convert::Leads> = lead_ms.extract().ok();
    let wrong = || raise(Kind::Shape, "lead_ms: expected a number or one a parameter");
    let leads = leads.ok_or_else(wrong)?.checked()?;
    Ok(anticip_controls::at_lead(&forecast, &leads).to_vec())
}

/// The parameters from the scalars alone.
#[pyfunction]
#[pyo3(name = "scalar_mapping")]
pub(crate) fn control_of_scalars(scalars: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    Ok(scalar_mapping(&convert::vector(scalars, "scalars")?).to_vec())
}

/// The inference rule of the commitment gate.
#[pyclass(name = "Commitment", module = "pyanticip._core", frozen)]
pub(crate) struct PyCommitment(pub(crate) Shared<Commitment>);

#[pymethods]
impl PyCommitment {
    #[new]
    fn new(theta: f64, max_buffer: u32) -> PyResult<Self> {
        if max_buffer == 0 {
            return Err(raise(Kind::Value, "max_buffer: expected at least 1, got 0"));
        }
        Ok(Self(Shared::new(Commitment::new(theta, max_buffer))))
    }

    pub(crate) fn decide(&self, py: Python<'_>, gate: f64) -> bool {
        self.0.with(py, |rule| rule.decide(gate))
    }

    #[getter]
    fn waited(&self, py: Python<'_>) -> u32 {
        self.0.with(py, |rule| rule.waited)
    }

    #[setter]
    fn set_waited(&self, py: Python<'_>, waited: u32) {
        self.0.with(py, |rule| rule.waited = waited);
    }
}
