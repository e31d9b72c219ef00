//! Bindings of the shaping of one output.

use anticip_controls::{Shape, Shaper, Shared};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};

/// From the attributes of a `pyanticip.controls.Shape`.
fn read(shape: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let steps: Option<u32> = shape.getattr("steps")?.extract()?;
    if steps.is_some_and(|steps| steps < 2) {
        return Err(raise(Kind::Value, "steps: expected at least 2"));
    }
    Ok(Shape {
        span: shape.getattr("span")?.extract()?,
        invert: shape.getattr("invert")?.extract()?,
        threshold: shape.getattr("threshold")?.extract()?,
        hysteresis: shape.getattr("hysteresis")?.extract()?,
        toggle: shape.getattr("toggle")?.extract()?,
        steps,
    })
}

/// Shapes one output, value by value; shared with a desk that uses it.
#[pyclass(name = "Shaper", module = "pyanticip._core", frozen)]
pub(crate) struct PyShaper {
    pub(super) inner: Shared<Shaper>,
}

#[pymethods]
impl PyShaper {
    #[new]
    #[pyo3(signature = (shape))]
    fn new(#[pyo3(from_py_with = read)] shape: Shape) -> Self {
        let inner = Shared::new(Shaper::new(shape));
        Self { inner }
    }

    /// The shaped value.
    fn __call__(&self, value: f64) -> f64 {
        self.inner.with(|shaper| shaper.shape(value))
    }

    /// Replaces the shape from the next value on, in a desk without a jump; an open gate stays open.
    fn reshape(&self, #[pyo3(from_py_with = read)] shape: Shape) {
        self.inner.with(|shaper| shaper.reshape(shape));
    }

    #[getter]
    fn open(&self) -> bool {
        self.inner.with(|shaper| shaper.open)
    }

    #[setter]
    fn set_open(&self, open: bool) {
        self.inner.with(|shaper| shaper.open = open);
    }

    #[getter]
    fn toggled(&self) -> bool {
        self.inner.with(|shaper| shaper.toggled)
    }

    #[setter]
    fn set_toggled(&self, toggled: bool) {
        self.inner.with(|shaper| shaper.toggled = toggled);
    }

    #[getter]
    fn seen(&self) -> Option<(f64, f64)> {
        self.inner.with(|shaper| shaper.seen)
    }

    #[setter]
    fn set_seen(&self, seen: Option<(f64, f64)>) {
        self.inner.with(|shaper| shaper.seen = seen);
    }
}
