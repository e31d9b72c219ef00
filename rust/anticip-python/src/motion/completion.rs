//! Completion of joints that few sensors do not measure, over whole clips.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{Completion, Trackers};
use anticip_wire::{Tracker, TrackerUpdate};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;

use super::convert::{doubles, unit};

/// Rotations (T, 22, 4), which joints (22,) are measured, and which are placed.
type Tracked<'py> = (
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
);

#[pyfunction]
pub(crate) fn solve_trackers<'py>(
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
    let mut update = TrackerUpdate {
        trackers: names.into_iter().map(tracker).collect(),
        ..TrackerUpdate::default()
    };
    let mut found = vec![[1.0_f32, 0.0, 0.0, 0.0]; frames * JOINT_COUNT];
    let mut measured = [false; JOINT_COUNT];
    let placed = py.detach(|| {
        let (mut trackers, mut placed) = (Trackers::default(), 0);
        let mut held = [[1.0_f32, 0.0, 0.0, 0.0]; JOINT_COUNT];
        let count = update.trackers.len();
        for (frame, out) in found.chunks_exact_mut(JOINT_COUNT).enumerate() {
            for (k, tracker) in update.trackers.iter_mut().enumerate() {
                let at = frame * count + k;
                let some = |values: &[f64]| values.iter().all(|v| v.is_finite());
                let (turn, place) = (&turns.values[4 * at..][..4], &places.values[3 * at..][..3]);
                tracker.rotation = some(turn).then(|| std::array::from_fn(|i| turn[i] as f32));
                tracker.position = some(place).then(|| std::array::from_fn(|i| place[i] as f32));
            }
            if let Some((pose, solved)) = trackers.solve(&update) {
                placed = solved;
                for joint in &pose.joints {
                    held[usize::from(joint.id)] = joint.rotation;
                    measured[usize::from(joint.id)] = true;
                }
            }
            out.copy_from_slice(&held);
        }
        std::array::from_fn::<_, JOINT_COUNT, _>(|j| placed & 1 << j != 0)
    });
    for (measured, placed) in measured.iter_mut().zip(placed) {
        *measured &= !placed;
    }
    Ok((
        PyArray1::from_vec(py, found.into_iter().flatten().collect()).reshape([frames, JOINT_COUNT, 4])?,
        PyArray1::from_slice(py, &measured),
        PyArray1::from_slice(py, &placed),
    ))
}

/// Rotations (T, 22, 4) and confidence (T, 22).
type Completed<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray2<f32>>);

#[pyfunction]
#[pyo3(signature = (quats, mask, placed=None))]
pub(crate) fn complete_body<'py>(
    py: Python<'py>,
    quats: &Bound<'py, PyAny>,
    mask: &Bound<'py, PyAny>,
    placed: Option<&Bound<'py, PyAny>>,
) -> PyResult<Completed<'py>> {
    let array = doubles(quats, "quats", &[None, Some(JOINT_COUNT), Some(4)])?;
    let frames = array.shape[0];
    let mask = doubles(mask, "mask", &[Some(JOINT_COUNT)])?.values;
    let mask: [bool; JOINT_COUNT] = std::array::from_fn(|j| mask[j] != 0.0);
    let placed = match placed {
        Some(placed) => doubles(placed, "placed", &[Some(JOINT_COUNT)])?.values,
        None => Vec::new(),
    };
    let placed = placed.iter().enumerate();
    let placed = placed.fold(0_u32, |bits, (j, there)| bits | u32::from(*there != 0.0) << j);
    let mut rotations = unit(&array.values, JOINT_COUNT, "quats")?;
    let confidence = py.detach(|| {
        let mut completion = match placed {
            0 => Completion::new(&mask),
            placed => Completion::with_position_only(&mask, placed),
        };
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
