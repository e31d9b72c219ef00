//! Features of whole clips.

use anticip_motion::{
    CanonicalPose, FEATURE_COUNT, FEATURE_COUNT_V1, KINEMATICS_COUNT, body_kinematics,
    canonical::{JOINT_COUNT, OFFSETS},
    motion_features,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::convert::{doubles, exact, flat};
use super::motion_error;
use crate::errors::{Kind, raise};

/// Whether rows of some feature version have this width.
pub(crate) fn is_row_width(width: usize) -> bool {
    [FEATURE_COUNT_V1, FEATURE_COUNT].contains(&width)
}

/// The possible widths of rows for a model that reads this many columns, in words.
pub(crate) fn row_widths(columns: usize) -> String {
    if columns > FEATURE_COUNT_V1 {
        FEATURE_COUNT.to_string()
    } else {
        format!("{FEATURE_COUNT_V1} or {FEATURE_COUNT}")
    }
}

/// Feature rows (T, columns).
pub(super) fn feature_rows<'py>(rows: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray2<'py, f32>> {
    exact(rows, "feature rows (T, columns) of float32")
}

/// The columns of version 1 of feature rows of any version.
pub(super) fn first_columns<'a>(
    rows: &'a PyReadonlyArray2<'_, f32>,
) -> PyResult<impl Iterator<Item = &'a [f32; FEATURE_COUNT_V1]>> {
    let (frames, width) = (rows.shape()[0], rows.shape()[1]);
    let values = flat(rows).filter(|_| is_row_width(width)).ok_or_else(|| {
        let widths = row_widths(FEATURE_COUNT_V1);
        let message = format!("rows must be (T, {widths}) contiguous, got ({frames}, {width})");
        raise(Kind::Shape, &message)
    })?;
    Ok(values.chunks_exact(width).filter_map(|row| row.first_chunk()))
}

#[pyfunction]
#[pyo3(name = "body_kinematics")]
pub(crate) fn py_body_kinematics<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let rows = feature_rows(rows)?;
    let frames = rows.shape()[0];
    let rows = first_columns(&rows)?;
    let out: Vec<f32> = py.detach(|| rows.flat_map(|row| body_kinematics(row, &OFFSETS)).collect());
    PyArray1::from_vec(py, out).reshape([frames, KINEMATICS_COUNT])
}

#[pyfunction]
#[pyo3(name = "motion_features", signature = (quats, root, mask, *, window = 256))]
pub(crate) fn py_motion_features<'py>(
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
    let flat = out.map_err(motion_error)?.into_flattened();
    PyArray1::from_vec(py, flat).reshape([frames, FEATURE_COUNT])
}
