//! Bindings of the tempo tracker.

use anticip_motion::{Tempo, TempoTracker};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::features::{feature_rows, first_columns};
use crate::guarded::Guarded;

/// Beats per minute, phase, trust.
pub(super) fn to_tuple(tempo: Tempo) -> (f64, f64, f64) {
    (tempo.bpm, tempo.phase, tempo.trust)
}

/// Tracks the beat in feature rows.
#[pyclass(name = "TempoTracker", module = "pyanticip._core", frozen)]
pub(crate) struct PyTempoTracker(Guarded<TempoTracker>);

#[pymethods]
impl PyTempoTracker {
    #[new]
    fn new() -> Self {
        Self(Guarded::new(TempoTracker::default()))
    }

    fn push_many<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = feature_rows(rows)?;
        let frames = rows.shape()[0];
        let rows = first_columns(&rows)?;
        let out: Vec<f64> = self.0.detached(py, |tracker| {
            rows.flat_map(|row| <[f64; 3]>::from(to_tuple(tracker.push(row))))
                .collect()
        });
        PyArray1::from_vec(py, out).reshape([frames, 3])
    }
}
