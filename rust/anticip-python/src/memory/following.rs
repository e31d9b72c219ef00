//! Bindings of following, cues and gestures.

use anticip_memory::{Cue, Cues, Follower, Place, RATE, Spotted, Spotter};
use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{CanonicalPose, FrontOutput};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use super::memory_error;
use crate::errors::{Kind, raise};
use crate::guarded::Guarded;
use crate::motion::convert::{about_unit, shaped};

/// Take, seconds in it, tempo, trust.
pub(crate) type Row = (usize, f64, f64, f64);

pub(crate) fn row(place: Place) -> Row {
    (place.take, place.seconds, place.tempo, place.trust)
}

pub(super) fn to_place((take, seconds, tempo, trust): Row) -> Place {
    Place {
        take,
        seconds,
        tempo,
        trust,
    }
}

fn frames(quats: &Bound<'_, PyAny>) -> PyResult<Frames> {
    let what = "canonical rotations";
    let values = shaped(quats, what, &[None, Some(JOINT_COUNT), Some(4)])?;
    about_unit(&values, what)?;
    Ok(Frames(values))
}

/// Canonical frames as flat numbers, viewed as poses without copying them (an hour is large).
struct Frames(Vec<f32>);

impl AsRef<[CanonicalPose]> for Frames {
    fn as_ref(&self) -> &[CanonicalPose] {
        self.0.as_chunks().0.as_chunks().0
    }
}

/// A follower and the cues to announce in its frames.
pub(crate) struct Following {
    follower: Follower,
    cues: Option<Cues>,
    /// Local time of the newest frame, nanoseconds.
    newest_ns: Option<i64>,
}

impl Following {
    /// The place of each frame, oldest first, and the cues that are due in them: number, trust, seconds from
    /// the newest frame.
    pub(crate) fn push_frames(&mut self, out: &FrontOutput) -> (Vec<Option<Place>>, Vec<Due>) {
        let poses = &out.poses;
        // A cue due in a frame that fills a gap is reported with the newest frame.
        let ago = |n: usize| (poses.len() - 1 - n) as f64 / RATE;
        if let Some(before) = self.newest_ns.filter(|_| out.reset) {
            self.resume((out.t_local_ns - before) as f64 / 1e9 - ago(0));
        }
        self.newest_ns = Some(out.t_local_ns);
        let mut dues = Vec::new();
        let places = poses.iter().enumerate().map(|(n, pose)| {
            let place = self.follower.push(pose);
            let due = self
                .cues
                .as_mut()
                .map_or_else(Vec::new, |cues| cues.push(self.follower.places()));
            dues.extend(
                due.iter()
                    .map(|due| (due.cue, due.trust, (due.seconds - ago(n)).max(0.0))),
            );
            place
        });
        (places.collect(), dues)
    }

    /// Handles a stream that starts `gap` seconds after the last frame: as a gap, or as a new run.
    fn resume(&mut self, gap: f64) {
        let is_continued = self.follower.resume(gap);
        match &mut self.cues {
            Some(cues) if is_continued => cues.resume(),
            Some(cues) => cues.reset(),
            None => {}
        }
    }
}

/// Number of the cue, trust, seconds ahead.
pub(crate) type Due = (usize, f64, f64);

#[pyclass(name = "Follower", module = "pyanticip._core", frozen)]
pub(crate) struct PyFollower(pub(crate) Guarded<Following>);

#[pymethods]
impl PyFollower {
    /// Takes are read and dropped one by one, because an hour of them is large.
    #[new]
    fn new(py: Python<'_>, takes: &Bound<'_, PyAny>) -> PyResult<Self> {
        let takes = takes.try_iter()?.unbind();
        let mut failed = None;
        let follower = py.detach(|| {
            Follower::new(std::iter::from_fn(|| {
                let next = Python::attach(|py| {
                    let take = takes.bind(py).clone().next()?;
                    Some(take.and_then(|take| frames(&take)))
                })?;
                next.map_err(|error| failed = Some(error)).ok()
            }))
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let follower = follower.map_err(memory_error)?;
        Ok(Self(Guarded::new(Following {
            follower,
            cues: None,
            newest_ns: None,
        })))
    }

    /// Every second pose of a take (N, 22, 4), in 1/32767.
    fn poses<'py>(&self, py: Python<'py>, take: usize) -> PyResult<Bound<'py, PyArray3<i16>>> {
        let poses = self.0.with(py, |following| following.follower.poses(take));
        let poses = poses.ok_or_else(|| raise(Kind::Value, &format!("there is no take {take}")))?;
        let numbers = poses.as_flattened().as_flattened();
        let copied = PyArray1::zeros(py, numbers.len(), false);
        {
            let mut array = copied.readwrite();
            let target = array.as_slice_mut()?;
            // Copying an hour of poses takes longer than a frame may wait for the GIL.
            py.detach(|| target.copy_from_slice(numbers));
        }
        copied.reshape([poses.len(), JOINT_COUNT, 4])
    }

    #[pyo3(signature = (cues, same=Vec::new()))]
    fn arm(&self, py: Python<'_>, cues: PyRef<'_, PyCues>, same: Vec<Option<usize>>) {
        let mut armed = cues.0.with(py, |cues| cues.clone());
        self.0.with(py, |following| {
            if let Some(before) = &following.cues {
                armed.take_over(before, &same);
            }
            following.cues = Some(armed);
        });
    }

    fn push_many<'py>(
        &self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let frames = frames(quats)?;
        let poses = frames.as_ref();
        let rows: Vec<f64> = self.0.detached(py, |following| {
            let rows = poses.iter().map(|pose| match following.follower.push(pose) {
                Some(place) => [place.take as f64, place.seconds, place.tempo, place.trust],
                None => [-1.0, f64::NAN, f64::NAN, 0.0],
            });
            rows.flatten().collect()
        });
        PyArray1::from_vec(py, rows).reshape([poses.len(), 4])
    }
}

#[pyclass(name = "Cues", module = "pyanticip._core", frozen)]
pub(crate) struct PyCues(Guarded<Cues>);

#[pymethods]
impl PyCues {
    #[new]
    #[pyo3(signature = (cues, also=Vec::new()))]
    fn new(cues: Vec<(usize, f64, f64)>, also: Vec<(usize, usize, f64)>) -> PyResult<Self> {
        let cues = cues
            .into_iter()
            .map(|(take, seconds, ahead)| Cue { take, seconds, ahead });
        let cues = Cues::new(cues.collect()).and_then(|mut cues| {
            also.into_iter()
                .try_for_each(|(cue, take, seconds)| cues.add_alternative(cue, take, seconds))?;
            Ok(cues)
        });
        Ok(Self(Guarded::new(cues.map_err(memory_error)?)))
    }

    #[pyo3(signature = (place, /))]
    fn push(&self, py: Python<'_>, place: Option<Row>) -> Vec<(usize, f64)> {
        let place = place.map(to_place);
        let due = self.0.with(py, |cues| cues.push(place.as_slice()));
        due.into_iter().map(|due| (due.cue, due.seconds)).collect()
    }

    fn passed(&self, py: Python<'_>, cue: usize) -> PyResult<()> {
        let result = self.0.with(py, |cues| cues.passed(cue));
        result.map_err(memory_error)
    }
}

#[pyclass(name = "Spotter", module = "pyanticip._core", frozen)]
pub(crate) struct PySpotter(Guarded<Spotter>);

/// Progress, seconds until the end, likelihood.
type Progress = (f32, f32, f32);

fn to_tuple(spotted: Spotted) -> Progress {
    (spotted.progress, spotted.seconds, spotted.likelihood)
}

#[pymethods]
impl PySpotter {
    #[new]
    #[pyo3(signature = (takes, thresholds, *, at = 0.3))]
    fn new(
        py: Python<'_>,
        takes: Vec<(usize, Bound<'_, PyAny>)>,
        thresholds: Vec<f64>,
        at: f64,
    ) -> PyResult<Self> {
        let parse = |(gesture, quats): &(usize, Bound<'_, PyAny>)| Ok((*gesture, frames(quats)?));
        let takes = takes.iter().map(parse).collect::<PyResult<Vec<_>>>()?;
        let takes: Vec<(usize, &[CanonicalPose])> = takes
            .iter()
            .map(|(gesture, take)| (*gesture, take.as_ref()))
            .collect();
        let spotter = py.detach(|| Spotter::new(&takes, &thresholds, at));
        Ok(Self(Guarded::new(spotter.map_err(memory_error)?)))
    }

    fn push(&self, quats: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Progress>>> {
        let values = shaped(quats, "quats", &[Some(JOINT_COUNT), Some(4)])?;
        about_unit(&values, "quats")?;
        let pose = &values.as_chunks().0.as_chunks().0[0];
        let found = self.0.with(quats.py(), |spotter| spotter.push(pose).to_vec());
        Ok(found.into_iter().map(|found| found.map(to_tuple)).collect())
    }

    fn push_many<'py>(
        &self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let frames = frames(quats)?;
        let poses = frames.as_ref();
        let (gestures, rows) = self.0.detached(py, |spotter| {
            let mut rows = Vec::new();
            for pose in poses {
                let found = spotter.push(pose).to_vec();
                rows.extend(found.iter().zip(spotter.costs()).flat_map(|(found, cost)| {
                    let (progress, seconds, likelihood) = found.map_or((f32::NAN, f32::NAN, 0.0), to_tuple);
                    [progress, seconds, likelihood, *cost].map(f64::from)
                }));
            }
            (spotter.costs().len(), rows)
        });
        PyArray1::from_vec(py, rows).reshape([poses.len(), gestures, 4])
    }

    fn reset(&self, py: Python<'_>) {
        self.0.with(py, Spotter::reset);
    }
}
