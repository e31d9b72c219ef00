//! Features of whole clips.

use anticip_motion::{
    CanonicalPose, FEATURE_COUNT, FEATURES_VERSION, KINEMATICS_COUNT, body_kinematics,
    canonical::{JOINT_COUNT, OFFSETS},
    feature_names,
    features::RATE,
    motion_features,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::convert::doubles;
use super::motion_error;
use crate::errors::{Kind, raise};

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("RATE", RATE)?;
    m.add("FEATURES_VERSION", FEATURES_VERSION)?;
    m.add("FEATURE_NAMES", PyTuple::new(m.py(), feature_names())?)?;
    m.add_function(wrap_pyfunction!(py_motion_features, m)?)?;
    m.add_function(wrap_pyfunction!(py_body_kinematics, m)?)
}

/// What the canonical body does in space (T, 177), from feature rows (T, 231).
#[pyfunction]
#[pyo3(name = "body_kinematics")]
fn py_body_kinematics<'py>(
    py: Python<'py>,
    rows: PyReadonlyArray2<'py, f32>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let frames = rows.shape()[0];
    let wrong = || {
        let given = format!("({}, {})", frames, rows.shape()[1]);
        raise(
            Kind::Shape,
            &format!("rows must be (T, {FEATURE_COUNT}) contiguous, got {given}"),
        )
    };
    if rows.shape()[1] != FEATURE_COUNT {
        return Err(wrong());
    }
    let flat = rows.as_slice().map_err(|_| wrong())?;
    let out: Vec<f32> = py.detach(|| {
        flat.as_chunks::<FEATURE_COUNT>()
            .0
            .iter()
            .flat_map(|row| body_kinematics(row, &OFFSETS))
            .collect()
    });
    PyArray1::from_vec(py, out).reshape([frames, KINEMATICS_COUNT])
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
