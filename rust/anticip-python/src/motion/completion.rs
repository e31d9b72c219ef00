//! The joints that few sensors do not measure, over whole clips.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{Completion, FEW};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use super::convert::{doubles, unit};

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("FEW_JOINTS", FEW)?;
    m.add_function(wrap_pyfunction!(complete_body, m)?)
}

/// Rotations (T, 22, 4) and confidence (T, 22).
type Completed<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray2<f32>>);

/// Canonical frames at 50 Hz as the live front end completes them.
#[pyfunction]
fn complete_body<'py>(
    py: Python<'py>,
    quats: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
) -> PyResult<Completed<'py>> {
    let given = doubles(quats, "quats", &[None, Some(JOINT_COUNT), Some(4)])?;
    let frames = given.shape[0];
    let mask = doubles(mask, "mask", &[Some(JOINT_COUNT)])?.values;
    let mask: [bool; JOINT_COUNT] = std::array::from_fn(|j| mask[j] != 0.0);
    let mut rotations = unit(&given.values, JOINT_COUNT, "quats")?;
    let confidence = py.detach(|| {
        let mut completion = Completion::new(&mask);
        let mut confidence = Vec::with_capacity(frames * JOINT_COUNT);
        for frame in rotations.chunks_exact_mut(JOINT_COUNT) {
            if let Some(completion) = &mut completion {
                completion.push(frame);
                confidence.extend_from_slice(completion.confidence());
            } else {
                confidence.extend(mask.map(|there| f32::from(u8::from(there))));
            }
        }
        confidence
    });
    let flat: Vec<f32> = rotations
        .iter()
        .flat_map(|q| q.to_array())
        .map(|v| v as f32)
        .collect();
    Ok((
        PyArray1::from_vec(py, flat).reshape([frames, JOINT_COUNT, 4])?,
        PyArray1::from_vec(py, confidence).reshape([frames, JOINT_COUNT])?,
    ))
}
