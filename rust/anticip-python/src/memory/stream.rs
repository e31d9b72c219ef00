//! One performer's memory, and the stream that reads it and adds to it.

use anticip_memory::{
    FOLLOWED, HORIZONS, KEY_SIZE, KEYS_VERSION, MODEL_HORIZONS, MOMENTS_AN_HOUR, Memory, ModelRows, Origin,
    PARAMETER_COUNT, Place, Rotations, Said,
};
use anticip_motion::canonical::JOINT_COUNT;
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::memory_error;
use crate::errors::{Kind, raise};
use crate::motion::convert::{doubles, floats};

const H: usize = HORIZONS.len();

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("KEY_SIZE", KEY_SIZE)?;
    m.add("KEYS_VERSION", KEYS_VERSION)?;
    m.add_class::<PyMemory>()
}

/// Mixed parameters (8, 5) and trust (8, 3).
type Frame<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray2<f32>>);
/// The same of T frames.
type Frames<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray3<f32>>);
/// What followed (8, 3), its spread (8,), and the logarithm of the mean squared distance.
type Recalled<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray1<f32>>, f32);
/// Names of takes, keys (N, 182), what followed (N, 24), takes and frames (N, 2).
type Moments<'py> = (
    Vec<String>,
    Bound<'py, PyArray2<i16>>,
    Bound<'py, PyArray2<u16>>,
    Bound<'py, PyArray2<u32>>,
);

// The signature below states the default as a number.
const _: () = assert!(MOMENTS_AN_HOUR == 90_000);

/// What a performer did before, and what the model says mixed with it.
#[pyclass(name = "Memory", module = "pyanticip._core")]
struct PyMemory {
    inner: Memory,
}

#[pymethods]
impl PyMemory {
    #[new]
    #[pyo3(signature = (capacity = 90_000))]
    fn new(capacity: usize) -> PyResult<Self> {
        let inner = Memory::new(capacity).map_err(|e| memory_error(&e))?;
        Ok(Self { inner })
    }

    /// Takes the next frame (22, 4), what the model says in it (8, 5), and where it is in what was rehearsed: mixed
    /// parameters (8, 5), trust (8, 3).
    #[pyo3(signature = (quats, params = None, place = None))]
    fn push<'py>(
        &mut self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        place: Option<(usize, f64, f64, f64)>,
    ) -> PyResult<Frame<'py>> {
        let pose = poses(quats, &[JOINT_COUNT, 4])?;
        let params = model(params)?;
        let place = place.map(|(take, seconds, tempo, trust)| Place {
            take,
            seconds,
            tempo,
            trust,
        });
        let said = py.detach(|| self.inner.push(&pose[0], params.as_ref(), place.as_ref()));
        frame(py, &said)
    }

    /// T frames (T, 22, 4), rows (T, 8, 5) and places (T, 4), as single pushes; rows and places that are not a number
    /// were not said.
    #[pyo3(signature = (quats, params = None, places = None))]
    fn push_many<'py>(
        &mut self,
        py: Python<'py>,
        quats: &Bound<'py, PyAny>,
        params: Option<&Bound<'py, PyAny>>,
        places: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Frames<'py>> {
        let frames = many(quats)?;
        let count = frames.len();
        let rows = params.map(|given| rows(given, count)).transpose()?;
        let places = places
            .map(|given| doubles(given, "places", &[Some(count), Some(4)]))
            .transpose()?;
        let (mixed, trust) = py.detach(|| {
            let (mut mixed, mut trust) = (Vec::new(), Vec::new());
            for (t, pose) in frames.iter().enumerate() {
                let row = rows.as_ref().map(|rows| &rows[t]);
                let said = row.filter(|row| row.iter().flatten().all(|value| value.is_finite()));
                let place = places.as_ref().and_then(|rows| place(&rows.values[4 * t..][..4]));
                let said = self.inner.push(pose, said, place.as_ref());
                mixed.extend_from_slice(said.parameters.as_flattened());
                trust.extend_from_slice(said.trust.as_flattened());
            }
            (mixed, trust)
        });
        Ok((
            PyArray1::from_vec(py, mixed).reshape([count, PARAMETER_COUNT, MODEL_HORIZONS])?,
            PyArray1::from_vec(py, trust).reshape([count, PARAMETER_COUNT, H])?,
        ))
    }

    /// Learns from the newest frame, which the next call does otherwise.
    fn learn(&mut self, py: Python<'_>) {
        py.detach(|| self.inner.learn());
    }

    /// Runs what the next push will run, and leaves no trace.
    fn prewarm(&self, py: Python<'_>, quats: &Bound<'_, PyAny>, params: &Bound<'_, PyAny>) -> PyResult<()> {
        let pose = poses(quats, &[JOINT_COUNT, 4])?;
        let params = model(Some(params))?;
        let said = py.detach(|| self.inner.prewarm(&pose[0], params.as_ref()));
        frame(py, &said).map(drop)
    }

    /// What would hold if the model said this of the newest frame, or of a body carried on from it.
    fn imagine<'py>(&self, py: Python<'py>, params: &Bound<'py, PyAny>) -> PyResult<Frame<'py>> {
        let params = model(Some(params))?;
        frame(py, &self.inner.imagine(params.as_ref()))
    }

    /// What followed the moments nearest to the newest frame, or None.
    #[getter]
    fn recalled<'py>(&self, py: Python<'py>) -> PyResult<Option<Recalled<'py>>> {
        let Some(found) = self.inner.recalled() else {
            return Ok(None);
        };
        let followed =
            PyArray1::from_slice(py, found.followed.as_flattened()).reshape([PARAMETER_COUNT, H])?;
        Ok(Some((
            followed,
            PyArray1::from_slice(py, &found.spread),
            found.distance,
        )))
    }

    /// Take and frame of the moment nearest to the newest frame, or None.
    #[getter]
    fn nearest(&self) -> Option<(u32, u32)> {
        let origin = self.inner.recalled()?.nearest;
        Some((origin.take, origin.frame))
    }

    /// The take ends here: the next frame begins another.
    fn reset(&mut self, py: Python<'_>) {
        py.detach(|| self.inner.reset());
    }

    /// Remembers a whole take (T, 22, 4) for good, under a name.
    fn rehearse(&mut self, py: Python<'_>, name: &str, quats: &Bound<'_, PyAny>) -> PyResult<()> {
        let take = many(quats)?;
        py.detach(|| self.inner.rehearse(name, &take))
            .map_err(|e| memory_error(&e))
    }

    /// Forgets what was learned from the stream, and what was rehearsed as well where it is said.
    #[pyo3(signature = (*, rehearsed = false))]
    fn clear(&mut self, rehearsed: bool) {
        self.inner.clear(rehearsed);
    }

    #[getter]
    fn learning(&self) -> bool {
        self.inner.learning()
    }

    #[setter]
    fn set_learning(&mut self, learning: bool) {
        self.inner.set_learning(learning);
    }

    #[getter]
    fn takes(&self) -> Vec<String> {
        self.inner.names().to_vec()
    }

    #[getter]
    fn capacity(&mut self) -> usize {
        self.inner.store().capacity()
    }

    #[getter]
    fn rehearsed(&mut self) -> usize {
        self.inner.store().rehearsed()
    }

    #[getter]
    fn forgotten(&mut self) -> u64 {
        self.inner.store().forgotten()
    }

    fn __len__(&mut self) -> usize {
        self.inner.store().len()
    }

    /// What is remembered, in the order in which it was learned: `count` moments from the `first` on.
    #[pyo3(signature = (first = 0, count = None))]
    fn moments<'py>(
        &mut self,
        py: Python<'py>,
        first: usize,
        count: Option<usize>,
    ) -> PyResult<Moments<'py>> {
        let mut names = self.inner.names().to_vec();
        let store = self.inner.store();
        let wanted = first..first.saturating_add(count.unwrap_or(store.len()));
        let (mut keys, mut followed, mut origins) = (Vec::new(), Vec::new(), Vec::new());
        let mut live = None;
        for (place, slot) in store.in_order().enumerate() {
            let origin = store.origin(slot);
            if slot >= store.rehearsed() && live != Some(origin.take) {
                live = Some(origin.take);
                names.push(format!("live {}", names.len() + 1));
            }
            if !wanted.contains(&place) {
                continue;
            }
            keys.extend_from_slice(store.key(slot));
            followed.extend_from_slice(store.followed(slot));
            let take = if live.is_some() {
                names.len() as u32 - 1
            } else {
                origin.take
            };
            origins.extend([take, origin.frame]);
        }
        let moments = origins.len() / 2;
        Ok((
            names,
            PyArray1::from_vec(py, keys).reshape([moments, KEY_SIZE])?,
            PyArray1::from_vec(py, followed).reshape([moments, FOLLOWED])?,
            PyArray1::from_vec(py, origins).reshape([moments, 2])?,
        ))
    }

    /// Fills the memory, in place of all that it has, with what `moments` gave.
    fn restore(
        &mut self,
        takes: Vec<String>,
        keys: PyReadonlyArray2<'_, i16>,
        followed: PyReadonlyArray2<'_, u16>,
        origins: PyReadonlyArray2<'_, u32>,
    ) -> PyResult<()> {
        let places: Vec<Origin> = contiguous(origins.as_slice(), "origins")?
            .as_chunks()
            .0
            .iter()
            .map(|&[take, frame]| Origin { take, frame })
            .collect();
        let keys = contiguous(keys.as_slice(), "keys")?;
        let followed = contiguous(followed.as_slice(), "followed")?;
        self.inner
            .restore(takes, keys, followed, &places)
            .map_err(|e| memory_error(&e))
    }
}

/// A row of what the follower says: take (-1: nowhere), seconds, tempo, trust.
fn place(row: &[f64]) -> Option<Place> {
    let &[take, seconds, tempo, trust] = row else {
        return None;
    };
    let known = take >= 0.0 && row.iter().all(|value| value.is_finite());
    known.then_some(Place {
        take: take as usize,
        seconds,
        tempo,
        trust,
    })
}

fn contiguous<T, E>(values: Result<T, E>, what: &str) -> PyResult<T> {
    values.map_err(|_| raise(Kind::Shape, &format!("{what}: expected a contiguous array")))
}

fn frame<'py>(py: Python<'py>, said: &Said) -> PyResult<Frame<'py>> {
    let parameters = PyArray1::from_slice(py, said.parameters.as_flattened());
    let trust = PyArray1::from_slice(py, said.trust.as_flattened());
    Ok((
        parameters.reshape([PARAMETER_COUNT, MODEL_HORIZONS])?,
        trust.reshape([PARAMETER_COUNT, H])?,
    ))
}

/// T canonical frames (T, 22, 4).
fn many(quats: &Bound<'_, PyAny>) -> PyResult<Vec<Rotations>> {
    let frames = quats.len().unwrap_or(0);
    poses(quats, &[frames, JOINT_COUNT, 4])
}

/// Canonical frames of the shape given, refused where a number is not finite.
fn poses(quats: &Bound<'_, PyAny>, shape: &[usize]) -> PyResult<Vec<Rotations>> {
    let values = finite(quats, "canonical rotations", shape)?;
    let joints: Vec<[f64; 4]> = values.as_chunks().0.iter().map(|q| q.map(f64::from)).collect();
    Ok(joints.as_chunks().0.to_vec())
}

/// What the model says in a frame.
fn model(params: Option<&Bound<'_, PyAny>>) -> PyResult<Option<ModelRows>> {
    let Some(params) = params else {
        return Ok(None);
    };
    let values = finite(params, "params", &[PARAMETER_COUNT, MODEL_HORIZONS])?;
    let mut rows = ModelRows::default();
    rows.as_flattened_mut().copy_from_slice(&values);
    Ok(Some(rows))
}

/// What the model says in each of so many frames.
fn rows(params: &Bound<'_, PyAny>, frames: usize) -> PyResult<Vec<ModelRows>> {
    let values = shaped(params, "params", &[frames, PARAMETER_COUNT, MODEL_HORIZONS])?;
    Ok(values.as_chunks().0.as_chunks().0.to_vec())
}

fn shaped(given: &Bound<'_, PyAny>, what: &str, shape: &[usize]) -> PyResult<Vec<f32>> {
    let wrong = |given: String| {
        raise(
            Kind::Shape,
            &format!("{what}: expected numbers {shape:?}, got {given}"),
        )
    };
    let array = floats(given).map_err(|_| wrong("something else".into()))?;
    if array.shape() != shape {
        return Err(wrong(format!("{:?}", array.shape())));
    }
    Ok(array.as_slice()?.to_vec())
}

fn finite(given: &Bound<'_, PyAny>, what: &str, shape: &[usize]) -> PyResult<Vec<f32>> {
    let values = shaped(given, what, shape)?;
    if values.iter().all(|value| value.is_finite()) {
        return Ok(values);
    }
    Err(raise(
        Kind::Shape,
        &format!("{what} must be finite, given NaN or infinity"),
    ))
}
