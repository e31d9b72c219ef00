//! What became of a datagram that completed a frame.

use anticip_controls::{Out, Trust};
use anticip_memory::{MixedForecast, Place};
use anticip_motion::GridPosition;
use pyo3::prelude::*;

use crate::controls::events::{EventTuple, event_tuples};
use crate::memory::following::{Due, Row, row};
use crate::motion::front_output::PyFrontOutput;
use crate::step_result::PyStepResult;

/// What the memory makes of a frame.
pub(super) struct Remembered {
    /// What the model says, mixed with what followed before; `None` where it says nothing.
    pub(super) mixed: Option<MixedForecast>,
    pub(super) place: Option<Place>,
    pub(super) dues: Vec<Due>,
}

impl Remembered {
    /// How much of what was mixed is foreseen.
    pub(super) fn trust(&self) -> Option<Trust> {
        self.mixed.as_ref().map(|forecast| forecast.trust)
    }
}

/// A frame: what was heard, what the model says of it, where it belongs and what goes out.
#[pyclass(name = "FrameResult", module = "pyanticip._core", frozen)]
pub(crate) struct PyFrameResult {
    #[pyo3(get)]
    pub(super) out: Py<PyFrontOutput>,
    /// How many frames that had come before it have no turn of their own.
    #[pyo3(get)]
    pub(super) left_out: u32,
    #[pyo3(get)]
    pub(super) step: Option<Py<PyStepResult>>,
    #[pyo3(get)]
    pub(super) failure: Option<String>,
    pub(super) remembered: Option<Remembered>,
    pub(super) slot: GridPosition,
    pub(super) played: Option<Out>,
    /// The model, and all after it.
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
    fn played<'py>(&self, py: Python<'py>) -> Option<(Vec<f64>, Vec<EventTuple<'py>>)> {
        let played = self.played.as_ref();
        played.map(|(values, events)| (values.to_vec(), event_tuples(py, events)))
    }

    #[getter]
    fn remembered(&self) -> Option<(Vec<f32>, Option<Row>, Vec<Due>)> {
        let of = self.remembered.as_ref()?;
        let trust = of
            .trust()
            .map_or_else(Vec::new, |trust| trust.as_flattened().to_vec());
        Some((trust, of.place.map(row), of.dues.clone()))
    }
}
