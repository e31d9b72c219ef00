//! Bindings of the tempo tracker.

use anticip_motion::{FEATURE_COUNT_V1, Tempo, TempoTracker};
use numpy::ndarray::Ix2;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::convert::{exact, flat};
use super::features::{is_row_width, row_widths};
use crate::errors::{Kind, raise};
use crate::shared::Shared;

/// Beats per minute, phase, trust.
pub(super) fn to_tuple(tempo: Tempo) -> (f64, f64, f64) {
    (tempo.bpm, tempo.phase, tempo.trust)
}

/// Tracks the beat in feature rows.
#[pyclass(name = "TempoTracker", module = "pyanticip._core", frozen)]
pub(crate) struct PyTempoTracker(Shared<TempoTracker>);

#[pymethods]
impl PyTempoTracker {
    #[new]
    fn new() -> Self {
        Self(Shared::new(TempoTracker::default()))
    }

    fn push_many<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = exact::<f32, Ix2>(rows, "feature rows (T, columns) of float32")?;
        let (frames, width) = (rows.shape()[0], rows.shape()[1]);
        let flat = flat(&rows).filter(|_| is_row_width(width)).ok_or_else(|| {
            let widths = row_widths(FEATURE_COUNT_V1);
            let message = format!("rows must be (T, {widths}) contiguous, got ({frames}, {width})");
            raise(Kind::Shape, &message)
        })?;
        let out: Vec<f64> = self.0.detached(py, |tracker| {
            flat.chunks_exact(width)
                .filter_map(|row| row.first_chunk::<FEATURE_COUNT_V1>())
                .flat_map(|row| {
                    let Tempo { bpm, phase, trust } = tracker.push(row);
                    [bpm, phase, trust]
                })
                .collect()
        });
        PyArray1::from_vec(py, out).reshape([frames, 3])
    }
}
