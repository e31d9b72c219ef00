//! Bindings of one performer's memory and its stream.

use anticip_memory::{
    FOLLOWED, HORIZONS, KEY_SIZE, MODEL_HORIZONS, MOMENTS_PER_HOUR, Memory, MixedForecast, ModelRows, Origin,
    PARAMETER_COUNT, Place, Rotations,
};
use anticip_motion::canonical::JOINT_COUNT;
use numpy::ndarray::Ix2;
use numpy::{Element, PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;

use super::following::{Row, to_place};
use super::memory_error;
use crate::errors::{Kind, raise};
use crate::guarded::Guarded;
use crate::motion::convert::{about_unit, doubles, exact, finite, flat, shaped};
use crate::step_result::{PyStepResult, parameter_rows};

const H: usize = HORIZONS.len();

/// Mixed parameters (8, 5) and trust (8, 3).
type Frame<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray2<f32>>);
/// The same for T frames.
type Frames<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray3<f32>>);
/// Names of takes, keys (N, 182), what followed (N, 24), takes and frames (N, 2).
type Moments<'py> = (
    Vec<String>,
    Bound<'py, PyArray2<i16>>,
    Bound<'py, PyArray2<u16>>,
    Bound<'py, PyArray2<u32>>,
);

// The signature below states the default as a number.
const _: () = assert!(MOMENTS_PER_HOUR == 90_000);

/// Moments of a performer, and the mixing of model output with them.
#[pyclass(name = "Memory", module = "pyanticip._core", frozen)]
pub(crate) struct PyMemory(pub(crate) Guarded<Memory>);

#[pymethods]
impl PyMemory {
    #[new]
    #[pyo3(signature = (capacity = 90_000))]
    fn new(capacity: usize) -> PyResult<Self> {
        let memory = Memory::new(capacity).map_err(memory_error)?;
        Ok(Self(Guarded::new(memory)))
    }

    /// Adds a frame (22, 4), the model's parameters for it (8, 5), and its place in the rehearsed takes;
    /// returns mixed parameters (8, 5) and trust (8, 3).
    #[pyo3(signature = (quats, params = None, place = None))]
    fn push<'py>(
        &self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        place: Option<Row>,
    ) -> PyResult<Frame<'py>> {
        let pose = poses(quats, &[JOINT_COUNT, 4])?;
        let params = model(params)?;
        let place = place.map(to_place);
        let forecast = self.0.detached(py, |memory| {
            memory.push(&pose[0], params.as_ref(), place.as_ref())
        });
        frame(py, &forecast)
    }

    /// Like single pushes of T frames (T, 22, 4), parameters (T, 8, 5) and places (T, 4); rows that are not
    /// finite count as missing.
    #[pyo3(signature = (quats, params = None, places = None))]
    fn push_many<'py>(
        &self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        places: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Frames<'py>> {
        let frames = take_poses(quats)?;
        let count = frames.len();
        let rows = params.map(|value| rows(value, count)).transpose()?;
        let places = places
            .map(|value| doubles(value, "places", &[Some(count), Some(4)]))
            .transpose()?;
        let (mixed, trust) = self.0.detached(py, |memory| {
            let (mut mixed, mut trust) = (Vec::new(), Vec::new());
            for (t, pose) in frames.iter().enumerate() {
                let row = rows.as_ref().map(|rows| &rows[t]);
                let forecast = row.filter(|row| row.iter().flatten().all(|value| value.is_finite()));
                let place = places
                    .as_ref()
                    .and_then(|rows| place_from_row(&rows.values[4 * t..][..4]));
                let forecast = memory.push(pose, forecast, place.as_ref());
                mixed.extend_from_slice(forecast.parameters.as_flattened());
                trust.extend_from_slice(forecast.trust.as_flattened());
            }
            (mixed, trust)
        });
        Ok((
            PyArray1::from_vec(py, mixed).reshape([count, PARAMETER_COUNT, MODEL_HORIZONS])?,
            PyArray1::from_vec(py, trust).reshape([count, PARAMETER_COUNT, H])?,
        ))
    }

    /// The step with the parameters mixed as if the model had given it for the newest frame.
    fn imagine(&self, py: Python<'_>, step: &Bound<'_, PyStepResult>) -> PyResult<PyStepResult> {
        let step = step.get();
        finite(step.params.as_flattened(), "params")?;
        let forecast = self.0.with(py, |memory| memory.imagine(Some(&step.params)));
        Ok(step.with_rows(py, forecast.parameters))
    }

    /// Ends the take; the next frame starts another.
    fn reset(&self, py: Python<'_>) {
        self.0.detached(py, Memory::reset);
    }

    /// Stores a whole take (T, 22, 4) permanently, under a name.
    fn rehearse(&self, py: Python<'_>, name: &str, quats: &Bound<'_, PyAny>) -> PyResult<()> {
        let take = take_poses(quats)?;
        self.0
            .detached(py, |memory| memory.rehearse(name, &take))
            .map_err(memory_error)
    }

    /// Forgets moments learned from the stream, and with `rehearsed` the rehearsed ones too.
    #[pyo3(signature = (*, rehearsed = false))]
    fn clear(&self, py: Python<'_>, rehearsed: bool) {
        self.0.with(py, |memory| memory.clear(rehearsed));
    }

    #[getter]
    fn learning(&self, py: Python<'_>) -> bool {
        self.0.with(py, |memory| memory.learning())
    }

    #[setter]
    fn set_learning(&self, py: Python<'_>, learning: bool) {
        self.0.with(py, |memory| memory.set_learning(learning));
    }

    #[getter]
    fn takes(&self, py: Python<'_>) -> Vec<String> {
        self.0.with(py, |memory| memory.names().to_vec())
    }

    #[getter]
    fn capacity(&self, py: Python<'_>) -> usize {
        self.0.with(py, |memory| memory.store().capacity())
    }

    #[getter]
    fn rehearsed(&self, py: Python<'_>) -> usize {
        self.0.with(py, |memory| memory.store().rehearsed())
    }

    #[getter]
    fn forgotten(&self, py: Python<'_>) -> u64 {
        self.0.with(py, |memory| memory.store().forgotten())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.0.with(py, |memory| memory.store().len())
    }

    /// Stored moments, oldest first: `count` of them starting with `first`.
    #[pyo3(signature = (first = 0, count = None))]
    fn moments<'py>(&self, py: Python<'py>, first: usize, count: Option<usize>) -> PyResult<Moments<'py>> {
        let (names, keys, followed, origins) = self.0.detached(py, |memory| {
            let mut names = memory.names().to_vec();
            let store = memory.store();
            let selected = first..first.saturating_add(count.unwrap_or(store.len()));
            let (mut keys, mut followed, mut origins) = (Vec::new(), Vec::new(), Vec::new());
            let mut live_take = None;
            for (place, slot) in store.in_order().enumerate() {
                let origin = store.origin(slot);
                if slot >= store.rehearsed() && live_take != Some(origin.take) {
                    live_take = Some(origin.take);
                    names.push(format!("live {}", names.len() + 1));
                }
                if !selected.contains(&place) {
                    continue;
                }
                keys.extend_from_slice(&store.key(slot));
                followed.extend_from_slice(store.followed(slot));
                let take = if live_take.is_some() {
                    names.len() as u32 - 1
                } else {
                    origin.take
                };
                origins.extend([take, origin.frame]);
            }
            (names, keys, followed, origins)
        });
        let moments = origins.len() / 2;
        Ok((
            names,
            PyArray1::from_vec(py, keys).reshape([moments, KEY_SIZE])?,
            PyArray1::from_vec(py, followed).reshape([moments, FOLLOWED])?,
            PyArray1::from_vec(py, origins).reshape([moments, 2])?,
        ))
    }

    /// Replaces all moments by those from `moments`.
    fn restore(
        &self,
        py: Python<'_>,
        takes: Vec<String>,
        keys: &Bound<'_, PyAny>,
        followed: &Bound<'_, PyAny>,
        origins: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let keys = exact::<i16, Ix2>(keys, "keys (N, 182) of int16")?;
        let followed = exact::<u16, Ix2>(followed, "what followed (N, 24) of uint16")?;
        let origins = exact::<u32, Ix2>(origins, "takes and frames (N, 2) of uint32")?;
        let places: Vec<Origin> = contiguous(&origins, "origins")?
            .as_chunks()
            .0
            .iter()
            .map(|&[take, frame]| Origin { take, frame })
            .collect();
        let keys = contiguous(&keys, "keys")?;
        let followed = contiguous(&followed, "followed")?;
        self.0
            .detached(py, |memory| memory.restore(takes, keys, followed, &places))
            .map_err(memory_error)
    }
}

/// A place from a row of take (-1: nowhere), seconds, tempo, trust.
fn place_from_row(row: &[f64]) -> Option<Place> {
    let &[take, seconds, tempo, trust] = row else {
        return None;
    };
    let is_known = take >= 0.0 && row.iter().all(|value| value.is_finite());
    is_known.then(|| to_place((take as usize, seconds, tempo, trust)))
}

fn contiguous<'a, T: Element>(array: &'a PyReadonlyArray2<'_, T>, what: &str) -> PyResult<&'a [T]> {
    flat(array).ok_or_else(|| raise(Kind::Shape, &format!("{what}: expected a contiguous array")))
}

fn frame<'py>(py: Python<'py>, forecast: &MixedForecast) -> PyResult<Frame<'py>> {
    let parameters = PyArray1::from_slice(py, forecast.parameters.as_flattened());
    let trust = PyArray1::from_slice(py, forecast.trust.as_flattened());
    Ok((
        parameters.reshape([PARAMETER_COUNT, MODEL_HORIZONS])?,
        trust.reshape([PARAMETER_COUNT, H])?,
    ))
}

/// T canonical frames (T, 22, 4).
fn take_poses(quats: &Bound<'_, PyAny>) -> PyResult<Vec<Rotations>> {
    let frames = quats.len().unwrap_or(0);
    poses(quats, &[frames, JOINT_COUNT, 4])
}

/// Canonical frames of this shape; raises if a rotation is far from unit length.
fn poses(quats: &Bound<'_, PyAny>, shape: &[usize]) -> PyResult<Vec<Rotations>> {
    let sizes: Vec<_> = shape.iter().copied().map(Some).collect();
    let values = shaped(quats, "canonical rotations", &sizes)?;
    about_unit(&values, "canonical rotations")?;
    let joints: Vec<[f64; 4]> = values.as_chunks().0.iter().map(|q| q.map(f64::from)).collect();
    Ok(joints.as_chunks().0.to_vec())
}

/// The model's parameters for a frame.
fn model(params: Option<&Bound<'_, PyAny>>) -> PyResult<Option<ModelRows>> {
    let Some(params) = params else {
        return Ok(None);
    };
    let rows = parameter_rows(params)?;
    finite(rows.as_flattened(), "params")?;
    Ok(Some(rows))
}

/// The model's parameters for each of `frames` frames.
fn rows(params: &Bound<'_, PyAny>, frames: usize) -> PyResult<Vec<ModelRows>> {
    let values = shaped(
        params,
        "params",
        &[Some(frames), Some(PARAMETER_COUNT), Some(MODEL_HORIZONS)],
    )?;
    Ok(values.as_chunks().0.as_chunks().0.to_vec())
}
