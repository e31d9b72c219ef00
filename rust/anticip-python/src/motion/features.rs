//! Features of whole clips.

use anticip_motion::{
    CanonicalPose, FEATURE_COUNT, FEATURES_VERSION, canonical::JOINT_COUNT, feature_names, motion_features,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::convert::doubles;
use super::motion_error;

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("FEATURES_VERSION", FEATURES_VERSION)?;
    m.add("FEATURE_NAMES", PyTuple::new(m.py(), feature_names())?)?;
    m.add_function(wrap_pyfunction!(py_motion_features, m)?)
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
