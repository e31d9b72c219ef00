//! Model output for a frame, passed from the step to the memory, the desk and the sinks without copies in
//! Python.

use std::array::from_fn;
use std::sync::Arc;

use anticip_controls::{BIN_COUNT, EVENT_COUNT, HORIZONS_MS, ModelOutput, PARAMETER_COUNT, SCALAR_COUNT};
use anticip_memory::ModelRows;
use anticip_model::{Controls, HAZARD_COUNT};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use crate::errors::{Kind, one_line, raise};
use crate::motion::convert::shaped;

const _: () = assert!(BIN_COUNT * EVENT_COUNT == HAZARD_COUNT);

/// Model output for the newest frame. Each array getter returns a new copy.
#[pyclass(name = "StepResult", module = "pyanticip._core", frozen)]
pub(crate) struct PyStepResult {
    pub(crate) params: ModelRows,
    hazards: [f32; HAZARD_COUNT],
    gate: f64,
    scalars: [f32; SCALAR_COUNT],
    hidden: Option<Arc<[f32]>>,
    field: Option<Arc<[[f32; 2]]>>,
    plan: Option<Py<PyAny>>,
}

#[pymethods]
impl PyStepResult {
    #[new]
    #[pyo3(signature = (params, hazards, scalars, gate, hidden = None, field = None, plan = None))]
    fn new(
        params: &Bound<'_, PyAny>,
        hazards: &Bound<'_, PyAny>,
        scalars: &Bound<'_, PyAny>,
        gate: f64,
        hidden: Option<&Bound<'_, PyAny>>,
        field: Option<&Bound<'_, PyAny>>,
        plan: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        plan.map(check_plan).transpose()?;
        let hidden = hidden.map(|value| shaped(value, "hidden", &[None])).transpose()?;
        let field = field
            .map(|value| shaped(value, "field", &[None, Some(2)]))
            .transpose()?;
        Ok(Self {
            params: parameter_rows(params)?,
            hazards: exactly(hazards, "hazards", &[Some(EVENT_COUNT), Some(BIN_COUNT)])?,
            scalars: exactly(scalars, "scalars", &[Some(SCALAR_COUNT)])?,
            gate,
            hidden: hidden.map(Into::into),
            field: field.map(|values| values.as_chunks().0.into()),
            plan: plan.map(|plan| plan.clone().unbind()),
        })
    }

    #[getter]
    pub(crate) fn finite(&self) -> bool {
        let mut all = self.params.as_flattened().iter().chain(&self.hazards);
        self.gate.is_finite() && all.all(|value| value.is_finite())
    }

    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        PyArray1::from_slice(py, self.params.as_flattened()).reshape([PARAMETER_COUNT, HORIZONS_MS.len()])
    }

    #[getter]
    fn hazards<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        PyArray1::from_slice(py, &self.hazards).reshape([EVENT_COUNT, BIN_COUNT])
    }

    #[getter]
    fn scalars<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, &self.scalars)
    }

    #[getter]
    fn gate(&self) -> f64 {
        self.gate
    }

    #[getter]
    fn hidden<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f32>>> {
        self.hidden
            .as_ref()
            .map(|values| PyArray1::from_slice(py, values))
    }

    #[getter]
    fn field<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        let array = |pairs: &Arc<[[f32; 2]]>| {
            PyArray1::from_slice(py, pairs.as_flattened()).reshape([pairs.len(), 2])
        };
        self.field.as_ref().map(array).transpose()
    }

    #[getter]
    fn plan(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.plan.as_ref().map(|plan| plan.clone_ref(py))
    }
}

impl PyStepResult {
    /// From the motion model's output.
    pub(crate) fn of(controls: &Controls) -> Self {
        Self {
            params: table(controls.params),
            hazards: controls.hazards,
            scalars: controls.scalars,
            gate: f64::from(controls.gate),
            hidden: Some(controls.hidden.as_slice().into()),
            field: None,
            plan: None,
        }
    }

    /// A copy with other parameters.
    pub(crate) fn with_rows(&self, py: Python<'_>, params: ModelRows) -> Self {
        Self {
            params,
            hazards: self.hazards,
            scalars: self.scalars,
            gate: self.gate,
            hidden: self.hidden.clone(),
            field: self.field.clone(),
            plan: self.plan(py),
        }
    }

    /// The part that the desk plays.
    pub(crate) fn model_output(&self) -> ModelOutput {
        let hazard = |kind, bin| f64::from(self.hazards[kind * BIN_COUNT + bin]);
        ModelOutput {
            forecast: self.params.map(|row| row.map(f64::from)),
            hazards: from_fn(|kind| from_fn(|bin| hazard(kind, bin))),
            gate: self.gate,
        }
    }
}

/// Raises unless a plan has codes and as many weights.
fn check_plan(plan: &Bound<'_, PyAny>) -> PyResult<()> {
    let list = |name| plan.getattr(name)?.call_method0("tolist");
    let codes = list("codes").and_then(|codes| Ok(codes.extract::<Vec<i32>>()?.len()));
    let weights = list("weights").and_then(|weights| Ok(weights.extract::<Vec<f64>>()?.len()));
    if matches!((codes, weights), (Ok(codes), Ok(weights)) if codes == weights) {
        return Ok(());
    }
    let message = format!(
        "plan: expected arrays codes (K,) of 32-bit integers and weights (K,), got {}",
        one_line(plan)
    );
    Err(raise(Kind::Shape, &message))
}

/// Reads parameters (8, 5).
pub(crate) fn parameter_rows(value: &Bound<'_, PyAny>) -> PyResult<ModelRows> {
    let shape = [Some(PARAMETER_COUNT), Some(HORIZONS_MS.len())];
    exactly(value, "params", &shape).map(table)
}

/// Parameters as rows: each parameter at all horizons.
fn table(values: [f32; PARAMETER_COUNT * HORIZONS_MS.len()]) -> ModelRows {
    let mut rows = ModelRows::default();
    rows.as_flattened_mut().copy_from_slice(&values);
    rows
}

/// Reads an array of a fixed shape.
fn exactly<const N: usize>(
    value: &Bound<'_, PyAny>,
    what: &str,
    shape: &[Option<usize>],
) -> PyResult<[f32; N]> {
    let values = shaped(value, what, shape)?;
    values
        .try_into()
        .map_err(|_| raise(Kind::Shape, &format!("{what}: expected {N} numbers")))
}
