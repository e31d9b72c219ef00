//! The result of a datagram that completed a frame.

use anticip_controls::{Out, Trust};
use anticip_memory::{MixedForecast, Place};
use anticip_motion::GridPosition;
use pyo3::prelude::*;

use crate::controls::events::{EventTuple, event_tuples};
use crate::memory::following::{Due, Row, row};
use crate::motion::front_output::PyFrontOutput;
use crate::step_result::PyStepResult;

/// The memory's output for a frame.
pub(super) struct Remembered {
    /// The model's output mixed with the memory; `None` if there is no model output.
    pub(super) mixed: Option<MixedForecast>,
    pub(super) place: Option<Place>,
    pub(super) dues: Vec<Due>,
}

impl Remembered {
    /// The predicted share of the mixture.
    pub(super) fn trust(&self) -> Option<Trust> {
        self.mixed.as_ref().map(|forecast| forecast.trust)
    }
}

/// A frame: the front end's output, the model's output, its slot and its control values.
#[pyclass(name = "FrameResult", module = "pyanticip._core", frozen)]
pub(crate) struct PyFrameResult {
    #[pyo3(get)]
    pub(super) front_output: Py<PyFrontOutput>,
    /// Number of earlier frames that were held and are not sent.
    #[pyo3(get)]
    pub(super) skipped: u32,
    #[pyo3(get)]
    pub(super) step: Option<Py<PyStepResult>>,
    #[pyo3(get)]
    pub(super) failure: Option<String>,
    pub(super) remembered: Option<Remembered>,
    pub(super) slot: GridPosition,
    pub(super) output: Option<Out>,
    /// Nanoseconds spent on the model, and on everything after it.
    #[pyo3(get)]
    pub(super) stages_ns: (i64, i64),
}

#[pymethods]
impl PyFrameResult {
    #[getter]
    fn number(&self) -> i64 {
        self.slot.number
    }

    #[getter]
    fn release_ns(&self) -> i64 {
        self.slot.release_ns
    }

    #[getter]
    fn output<'py>(&self, py: Python<'py>) -> Option<(Vec<f64>, Vec<EventTuple<'py>>)> {
        let output = self.output.as_ref();
        output.map(|(values, events)| (values.to_vec(), event_tuples(py, events)))
    }

    #[getter]
    fn remembered(&self) -> Option<(Vec<f32>, Option<Row>, Vec<Due>)> {
        let remembered = self.remembered.as_ref()?;
        let trust = remembered
            .trust()
            .map_or_else(Vec::new, |trust| trust.as_flattened().to_vec());
        Some((trust, remembered.place.map(row), remembered.dues.clone()))
    }
}
