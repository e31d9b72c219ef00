//! Bindings of resampling to a uniform grid, as a stream and for whole clips.

use anticip_motion::{MAX_GAP, Pose, Resampler, features::RATE};
use pyo3::prelude::*;

use super::clip::{Clip, Collected, Frames};
use super::convert::{doubles, unit};
use super::motion_error;
use crate::guarded::Guarded;

// The signature below states the default as a number.
const _: () = assert!(MAX_GAP == 25);

/// The grid, and buffers for two poses.
struct Stream {
    grid: Resampler,
    pose: Pose,
    scratch: Pose,
}

/// Resamples timed poses to a uniform grid as they arrive.
#[pyclass(name = "Resampler", module = "pyanticip._core", frozen)]
pub(crate) struct PyResampler {
    joints: usize,
    inner: Guarded<Stream>,
}

#[pymethods]
impl PyResampler {
    #[new]
    #[pyo3(signature = (joints, rate_out = RATE, *, max_gap = 25, curved = false))]
    fn new(joints: usize, rate_out: f64, max_gap: Option<u32>, curved: bool) -> PyResult<Self> {
        let grid = Resampler::new(joints, rate_out, max_gap).map_err(motion_error)?;
        let inner = Guarded::new(Stream {
            grid: if curved { grid.curved() } else { grid },
            pose: Pose::identity(joints),
            scratch: Pose::identity(joints),
        });
        Ok(Self { joints, inner })
    }

    fn push<'py>(
        &self,
        py: Python<'py>,
        t_seconds: f64,
        quats: &Bound<'py, PyAny>,
        root: &Bound<'py, PyAny>,
    ) -> PyResult<Frames<'py>> {
        let joints = self.joints;
        let quats = doubles(quats, "quats", &[Some(joints), Some(4)])?.values;
        let root = doubles(root, "root", &[Some(3)])?.values;
        let rotations = unit(&quats, joints, "quats")?;
        let pushed = self.inner.with(py, |stream| {
            let Stream { grid, pose, scratch } = stream;
            pose.rotations = rotations;
            pose.root = [root[0], root[1], root[2]];
            let mut out = Collected::default();
            grid.push(t_seconds, pose, scratch, |_, pose| {
                out.push(&pose.rotations, pose.root)
            })?;
            Ok(out)
        });
        pushed.map_err(motion_error)?.arrays(py, joints)
    }
}

#[pyfunction]
pub(crate) fn resample<'py>(
    py: Python<'py>,
    quats: &Bound<'py, PyAny>,
    root: &Bound<'py, PyAny>,
    rate_in: f64,
    rate_out: f64,
) -> PyResult<Frames<'py>> {
    let clip = Clip::read(quats, root, None)?;
    let joints = clip.joints;
    let mut out = Collected::default();
    let done = py.detach(|| {
        anticip_motion::resample(clip.frames(), joints, [rate_in, rate_out], |pose| {
            out.push(&pose.rotations, pose.root);
        })
    });
    done.map_err(motion_error)?;
    out.arrays(py, joints)
}
