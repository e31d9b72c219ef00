//! The joints that few sensors do not measure, over whole clips.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{Completion, FEW, Trackers};
use anticip_wire::{Tracker, TrackerUpdate};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use super::convert::{doubles, unit};

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("FEW_JOINTS", FEW)?;
    m.add_function(wrap_pyfunction!(complete_body, m)?)?;
    m.add_function(wrap_pyfunction!(solve_trackers, m)?)
}

/// Rotations (T, 22, 4), and which joints (22,) are measured.
type Tracked<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray1<bool>>);

/// Frames of trackers as the live front end solves them.
#[pyfunction]
fn solve_trackers<'py>(
    py: Python<'py>,
    names: Vec<String>,
    quats: &Bound<'py, PyAny>,
    positions: &Bound<'py, PyAny>,
) -> PyResult<Tracked<'py>> {
    let turns = doubles(quats, "quats", &[None, Some(names.len()), Some(4)])?;
    let frames = turns.shape[0];
    let places = doubles(
        positions,
        "positions",
        &[Some(frames), Some(names.len()), Some(3)],
    )?;
    let tracker = |name: String| Tracker {
        name,
        ..Tracker::default()
    };
    let mut told = TrackerUpdate {
        trackers: names.into_iter().map(tracker).collect(),
        ..TrackerUpdate::default()
    };
    let mut found = vec![[1.0_f32, 0.0, 0.0, 0.0]; frames * JOINT_COUNT];
    let mut measured = [false; JOINT_COUNT];
    py.detach(|| {
        let mut trackers = Trackers::default();
        let mut held = [[1.0_f32, 0.0, 0.0, 0.0]; JOINT_COUNT];
        let count = told.trackers.len();
        for (frame, out) in found.chunks_exact_mut(JOINT_COUNT).enumerate() {
            for (k, tracker) in told.trackers.iter_mut().enumerate() {
                let at = frame * count + k;
                let some = |values: &[f64]| values.iter().all(|v| v.is_finite());
                let (turn, place) = (&turns.values[4 * at..][..4], &places.values[3 * at..][..3]);
                tracker.rotation = some(turn).then(|| std::array::from_fn(|i| turn[i] as f32));
                tracker.position = some(place).then(|| std::array::from_fn(|i| place[i] as f32));
            }
            if let Some(pose) = trackers.solve(&told) {
                for joint in &pose.joints {
                    held[usize::from(joint.id)] = joint.rotation;
                    measured[usize::from(joint.id)] = true;
                }
            }
            out.copy_from_slice(&held);
        }
    });
    Ok((
        PyArray1::from_vec(py, found.into_iter().flatten().collect()).reshape([frames, JOINT_COUNT, 4])?,
        PyArray1::from_slice(py, &measured),
    ))
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
