//! Following and cues.

use anticip_memory::{Cue, Cues, Follower, Place, Rotations};
use anticip_motion::CanonicalPose;
use anticip_motion::canonical::JOINT_COUNT;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use super::{memory_error, poses};
use crate::motion::convert::doubles;

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyFollower>()?;
    m.add_class::<PyCues>()
}

/// Take, seconds in it, tempo, trust.
type Row = (usize, f64, f64, f64);

fn row(place: Place) -> Row {
    (place.take, place.seconds, place.tempo, place.trust)
}

fn frames(quats: &Bound<'_, PyAny>) -> PyResult<Vec<CanonicalPose>> {
    let single = |pose: &Rotations| pose.map(|q| q.map(|v| v as f32));
    Ok(poses(quats)?.iter().map(single).collect())
}

#[pyclass(name = "Follower", module = "pyanticip._core")]
struct PyFollower(Follower);

#[pymethods]
impl PyFollower {
    #[new]
    fn new(py: Python<'_>, takes: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        let takes = takes.iter().map(frames).collect::<PyResult<Vec<_>>>()?;
        let takes: Vec<&[CanonicalPose]> = takes.iter().map(Vec::as_slice).collect();
        let follower = py.detach(|| Follower::new(&takes));
        Ok(Self(follower.map_err(|error| memory_error(&error))?))
    }

    fn push(&mut self, quats: &Bound<'_, PyAny>) -> PyResult<Option<Row>> {
        let values = doubles(quats, "quats", &[Some(JOINT_COUNT), Some(4)])?.values;
        let pose = std::array::from_fn(|j| std::array::from_fn(|i| values[4 * j + i] as f32));
        Ok(self.0.push(&pose).map(row))
    }

    fn push_many<'py>(
        &mut self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let poses = frames(quats)?;
        let rows: Vec<f64> = py.detach(|| {
            let rows = poses.iter().map(|pose| match self.0.push(pose) {
                Some(place) => [place.take as f64, place.seconds, place.tempo, place.trust],
                None => [-1.0, f64::NAN, f64::NAN, 0.0],
            });
            rows.flatten().collect()
        });
        PyArray1::from_vec(py, rows).reshape([poses.len(), 4])
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

#[pyclass(name = "Cues", module = "pyanticip._core")]
struct PyCues(Cues);

#[pymethods]
impl PyCues {
    #[new]
    fn new(cues: Vec<(usize, f64, f64)>) -> PyResult<Self> {
        let cues = cues
            .into_iter()
            .map(|(take, seconds, ahead)| Cue { take, seconds, ahead });
        let cues = Cues::new(cues.collect());
        Ok(Self(cues.map_err(|error| memory_error(&error))?))
    }

    #[pyo3(signature = (place, /))]
    fn push(&mut self, place: Option<Row>) -> Vec<(usize, f64)> {
        let place = place.map(|(take, seconds, tempo, trust)| Place {
            take,
            seconds,
            tempo,
            trust,
        });
        let due = self.0.push(place.as_ref());
        due.into_iter().map(|due| (due.cue, due.seconds)).collect()
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}
