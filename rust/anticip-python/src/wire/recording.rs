use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Kind, raise};
use anticip_wire::recording::{self, Next};

fn error(error: anticip_wire::WireError) -> PyErr {
    raise(Kind::Format, &error.to_string())
}

#[pyfunction]
pub(crate) fn recording_header(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &recording::header())
}

#[pyfunction]
#[pyo3(signature = (data, /))]
pub(crate) fn recording_check(data: &[u8]) -> PyResult<(u16, u16)> {
    recording::check_header(data).map_err(error)
}

#[pyfunction]
#[pyo3(signature = (payload, /))]
pub(crate) fn recording_frame<'py>(py: Python<'py>, payload: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::with_capacity(payload.len() + recording::RECORD_HEADER);
    recording::push(payload, &mut out).map_err(error)?;
    Ok(PyBytes::new(py, &out))
}

#[pyfunction]
#[pyo3(signature = (data, at, /))]
pub(crate) fn recording_next(data: &[u8], at: usize) -> (&'static str, usize, usize) {
    match recording::next(data, at) {
        Next::Record { start, end } => ("record", start, end),
        Next::More { needed } => ("more", at, at.saturating_add(needed)),
        Next::Corrupt { end } => ("corrupt", at, end),
        Next::Lost { length } => ("lost", at, length as usize),
    }
}

#[pyfunction]
#[pyo3(signature = (data, at, ended, /))]
pub(crate) fn recording_find(data: &[u8], at: usize, ended: bool) -> (usize, bool) {
    match recording::find(data, at, ended) {
        Ok(at) => (at, true),
        Err(at) => (at, false),
    }
}
