//! The live model's step, but for its graphs.

use anticip_motion::model::{
    ArraySpec, HAZARD_COUNT, PARAM_COUNT, SCALAR_COUNT, StepSizes, StepState, Tensor, Tensors,
};
use numpy::{
    PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArray1,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice, PyTuple};

use super::convert::floats;
use super::features::{row_width, row_widths};
use super::motion_error;
use crate::errors::{Kind, raise};

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyStepState>()
}

/// The state of one performer's stream, and what a step computes outside its graphs.
#[pyclass(name = "StepState", module = "pyanticip._core")]
struct PyStepState {
    inner: StepState,
    memory: Py<PyArray1<f32>>,
    /// What the step graph reads and writes, by the names it has there.
    #[pyo3(get)]
    fast: Py<PyDict>,
    /// What the slow graph reads and writes.
    #[pyo3(get)]
    slow: Py<PyDict>,
    /// What the gates and heads read beside the graphs.
    #[pyo3(get)]
    edge: Py<PyDict>,
}

impl PyStepState {
    fn borrow<'py>(&self, py: Python<'py>) -> PyResult<PyReadwriteArray1<'py, f32>> {
        Ok(self.memory.bind(py).try_readwrite()?)
    }
}

#[pymethods]
impl PyStepState {
    #[new]
    #[pyo3(signature = (tensors, *, width, heads, layers, past, stride, taps, units, visible, distance, positive, gated))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        tensors: &Bound<'_, PyDict>,
        width: usize,
        heads: usize,
        layers: [usize; 2],
        past: [usize; 2],
        stride: usize,
        taps: usize,
        units: usize,
        visible: Vec<bool>,
        distance: f64,
        positive: bool,
        gated: bool,
    ) -> PyResult<Self> {
        let mut read = Tensors::new();
        for (name, array) in tensors {
            let array: PyReadonlyArrayDyn<'_, f32> = array.cast::<PyArrayDyn<f32>>()?.try_readonly()?;
            let tensor = Tensor {
                shape: array.shape().to_vec(),
                values: array.as_array().iter().copied().collect(),
            };
            read.insert(name.extract()?, tensor);
        }
        let sizes = StepSizes {
            width,
            heads,
            layers,
            past,
            stride,
            taps,
            units,
        };
        let inner = StepState::new(&read, sizes, &visible, distance, positive, gated)
            .map_err(|e| motion_error(&e))?;
        let memory = PyArray1::zeros(py, inner.memory_len(), false);
        Ok(Self {
            fast: views(&memory, &inner.fast_arrays())?,
            slow: views(&memory, &inner.slow_arrays())?,
            edge: views(&memory, &inner.edge_arrays())?,
            memory: memory.unbind(),
            inner,
        })
    }

    /// Begins a new stream.
    fn reset(&mut self, py: Python<'_>) -> PyResult<()> {
        let mut memory = self.borrow(py)?;
        self.inner.reset(memory.as_slice_mut()?);
        Ok(())
    }

    /// Writes all that the graphs read, with row `index` as the newest frame; whether it closes a pool. With index 0
    /// all rows are checked first.
    fn begin(&mut self, rows: &Bound<'_, PyAny>, index: usize) -> PyResult<bool> {
        let py = rows.py();
        let rows = floats(rows)?;
        let (shape, values) = (rows.shape(), rows.as_slice());
        let columns = self.inner.columns();
        let row = match (shape, values) {
            (&[count, width], Ok(values)) if index < count && row_width(width) && width >= columns => {
                if index == 0 && !values.iter().all(|v| v.is_finite()) {
                    return Err(raise(
                        Kind::Shape,
                        "feature rows must be finite, got NaN or infinity",
                    ));
                }
                &values[index * width..][..columns]
            }
            _ => {
                let message = format!(
                    "feature rows must be (n, {}) with n >= 1, got {shape:?}",
                    row_widths(columns)
                );
                return Err(raise(Kind::Shape, &message));
            }
        };
        let mut memory = self.borrow(py)?;
        Ok(self.inner.begin(memory.as_slice_mut()?, row))
    }

    /// `begin` with the last row once more; the stream's state stays as it is.
    fn look(&mut self, py: Python<'_>) -> PyResult<bool> {
        let mut memory = self.borrow(py)?;
        Ok(self.inner.look(memory.as_slice_mut()?))
    }

    /// Stores what the slow graph said.
    fn close_pool(&mut self, py: Python<'_>) -> PyResult<()> {
        let mut memory = self.borrow(py)?;
        self.inner.close_pool(memory.as_slice_mut()?);
        Ok(())
    }

    /// Says what holds and stores what the step graph said; the commitment gate.
    fn finish(&mut self, py: Python<'_>) -> PyResult<f32> {
        let mut memory = self.borrow(py)?;
        let memory = memory.as_slice_mut()?;
        self.inner.finish(memory);
        Ok(memory[self.inner.said().start + PARAM_COUNT + HAZARD_COUNT + SCALAR_COUNT])
    }

    /// Says what `finish` says, where `due` after `close_pool`; the stream's state stays as it is.
    fn rehearse(&mut self, py: Python<'_>, due: bool) -> PyResult<f32> {
        let mut memory = self.borrow(py)?;
        let memory = memory.as_slice_mut()?;
        self.inner.rehearse(memory, due);
        Ok(memory[self.inner.said().start + PARAM_COUNT + HAZARD_COUNT + SCALAR_COUNT])
    }

    /// Copies of what the last step said: parameters (8, 5), hazards (2, 25), scalars (7,), hidden state (width,).
    fn said<'py>(&self, py: Python<'py>) -> PyResult<Said<'py>> {
        let memory = self.memory.bind(py).try_readonly()?;
        let said = &memory.as_slice()?[self.inner.said()];
        let (params, rest) = said.split_at(PARAM_COUNT);
        let (hazards, rest) = rest.split_at(HAZARD_COUNT);
        let (scalars, rest) = rest.split_at(SCALAR_COUNT);
        Ok((
            PyArray1::from_slice(py, params).reshape([8, 5])?,
            PyArray1::from_slice(py, hazards).reshape([2, 25])?,
            PyArray1::from_slice(py, scalars),
            PyArray1::from_slice(py, &rest[1..]),
        ))
    }

    /// A copy of everything that the next step depends on.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let memory = self.memory.bind(py).try_readonly()?;
        Ok(PyArray1::from_vec(py, self.inner.snapshot(memory.as_slice()?)))
    }
}

type Said<'py> = (
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f32>>,
    Bound<'py, PyArray1<f32>>,
);

/// The arrays as views of the memory, by name.
fn views(memory: &Bound<'_, PyArray1<f32>>, arrays: &[ArraySpec]) -> PyResult<Py<PyDict>> {
    let py = memory.py();
    let dict = PyDict::new(py);
    for array in arrays {
        let (start, end) = (array.place.start as isize, array.place.end as isize);
        let view = memory.as_any().get_item(PySlice::new(py, start, end, 1))?;
        let shape = PyTuple::new(py, &array.shape)?;
        dict.set_item(&array.name, view.call_method1("reshape", (shape,))?)?;
    }
    Ok(dict.unbind())
}
