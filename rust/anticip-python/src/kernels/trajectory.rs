//! Bindings of trajectory positions.

use anticip_kernels::{Sinusoids, Trajectory};
use numpy::{
    PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyReadwriteArray2, PyReadwriteArray3,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use super::done;

/// Adds this module's functions to `pyanticip._core`.
pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(trajectory_displacements, m)?)?;
    m.add_function(wrap_pyfunction!(trajectory_encode, m)?)?;
    m.add_function(wrap_pyfunction!(encode_positions, m)?)
}

/// Displacements of embeddings (sequences, steps, width), written into `moved`.
#[pyfunction]
#[pyo3(signature = (embedded, strength, magnitude, rms, moved))]
fn trajectory_displacements(
    py: Python<'_>,
    embedded: PyReadonlyArray3<'_, f32>,
    strength: f64,
    magnitude: f64,
    rms: bool,
    mut moved: PyReadwriteArray2<'_, f64>,
) -> PyResult<()> {
    let rule = Trajectory {
        strength,
        magnitude,
        rms,
    };
    let &[_, steps, width] = embedded.shape() else {
        unreachable!("an array of three dimensions");
    };
    let (embedded, moved) = (embedded.as_slice()?, moved.as_slice_mut()?);
    done(py.detach(|| rule.displacements(embedded, steps, width, moved)))
}

/// Encodings of embeddings (sequences, steps, width), written into `out`; how many sequences fell back.
#[pyfunction]
#[pyo3(signature = (embedded, strength, magnitude, rms, table, speeds, out))]
#[expect(clippy::too_many_arguments, reason = "arrays and options, given by place")]
fn trajectory_encode(
    py: Python<'_>,
    embedded: PyReadonlyArray3<'_, f32>,
    strength: f64,
    magnitude: f64,
    rms: bool,
    table: PyReadonlyArray2<'_, f32>,
    speeds: PyReadonlyArray1<'_, f32>,
    mut out: PyReadwriteArray3<'_, f32>,
) -> PyResult<usize> {
    let rule = Trajectory {
        strength,
        magnitude,
        rms,
    };
    let &[_, steps, width] = embedded.shape() else {
        unreachable!("an array of three dimensions");
    };
    let sinusoids = Sinusoids {
        table: table.as_slice()?,
        speeds: speeds.as_slice()?,
        width,
    };
    let (embedded, out) = (embedded.as_slice()?, out.as_slice_mut()?);
    done(py.detach(|| rule.encode(embedded, steps, sinusoids, out)))
}

/// Encodings of positions (n,), written into `out` (n, width).
#[pyfunction]
#[pyo3(signature = (positions, table, speeds, out))]
fn encode_positions(
    py: Python<'_>,
    positions: PyReadonlyArray1<'_, f64>,
    table: PyReadonlyArray2<'_, f32>,
    speeds: PyReadonlyArray1<'_, f32>,
    mut out: PyReadwriteArray2<'_, f32>,
) -> PyResult<()> {
    let sinusoids = Sinusoids {
        table: table.as_slice()?,
        speeds: speeds.as_slice()?,
        width: out.shape()[1],
    };
    let (positions, out) = (positions.as_slice()?, out.as_slice_mut()?);
    done(py.detach(|| sinusoids.encode(positions, out)))
}
