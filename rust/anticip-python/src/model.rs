//! Bindings of `anticip-model`.

use anticip_model::{ModelError, MotionSizes, MotionStream, Tensor, Tensors};
use numpy::{PyArray1, PyArrayDyn, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Kind, raise};
use crate::guarded::Guarded;
use crate::motion::convert::numbers;
use crate::motion::features::{is_row_width, row_widths};
use crate::step_result::PyStepResult;

/// The motion model and the state of one performer's stream.
#[pyclass(name = "MotionStream", module = "pyanticip._core", frozen)]
pub(crate) struct PyMotionStream {
    /// Number of columns of a row that it reads.
    columns: usize,
    pub(crate) inner: Guarded<MotionStream>,
}

#[pymethods]
impl PyMotionStream {
    #[new]
    #[pyo3(signature = (tensors, *, width, heads, layers, past, hidden, stride, taps, units, visible, distance, positive, gated))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        tensors: &Bound<'_, PyDict>,
        width: usize,
        heads: usize,
        layers: [usize; 2],
        past: [usize; 2],
        hidden: usize,
        stride: usize,
        taps: usize,
        units: usize,
        visible: Vec<bool>,
        distance: f64,
        positive: bool,
        gated: bool,
    ) -> PyResult<Self> {
        let mut tensors_read = Tensors::new();
        for (name, array) in tensors {
            let array = numbers(array.cast::<PyArrayDyn<f32>>()?)?;
            let tensor = Tensor {
                shape: array.shape().to_vec(),
                values: array.as_slice()?.to_vec(),
            };
            tensors_read.insert(name.extract()?, tensor);
        }
        let sizes = MotionSizes {
            width,
            heads,
            layers,
            past,
            hidden,
            stride,
            taps,
            units,
            visible,
            distance,
            positive,
            gated,
        };
        match MotionStream::new(&tensors_read, &sizes) {
            Ok(stream) => Ok(Self {
                columns: stream.columns(),
                inner: Guarded::new(stream),
            }),
            Err(error @ ModelError::Shape { .. }) => Err(raise(Kind::Shape, &error.to_string())),
        }
    }

    fn new_stream(&self, py: Python<'_>) -> Self {
        let mut stream = self.inner.with(py, |stream| stream.clone());
        stream.reset();
        Self {
            columns: self.columns,
            inner: Guarded::new(stream),
        }
    }

    fn step(&self, rows: &Bound<'_, PyAny>) -> PyResult<PyStepResult> {
        let py = rows.py();
        let rows = numbers(rows)?;
        let rows = self.checked(&rows)?;
        let controls = self.inner.detached(py, |stream| stream.step_all(&rows).clone());
        Ok(PyStepResult::of(&controls))
    }

    fn imagine(&self, row: &Bound<'_, PyAny>) -> PyResult<PyStepResult> {
        let py = row.py();
        let rows = numbers(row)?;
        let [row] = self.checked(&rows)?[..] else {
            return Err(raise(Kind::Shape, "feature rows must be one to be imagined"));
        };
        let controls = self.inner.detached(py, |stream| stream.imagine(row).clone());
        Ok(PyStepResult::of(&controls))
    }

    fn prewarm(&self, py: Python<'_>) {
        self.inner.detached(py, MotionStream::prewarm);
    }

    fn reset(&self, py: Python<'_>) {
        self.inner.with(py, MotionStream::reset);
    }

    fn snapshot<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_vec(py, self.inner.with(py, |stream| stream.snapshot()))
    }
}

impl PyMotionStream {
    /// Checks feature rows: a width that the model can step, and finite values.
    fn checked<'a>(&self, rows: &'a PyReadonlyArrayDyn<'_, f32>) -> PyResult<Vec<&'a [f32]>> {
        let columns = self.columns;
        match (rows.shape(), rows.as_slice()) {
            (&[count, width], Ok(values)) if count > 0 && is_row_width(width) && width >= columns => {
                if values.iter().all(|v| v.is_finite()) {
                    Ok(values.chunks_exact(width).collect())
                } else {
                    let message = "feature rows must be finite, got NaN or infinity";
                    Err(raise(Kind::Shape, message))
                }
            }
            (shape, _) => {
                let widths = row_widths(columns);
                let message = format!("feature rows must be (n, {widths}) with n >= 1, got {shape:?}");
                Err(raise(Kind::Shape, &message))
            }
        }
    }
}
