//! Bindings of `anticip-wire`.

pub(crate) mod bundle;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod recording;

use numpy::{AllowTypeChange, PyArray1, PyArray2, PyArrayLike2, PyArrayMethods};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};
use anticip_wire::WireError;

/// The exception of a datagram that could not be read, or of values that could not be written.
fn error(error: WireError) -> PyErr {
    let kind = match error {
        WireError::Unencodable { .. } => Kind::Value,
        _ => Kind::Wire,
    };
    raise(kind, &error.to_string())
}

/// An array-like of shape (n, N) as rows.
fn rows<const N: usize>(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<[f32; N]>> {
    let wrong = || {
        let given = value
            .getattr("shape")
            .and_then(|shape| shape.str())
            .map(|shape| format!("shape {shape}"));
        let given = given.unwrap_or_else(|_| format!("{}", value.get_type()));
        raise(
            Kind::Shape,
            &format!("{name}: expected numbers of shape (joints, {N}), got {given}"),
        )
    };
    let array: PyArrayLike2<'_, f32, AllowTypeChange> = value.extract().map_err(|_| wrong())?;
    let view = array.as_array();
    if view.ncols() != N {
        return Err(wrong());
    }
    Ok(view
        .rows()
        .into_iter()
        .map(|row| std::array::from_fn(|i| row[i]))
        .collect())
}

/// Three numbers.
fn triple(value: &Bound<'_, PyAny>, name: &str) -> PyResult<[f32; 3]> {
    value
        .extract::<Vec<f32>>()
        .ok()
        .and_then(|v| <[f32; 3]>::try_from(v).ok())
        .ok_or_else(|| raise(Kind::Shape, &format!("{name}: expected 3 numbers")))
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
