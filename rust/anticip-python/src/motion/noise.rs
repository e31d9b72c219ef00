//! The noise gate over whole clips.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{NoiseGate, Pose};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use super::convert::{doubles, rows, unit};

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(noise_gate, m)?)
}

type Gated<'py> = (
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f32>>,
);

/// Canonical frames at 50 Hz behind the noise gate of the live front end.
#[pyfunction]
#[pyo3(signature = (quats, root, mask, *, noise = None))]
fn noise_gate<'py>(
    py: Python<'py>,
    quats: &Bound<'py, PyAny>,
    root: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    noise: Option<[f64; JOINT_COUNT]>,
) -> PyResult<Gated<'py>> {
    let given = doubles(quats, "quats", &[None, Some(JOINT_COUNT), Some(4)])?;
    let frames = given.shape[0];
    let places: Vec<[f64; 3]> = rows(&doubles(root, "root", &[Some(frames), Some(3)])?.values);
    let mask = doubles(mask, "mask", &[Some(JOINT_COUNT)])?.values;
    let mask = std::array::from_fn(|j| mask[j] != 0.0);
    let rotations = unit(&given.values, JOINT_COUNT, "quats")?;
    let (quats, root, activity) = py.detach(|| {
        let mut gate = NoiseGate::new(&mask, noise.as_ref());
        let mut pose = Pose::identity(JOINT_COUNT);
        let (mut quats, mut root, mut activity) = (Vec::new(), Vec::new(), Vec::new());
        for (frame, place) in rotations.chunks_exact(JOINT_COUNT).zip(&places) {
            pose.rotations.copy_from_slice(frame);
            pose.root = *place;
            let out = gate.push(&pose);
            quats.extend(out.rotations.iter().flat_map(|q| q.to_array()).map(|v| v as f32));
            root.extend(out.root.map(|v| v as f32));
            activity.push(gate.openness() as f32);
        }
        (quats, root, activity)
    });
    Ok((
        PyArray1::from_vec(py, quats).reshape([frames, JOINT_COUNT, 4])?,
        PyArray1::from_vec(py, root).reshape([frames, 3])?,
        PyArray1::from_vec(py, activity),
    ))
}
