//! Bindings of the leads.

use std::ops::RangeInclusive;

use anticip_controls::{HORIZONS_MS, Lead, Parameters, Shared};
use pyo3::prelude::*;
use pyo3::types::PyFloat;

use crate::errors::{Kind, one_line, raise, within};

/// Delays from sending to sound, in ms.
const SOUND_MS: RangeInclusive<f64> = 0.0..=1000.0;

/// Leads of the parameters; shared with the desk that uses them.
#[pyclass(name = "Lead", module = "pyanticip._core", frozen)]
pub(crate) struct PyLead(pub(super) Shared<Lead>);

#[pymethods]
impl PyLead {
    #[new]
    #[pyo3(signature = (ms, lags_ms, *, sound_ms = 0.0, delay_ms = 0.0))]
    fn new(ms: &Bound<'_, PyAny>, lags_ms: Parameters, sound_ms: f64, delay_ms: f64) -> PyResult<Self> {
        within("sound_ms", sound_ms, SOUND_MS)?;
        let lead = Lead::new(fixed_or_auto(ms)?, lags_ms, sound_ms, delay_ms);
        Ok(Self(Shared::new(lead)))
    }

    #[getter]
    fn ms<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        match self.0.with(|lead| lead.fixed_ms()) {
            Some(ms) => PyFloat::new(py, ms).into_any(),
            None => pyo3::intern!(py, "auto").clone().into_any(),
        }
    }

    #[setter]
    fn set_ms(&self, ms: &Bound<'_, PyAny>) -> PyResult<()> {
        let ms = fixed_or_auto(ms)?;
        self.0.with(|lead| lead.set(ms));
        Ok(())
    }

    #[getter]
    fn sound_ms(&self) -> f64 {
        self.0.with(|lead| lead.sound_ms)
    }

    #[setter]
    fn set_sound_ms(&self, ms: f64) -> PyResult<()> {
        within("sound_ms", ms, SOUND_MS)?;
        self.0.with(|lead| lead.sound_ms = ms);
        Ok(())
    }

    #[getter]
    fn event_lead_ms(&self) -> f64 {
        self.0.with(|lead| lead.event_lead_ms())
    }

    #[getter]
    fn leads(&self) -> Vec<f64> {
        self.0.with(|lead| lead.leads()).to_vec()
    }

    fn set_frame_age(&self, ms: f64) {
        self.0.with(|lead| lead.set_frame_age(ms));
    }

    fn set_lags(&self, lags_ms: Parameters) {
        self.0.with(|lead| lead.set_lags(lags_ms));
    }
}

/// Fixed milliseconds, or `None` for "auto".
fn fixed_or_auto(ms: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if ms.extract::<&str>().is_ok_and(|word| word == "auto") {
        return Ok(None);
    }
    let (nearest, furthest) = (HORIZONS_MS[0], HORIZONS_MS[HORIZONS_MS.len() - 1]);
    let fixed: Option<f64> = ms.extract().ok();
    fixed
        .filter(|fixed| (nearest..=furthest).contains(fixed))
        .map(Some)
        .ok_or_else(|| {
            let got = one_line(ms);
            let message = format!("lead_ms: expected {nearest} to {furthest} or auto, got {got}");
            raise(Kind::Value, &message)
        })
}
