//! What steps: the core's own stream, or a backend of Python's.

use pyo3::exceptions::PyException;
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

/// A step, or why it failed.
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

    /// Python's own that it refers to.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Core(_) => Ok(()),
            Self::Other(backend) => visit.call(backend),
        }
    }

    /// Steps all rows; `anew`: the first one begins a stream. What is no mistake of the backend's is raised.
    pub(super) fn step(&self, py: Python<'_>, out: &PyFrontOutput, anew: bool) -> PyResult<Stepped> {
        let stepped = match self {
            Self::Core(stream) => Ok(core_step(py, stream.get(), out, anew)),
            Self::Other(backend) => other_step(backend.bind(py), out, anew),
        };
        match stepped {
            Ok(step) if step.finite() => Ok(Ok(step)),
            Ok(_) => Ok(Err(
                "FloatingPointError: the model's output is not finite".to_owned()
            )),
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(Err(format!(
                "{}: {}",
                error.get_type(py).name()?,
                one_line(error.value(py))
            ))),
            Err(error) => Err(error),
        }
    }
}

fn core_step(py: Python<'_>, stream: &PyMotionStream, out: &PyFrontOutput, anew: bool) -> PyStepResult {
    let controls = stream.inner.detached(py, |stream| {
        if anew {
            stream.reset();
        }
        stream.step_all(&out.out.rows).clone()
    });
    PyStepResult::of(&controls)
}

fn other_step(backend: &Bound<'_, PyAny>, out: &PyFrontOutput, anew: bool) -> PyResult<PyStepResult> {
    let py = backend.py();
    if anew {
        backend.call_method0(intern!(py, "reset"))?;
    }
    let step = backend.call_method1(intern!(py, "step"), (out.features(py)?,))?;
    let step = step.cast::<PyStepResult>()?.get();
    Ok(step.with_rows(py, step.params))
}
