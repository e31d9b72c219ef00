//! Bindings of resampling to a uniform grid, as a stream and for whole clips.

use anticip_motion::{MAX_GAP, Pose, Resampler, check_size, features::RATE};
use pyo3::prelude::*;

use super::clip::{Clip, Collected, Frames};
use super::convert::{doubles, unit};
use super::motion_error;
use crate::shared::Shared;

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
    inner: Shared<Stream>,
}

#[pymethods]
impl PyResampler {
    #[new]
    #[pyo3(signature = (joints, rate_out = RATE, *, max_gap = 25, curved = false))]
    fn new(joints: usize, rate_out: f64, max_gap: Option<u32>, curved: bool) -> PyResult<Self> {
        let grid = Resampler::new(joints, rate_out, max_gap).map_err(|e| motion_error(&e))?;
        let inner = Shared::new(Stream {
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
        pushed.map_err(|e| motion_error(&e))?.arrays(py, joints)
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
    let out = py.detach(|| -> Result<Collected, anticip_motion::MotionError> {
        let mut resampler = Resampler::new(joints, rate_out, None)?;
        Resampler::new(joints, rate_in, None)?;
        check_size(clip.len() as f64 * rate_out / rate_in, joints)?;
        let mut pose = Pose::identity(joints);
        let mut scratch = Pose::identity(joints);
        let mut out = Collected::default();
        for (i, (local, root)) in clip.frames().enumerate() {
            pose.rotations.copy_from_slice(local);
            pose.root = root;
            resampler.push(i as f64 / rate_in, &pose, &mut scratch, |_, p| {
                out.push(&p.rotations, p.root);
            })?;
        }
        Ok(out)
    });
    out.map_err(|e| motion_error(&e))?.arrays(py, joints)
}
