//! Bindings of `anticip-wire`.

pub(crate) mod bundle;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod recording;

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};
use crate::motion::convert::shaped;
use anticip_wire::WireError;

/// Converts an error of reading or writing a datagram to a Python exception.
fn error(error: WireError) -> PyErr {
    let kind = match error {
        WireError::Unencodable { .. } => Kind::Value,
        _ => Kind::Wire,
    };
    raise(kind, &error.to_string())
}

/// An array-like of shape (n, N) as rows.
fn rows<const N: usize>(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<[f32; N]>> {
    let values = shaped(value, name, &[None, Some(N)])?;
    Ok(values.as_chunks().0.to_vec())
}

/// Three numbers.
fn triple(value: &Bound<'_, PyAny>, name: &str) -> PyResult<[f32; 3]> {
    let values = shaped(value, name, &[Some(3)])?;
    Ok(std::array::from_fn(|i| values[i]))
}

/// Rows as an array of shape (n, N).
fn table<'py, const N: usize>(
    py: Python<'py>,
    rows: impl Iterator<Item = [f32; N]>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let flat: Vec<f32> = rows.flatten().collect();
    let count = flat.len() / N;
    PyArray1::from_vec(py, flat).reshape([count, N])
}
