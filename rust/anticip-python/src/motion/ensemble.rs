//! Bindings of the ensemble of several performers.

use anticip_motion::Ensemble;
use pyo3::prelude::*;

use super::front_output::PyFrontOutput;
use crate::errors::{Kind, raise};
use crate::guarded::Guarded;

/// Limited because the products of all pairs are stored.
const MOST: usize = 256;

type Together = (f64, i64, f64, f64, f64, f64);

/// Relations between several performers.
#[pyclass(name = "Ensemble", module = "pyanticip._core", frozen)]
pub(crate) struct PyEnsemble(Guarded<Ensemble>);

#[pymethods]
impl PyEnsemble {
    #[new]
    fn new(performers: usize) -> PyResult<Self> {
        if !(1..=MOST).contains(&performers) {
            let message = format!("performers: expected 1 to {MOST}, got {performers}");
            return Err(raise(Kind::Value, &message));
        }
        Ok(Self(Guarded::new(Ensemble::new(performers))))
    }

    fn push(&self, py: Python<'_>, performer: usize, frame: &PyFrontOutput) -> PyResult<()> {
        let out = &frame.out;
        let Some(pose) = out.poses.last() else {
            return Ok(());
        };
        self.0.with(py, |ensemble| {
            let performers = ensemble.performers();
            if performer >= performers {
                let message = format!("performer: expected 0 to {}, got {performer}", performers - 1);
                return Err(raise(Kind::Value, &message));
            }
            ensemble.push(performer, out.seq, pose, out.root);
            Ok(())
        })
    }

    fn step(&self, py: Python<'_>) -> Together {
        let now = self.0.detached(py, Ensemble::step);
        let leader = now.leader.map_or(-1, |performer| performer as i64);
        let distance = now.distance.unwrap_or(-1.0);
        (
            now.synchrony,
            leader,
            now.lag_ms,
            now.trust,
            distance,
            now.posture,
        )
    }
}
