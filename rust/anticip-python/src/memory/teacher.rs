//! Bindings of the offline teacher and of its causal twin.

use anticip_memory::{PARAMETER_COUNT, Teacher};
use anticip_motion::twin::{CausalTwins, MOTION_DELAY_S};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use super::poses;
use crate::guarded::Guarded;
use crate::motion::motion_error;

/// The teacher's parameters of a stream at several delays, computed causally.
#[pyclass(name = "CausalTwins", module = "pyanticip._core", frozen)]
pub(crate) struct PyCausalTwins {
    inner: Guarded<CausalTwins>,
    delays: usize,
}

#[pymethods]
impl PyCausalTwins {
    #[new]
    #[pyo3(signature = (delays_s, *, motion_delay_s = MOTION_DELAY_S))]
    fn new(delays_s: Vec<f64>, motion_delay_s: f64) -> PyResult<Self> {
        let twins = CausalTwins::new(&delays_s, motion_delay_s).map_err(motion_error)?;
        Ok(Self {
            inner: Guarded::new(twins),
            delays: delays_s.len(),
        })
    }

    fn push<'py>(&self, py: Python<'py>, quats: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray3<f32>>> {
        let poses = poses(quats)?;
        let out: Vec<f32> = self.inner.detached(py, |twins| {
            let mut out = Vec::with_capacity(poses.len() * self.delays * PARAMETER_COUNT);
            let mut row = vec![[0.0; PARAMETER_COUNT]; self.delays];
            for pose in &poses {
                twins.push(pose, &mut row);
                out.extend(row.as_flattened().iter().map(|&v| v as f32));
            }
            out
        });
        PyArray1::from_vec(py, out).reshape([poses.len(), self.delays, PARAMETER_COUNT])
    }

    fn reset(&self, py: Python<'_>) {
        self.inner.with(py, CausalTwins::reset);
    }
}

#[pyfunction]
pub(crate) fn teacher_parameters<'py>(
    py: Python<'py>,
    quats: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let poses = poses(quats)?;
    let rows = py.detach(|| {
        let (mut teacher, mut rows) = (Teacher::default(), Vec::new());
        for pose in &poses {
            teacher.push(pose, |row| rows.extend(row.map(|v| v as f32)));
        }
        teacher.finish(|row| rows.extend(row.map(|v| v as f32)));
        rows
    });
    let frames = rows.len() / PARAMETER_COUNT;
    PyArray1::from_vec(py, rows).reshape([frames, PARAMETER_COUNT])
}
