//! Features of whole clips.

use anticip_motion::{
    CanonicalPose, FEATURE_COUNT, FEATURES_VERSION, KINEMATICS_COUNT, body_kinematics,
    canonical::JOINT_COUNT, feature_names, motion_features,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyReadwriteArray2};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::convert::doubles;
use super::motion_error;
use crate::errors::{Kind, raise};

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("FEATURES_VERSION", FEATURES_VERSION)?;
    m.add("FEATURE_NAMES", PyTuple::new(m.py(), feature_names())?)?;
    m.add_function(wrap_pyfunction!(py_motion_features, m)?)?;
    m.add_class::<BodyKinematics>()
}

/// Forward kinematics of feature rows for one body.
#[pyclass(name = "BodyKinematics", module = "pyanticip._core", frozen)]
struct BodyKinematics {
    offsets: [[f64; 3]; JOINT_COUNT],
}

#[pymethods]
impl BodyKinematics {
    #[new]
    fn new(offsets: &Bound<'_, PyAny>) -> PyResult<Self> {
        let offsets = doubles(offsets, "offsets", &[Some(JOINT_COUNT), Some(3)])?.values;
        Ok(Self {
            offsets: std::array::from_fn(|j| std::array::from_fn(|i| offsets[3 * j + i])),
        })
    }

    /// Writes the kinematics (1, 177) of a feature row (1, 231) into `out`.
    fn compute(&self, row: PyReadonlyArray2<'_, f32>, mut out: PyReadwriteArray2<'_, f32>) -> PyResult<()> {
        let given = row.as_slice().ok().and_then(|r| r.try_into().ok());
        let wanted = out.as_slice_mut().ok();
        match (given, wanted) {
            (Some(row), Some(out)) if out.len() == KINEMATICS_COUNT => {
                out.copy_from_slice(&body_kinematics(row, &self.offsets));
                Ok(())
            }
            _ => Err(raise(
                Kind::Shape,
                &format!("expected a row (1, {FEATURE_COUNT}) and an output (1, {KINEMATICS_COUNT})"),
            )),
        }
    }
}

/// Features (T, 231) of canonical frames at 50 Hz.
#[pyfunction]
#[pyo3(name = "motion_features", signature = (quats, root, mask, *, window = 256))]
fn py_motion_features<'py>(
    py: Python<'py>,
    quats: &Bound<'py, PyAny>,
    root: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    window: usize,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let quats = doubles(quats, "quats", &[None, Some(JOINT_COUNT), Some(4)])?;
    let frames = quats.shape[0];
    let root = doubles(root, "root", &[Some(frames), Some(3)])?.values;
    let mask = doubles(mask, "mask", &[Some(JOINT_COUNT)])?.values;
    let mask = std::array::from_fn(|j| mask[j] != 0.0);
    let out = py.detach(|| {
        let single: Vec<f32> = quats.values.iter().map(|&v| v as f32).collect();
        let joints = single.as_chunks::<4>().0;
        let poses: &[CanonicalPose] = joints.as_chunks::<JOINT_COUNT>().0;
        let roots: Vec<[f32; 3]> = root
            .as_chunks::<3>()
            .0
            .iter()
            .map(|r| r.map(|v| v as f32))
            .collect();
        motion_features(poses, &roots, &mask, window)
    });
    let flat = out.map_err(|e| motion_error(&e))?.into_flattened();
    PyArray1::from_vec(py, flat).reshape([frames, FEATURE_COUNT])
}
