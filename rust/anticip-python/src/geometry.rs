//! Bindings of `anticip-geometry`.

use anticip_geometry::{
    GeometryError, JointLimit, Options, PoseConfig, PoseStream, Stability, Uncertainty, VectorStream,
};
use numpy::{
    PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Kind, one_line, raise};
use crate::guarded::Guarded;
use crate::motion::convert::flat;
use crate::threads::in_parallel;

/// Converts a geometry error to a Python exception.
pub(crate) fn geometry_error(err: GeometryError) -> PyErr {
    let kind = match err {
        GeometryError::Joints { .. } | GeometryError::Dimension { .. } | GeometryError::Length { .. } => {
            Kind::Shape
        }
        _ => Kind::Value,
    };
    raise(kind, &err.to_string())
}

/// An array of either precision, its elements in C order.
enum Reals<'py> {
    Single(PyReadonlyArrayDyn<'py, f32>),
    Double(PyReadonlyArrayDyn<'py, f64>),
}

impl<'py> Reals<'py> {
    /// Contiguous, aligned float arrays as they are, everything else through `numpy.require`.
    fn take(value: &Bound<'py, PyAny>, expected: &str) -> PyResult<Self> {
        // Subclasses are converted, because their values may have another meaning.
        if value.is_exact_instance_of::<PyUntypedArray>()
            && let Some(reals) = Self::direct(value)
        {
            return Ok(reals);
        }
        let py = value.py();
        let numpy = py.import("numpy")?;
        let refuse = |what: &str| raise(Kind::Shape, &format!("expected {expected}, got {what}"));
        // Importing `numpy.ma` for its class takes longer than most calls.
        if value.hasattr("filled")? {
            return Err(refuse("a masked array: fill what is masked with NaN first"));
        }
        let array = numpy
            .call_method1("asarray", (value,))
            .map_err(|err| refuse(&format!("{}: {}", kind_of(value), one_line(err.value(py)))))?;
        let dtype = array.getattr("dtype")?;
        let kind: String = dtype.getattr("kind")?.extract()?;
        let target = match (kind.as_str(), dtype.getattr("itemsize")?.extract::<usize>()?) {
            ("f", 2 | 4) => "float32",
            ("f" | "i" | "u", _) => "float64",
            _ => return Err(refuse(&format!("an array of {dtype}"))),
        };
        let array = numpy.call_method1("require", (array, target, "CA"))?;
        Self::direct(&array).ok_or_else(|| refuse(&kind_of(value)))
    }

    fn direct(value: &Bound<'py, PyAny>) -> Option<Self> {
        if let Ok(a) = value.cast::<PyArrayDyn<f32>>() {
            let a = a.try_readonly().ok()?;
            return flat(&a).is_some().then_some(Self::Single(a));
        }
        let a = value.cast::<PyArrayDyn<f64>>().ok()?.try_readonly().ok()?;
        flat(&a).is_some().then_some(Self::Double(a))
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::Single(a) => a.shape(),
            Self::Double(a) => a.shape(),
        }
    }
}

/// Evaluates an expression with the numbers of `$reals` in either precision as `$values`.
macro_rules! with_reals {
    ($reals:expr, $values:ident => $result:expr) => {
        match $reals {
            Reals::Single(array) => {
                let $values = array.as_slice()?;
                $result
            }
            Reals::Double(array) => {
                let $values = array.as_slice()?;
                $result
            }
        }
    };
}

fn kind_of(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "something else".into(), |n| n.to_string())
}

/// A shape as Python prints it.
fn shape_text(shape: &[usize]) -> String {
    let parts: Vec<String> = shape.iter().map(usize::to_string).collect();
    if parts.len() == 1 {
        format!("({},)", parts[0])
    } else {
        format!("({})", parts.join(", "))
    }
}

fn wrong_shape(what: &str, expected: &str, given: &[usize]) -> PyErr {
    raise(
        Kind::Shape,
        &format!("expected {what} of shape {expected}, got {}", shape_text(given)),
    )
}

/// Quaternions of a flat slice whose length is a multiple of four.
fn quats<T>(flat: &[T]) -> &[[T; 4]] {
    flat.as_chunks().0
}

/// The options of both spaces, as Python names them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyOptions {
    window: Option<usize>,
    k: usize,
    stride: usize,
    horizon: usize,
    theiler: usize,
    eps_v: f64,
    r0: Option<f64>,
    m: usize,
    commitment: [f64; 3],
    ema: Option<f64>,
    uncertainty: String,
    stability: String,
}

/// Options by name; Python code checks their types, so errors here only name a missing or invalid one.
fn read_options(given: &Bound<'_, PyDict>) -> PyResult<Options> {
    let wrong = |err: PyErr| {
        let message = err.to_string().replace('\n', " ");
        raise(Kind::Value, &format!("options: {message}"))
    };
    given.extract::<PyOptions>().map_err(wrong)?.options()
}

impl PyOptions {
    fn options(self) -> PyResult<Options> {
        let refuse = |name: &str, expected: &str, given: &str| {
            raise(
                Kind::Value,
                &format!("option {name}: expected {expected}, got {given:?}"),
            )
        };
        let uncertainty = match self.uncertainty.as_str() {
            "directional" => Uncertainty::Directional,
            "vendi" => Uncertainty::Vendi,
            other => return Err(refuse("uncertainty", "\"directional\" or \"vendi\"", other)),
        };
        let stability = match self.stability.as_str() {
            "speed" => Stability::Speed,
            "max_jerk" => Stability::MaxJerk,
            other => return Err(refuse("stability", "\"speed\" or \"max_jerk\"", other)),
        };
        Ok(Options {
            window: self.window,
            k: self.k,
            stride: self.stride,
            horizon: self.horizon,
            theiler: self.theiler,
            eps_v: self.eps_v,
            r0: self.r0,
            persistence: self.m,
            commitment: self.commitment,
            ema: self.ema,
            uncertainty,
            stability,
        })
    }
}

/// Rows of `limits` are axis x, y, z, swing, twist, speed.
fn pose_config(
    options: &Bound<'_, PyDict>,
    weights: Option<Vec<f64>>,
    limits: Option<Vec<[f64; 6]>>,
) -> PyResult<PoseConfig> {
    let limit = |[x, y, z, swing, twist, speed]: [f64; 6]| JointLimit {
        axis: [x, y, z],
        swing,
        twist,
        speed,
    };
    let limits = limits.map(|l| l.into_iter().map(limit).collect());
    Ok(PoseConfig {
        options: read_options(options)?,
        weights,
        limits,
    })
}

/// Defines a class for a stream of frames; `$shape` is the shape of one frame, `$parts` splits a flat slice
/// into frames.
macro_rules! stream_class {
    (
        $(#[$doc:meta])* $name:literal, $class:ident($stream:ident),
        $given:ident: $one:literal $one_array:literal, $many:literal $many_array:literal,
        $size:ident => $shape:expr, $parts:expr, $($new:tt)*
    ) => {
        $(#[$doc])*
        #[pyclass(name = $name, module = "pyanticip._core", frozen)]
        pub(crate) struct $class {
            size: usize,
            inner: Guarded<$stream>,
        }

        #[pymethods]
        impl $class {
            #[new]
            $($new)*

            fn push<'py>(&self, $given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
                let py = $given.py();
                let reals = Reals::take($given, $one_array)?;
                let $size = self.size;
                let shape = $shape;
                if reals.shape() != shape {
                    return Err(wrong_shape($one, &shape_text(&shape), reals.shape()));
                }
                let scalars = with_reals!(&reals, values => {
                    let frame = $parts(values);
                    self.inner.with(py, |stream| stream.push(frame))
                });
                Ok(PyArray1::from_slice(py, &scalars.map_err(geometry_error)?))
            }

            fn push_many<'py>(&self, $given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f64>>> {
                let py = $given.py();
                let reals = Reals::take($given, $many_array)?;
                let $size = self.size;
                let shape = $shape;
                if reals.shape().get(1..) != Some(&shape[..]) {
                    let shape = shape.map(|size| size.to_string()).join(", ");
                    return Err(wrong_shape($many, &format!("(T, {shape})"), reals.shape()));
                }
                let inner = &self.inner;
                with_reals!(&reals, values => pushed(py, inner, $parts(values), $size, $stream::push))
            }

            fn reset(&self, py: Python<'_>) {
                self.inner.with(py, $stream::reset);
            }

            #[getter]
            fn valid(&self, py: Python<'_>) -> bool {
                self.inner.with(py, |stream| stream.valid())
            }

            #[getter]
            fn missing(&self, py: Python<'_>) -> u64 {
                self.inner.with(py, |stream| stream.missing())
            }

            #[getter]
            fn frames(&self, py: Python<'_>) -> usize {
                self.inner.with(py, |stream| stream.frames())
            }
        }
    };
}

stream_class! {
    /// A stream of poses.
    "PoseStream", PyPoseStream(PoseStream),
    quats: "a pose" "an array of quaternions", "poses" "an array of quaternions",
    joints => [joints, 4], self::quats,
    #[pyo3(signature = (joints, options, weights=None, limits=None))]
    fn new(
        joints: usize,
        options: &Bound<'_, PyDict>,
        weights: Option<Vec<f64>>,
        limits: Option<Vec<[f64; 6]>>,
    ) -> PyResult<Self> {
        let config = pose_config(options, weights, limits)?;
        let stream = PoseStream::new(joints, config).map_err(geometry_error)?;
        Ok(Self { size: joints, inner: Guarded::new(stream) })
    }
}

stream_class! {
    /// A stream of vectors.
    "VectorStream", PyVectorStream(VectorStream),
    x: "a vector" "a vector", "vectors" "an array of vectors",
    dim => [dim], std::convert::identity,
    fn new(dim: usize, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let stream = VectorStream::new(dim, read_options(options)?).map_err(geometry_error)?;
        Ok(Self { size: dim, inner: Guarded::new(stream) })
    }
}

/// The scalars (T, 7) of frames of `parts` values each, pushed one after another.
fn pushed<'py, S: Send, V: Sync>(
    py: Python<'py>,
    stream: &Guarded<S>,
    values: &[V],
    parts: usize,
    push: impl Fn(&mut S, &[V]) -> Result<[f64; 7], GeometryError> + Send + Sync,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let rows: Result<Vec<_>, _> = stream.detached(py, |stream| {
        values
            .chunks_exact(parts)
            .map(|frame| push(stream, frame))
            .collect()
    });
    let rows = rows.map_err(geometry_error)?;
    PyArray1::from_slice(py, rows.as_flattened()).reshape([rows.len(), 7])
}

/// Scalars of pose sequences; the last three axes of the shape are frames, joints and 4.
#[pyfunction]
#[pyo3(signature = (quats, options, paper=false, weights=None, limits=None))]
pub(crate) fn pose_scalars<'py>(
    quats: &Bound<'py, PyAny>,
    options: &Bound<'_, PyDict>,
    paper: bool,
    weights: Option<Vec<f64>>,
    limits: Option<Vec<[f64; 6]>>,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let py = quats.py();
    let reals = Reals::take(quats, "an array of quaternions")?;
    let shape = reals.shape();
    let [lead @ .., joints, 4] = shape else {
        return Err(wrong_shape("poses", "(..., T, J, 4)", shape));
    };
    let Some(&frames) = lead.last().filter(|_| *joints > 0) else {
        return Err(wrong_shape("poses", "(..., T, J, 4)", shape));
    };
    let config = pose_config(options, weights, limits)?;
    let result = with_reals!(&reals, values => {
        let quats = self::quats(values);
        in_parallel(py, || anticip_geometry::pose_scalars(quats, frames, *joints, &config, paper))
    });
    to_array(py, &result.map_err(geometry_error)?, lead)
}

/// Scalars of vector sequences; the last two axes of the shape are frames and dimension.
#[pyfunction]
#[pyo3(signature = (x, options, paper=false))]
pub(crate) fn vector_scalars<'py>(
    x: &Bound<'py, PyAny>,
    options: &Bound<'_, PyDict>,
    paper: bool,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let py = x.py();
    let reals = Reals::take(x, "an array of vectors")?;
    let shape = reals.shape();
    let [lead @ .., dim] = shape else {
        return Err(wrong_shape("vectors", "(..., T, d)", shape));
    };
    let Some(&frames) = lead.last().filter(|_| *dim > 0) else {
        return Err(wrong_shape("vectors", "(..., T, d)", shape));
    };
    let options = read_options(options)?;
    let result = with_reals!(&reals, x => {
        in_parallel(py, || anticip_geometry::vector_scalars(x, frames, *dim, &options, paper))
    });
    to_array(py, &result.map_err(geometry_error)?, lead)
}

/// An array of shape `lead + (7,)`.
fn to_array<'py>(
    py: Python<'py>,
    scalars: &[[f64; 7]],
    lead: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let shape: Vec<usize> = lead.iter().copied().chain([7]).collect();
    PyArray1::from_slice(py, scalars.as_flattened()).reshape(shape)
}
