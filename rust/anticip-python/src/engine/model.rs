//! The model that an engine steps: the core's own stream, or a Python backend.

use pyo3::exceptions::{PyException, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::errors::one_line;
use crate::model::PyMotionStream;
use crate::motion::front_output::PyFrontOutput;
use crate::step_result::PyStepResult;

pub(super) enum Model {
    Core(Py<PyMotionStream>),
    Other(Py<PyAny>),
}

/// A step, or the reason why it failed.
type Stepped = Result<PyStepResult, String>;

impl Model {
    pub(super) fn new(backend: Py<PyAny>, core: Option<Py<PyMotionStream>>) -> Self {
        core.map_or(Self::Other(backend), Self::Core)
    }

    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Core(stream) => Self::Core(stream.clone_ref(py)),
            Self::Other(backend) => Self::Other(backend.clone_ref(py)),
        }
    }

    /// Visits the Python objects it refers to.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Core(_) => Ok(()),
            Self::Other(backend) => visit.call(backend),
        }
    }

    /// Steps all rows, starting a new stream if `is_new`. Exceptions of a backend, and its `sys.exit`, become a
    /// failure; others are raised.
    pub(super) fn step(&self, py: Python<'_>, out: &PyFrontOutput, is_new: bool) -> PyResult<Stepped> {
        let result = match self {
            Self::Core(stream) => Ok(core_step(py, stream.get(), out, is_new)),
            Self::Other(backend) => other_step(backend.bind(py), out, is_new),
        };
        match result {
            Ok(step) if step.finite() => Ok(Ok(step)),
            Ok(_) => Ok(Err(
                "FloatingPointError: the model's output is not finite".to_owned()
            )),
            Err(error)
                if error.is_instance_of::<PyException>(py) || error.is_instance_of::<PySystemExit>(py) =>
            {
                Ok(Err(format!(
                    "{}: {}",
                    error.get_type(py).name()?,
                    one_line(error.value(py))
                )))
            }
            Err(error) => Err(error),
        }
    }
}

fn core_step(py: Python<'_>, stream: &PyMotionStream, out: &PyFrontOutput, is_new: bool) -> PyStepResult {
    let controls = stream.inner.detached(py, |stream| {
        if is_new {
            stream.reset();
        }
        stream.step_all(&out.out.rows).clone()
    });
    PyStepResult::of(&controls)
}

fn other_step(backend: &Bound<'_, PyAny>, out: &PyFrontOutput, is_new: bool) -> PyResult<PyStepResult> {
    let py = backend.py();
    if is_new {
        backend.call_method0(intern!(py, "reset"))?;
    }
    let step = backend.call_method1(intern!(py, "step"), (out.features(py)?,))?;
    let step = step.cast::<PyStepResult>()?.get();
    Ok(step.with_rows(py, step.params))
}
