//! Bindings of trajectory positions.

use anticip_kernels::{Sinusoids, Trajectory};
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{done, reading, writing};
use crate::errors::{Kind, raise};

/// Steps and width of embeddings (sequences, steps, width).
fn sizes(embedded: &PyReadonlyArrayDyn<'_, f32>) -> PyResult<[usize; 2]> {
    match embedded.shape() {
        &[_, steps, width] => Ok([steps, width]),
        given => {
            let words = format!("embedded: expected (sequences, steps, width), got {given:?}");
            Err(raise(Kind::Shape, &words))
        }
    }
}

#[pyfunction]
#[pyo3(signature = (embedded, strength, magnitude, rms, table, speeds, out))]
#[expect(clippy::too_many_arguments, reason = "arrays and options, given by place")]
pub(crate) fn trajectory_encode(
    py: Python<'_>,
    embedded: &Bound<'_, PyAny>,
    strength: f64,
    magnitude: f64,
    rms: bool,
    table: &Bound<'_, PyAny>,
    speeds: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    let rule = Trajectory {
        strength,
        magnitude,
        rms,
    };
    let (embedded, mut out) = (reading::<f32>("embedded", embedded)?, writing::<f32>("out", out)?);
    let (table, speeds) = (reading::<f32>("table", table)?, reading::<f32>("speeds", speeds)?);
    let [steps, width] = sizes(&embedded)?;
    let sinusoids = Sinusoids {
        table: table.as_slice()?,
        speeds: speeds.as_slice()?,
        width,
    };
    let (embedded, out) = (embedded.as_slice()?, out.as_slice_mut()?);
    done(py.detach(|| rule.encode(embedded, steps, sinusoids, out)))
}

#[pyfunction]
#[pyo3(signature = (positions, table, speeds, out))]
pub(crate) fn encode_positions(
    py: Python<'_>,
    positions: &Bound<'_, PyAny>,
    table: &Bound<'_, PyAny>,
    speeds: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let positions = reading::<f64>("positions", positions)?;
    let (table, speeds) = (reading::<f32>("table", table)?, reading::<f32>("speeds", speeds)?);
    let mut out = writing::<f32>("out", out)?;
    let &[_, width] = out.shape() else {
        let words = format!("out: expected (positions, width), got {:?}", out.shape());
        return Err(raise(Kind::Shape, &words));
    };
    let sinusoids = Sinusoids {
        table: table.as_slice()?,
        speeds: speeds.as_slice()?,
        width,
    };
    let (positions, out) = (positions.as_slice()?, out.as_slice_mut()?);
    done(py.detach(|| sinusoids.encode(positions, out)))
}
