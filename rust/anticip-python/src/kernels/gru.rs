//! Bindings of the gated recurrent unit.

use anticip_kernels::{Gru, GruGradients, Lanes};
use numpy::{Element, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{done, reading, writing};
use crate::errors::{Kind, raise};
use crate::threads::in_parallel;

/// Inputs of the recurrence, borrowed from Python.
struct Inputs<'py, T: Element> {
    steps: usize,
    start: PyReadonlyArrayDyn<'py, T>,
    weights: PyReadonlyArrayDyn<'py, T>,
    bias: PyReadonlyArrayDyn<'py, T>,
}

impl<'py, T: Element + Lanes> Inputs<'py, T> {
    fn take(
        start: &Bound<'py, PyAny>,
        weights: &Bound<'py, PyAny>,
        bias: &Bound<'py, PyAny>,
        out: &[usize],
    ) -> PyResult<Self> {
        let start = reading("start", start)?;
        let wrong =
            |what: &str, given: &[usize]| raise(Kind::Shape, &format!("expected {what}, got {given:?}"));
        let &[batch, hidden] = start.shape() else {
            return Err(wrong("start (batch, hidden)", start.shape()));
        };
        let steps = match out {
            &[rows, steps, width] if (rows, width) == (batch, hidden) => steps,
            given => return Err(wrong(&format!("hidden states ({batch}, steps, {hidden})"), given)),
        };
        Ok(Self {
            steps,
            start,
            weights: reading("weights", weights)?,
            bias: reading("bias", bias)?,
        })
    }

    fn gru(&self) -> PyResult<Gru<'_, T>> {
        Ok(Gru {
            batch: self.start.shape()[0],
            steps: self.steps,
            hidden: self.start.shape()[1],
            weights: self.weights.as_slice()?,
            bias: self.bias.as_slice()?,
            start: self.start.as_slice()?,
        })
    }
}

#[pyfunction]
#[pyo3(signature = (projected, start, weights, bias, out, gates))]
pub(crate) fn prism_gru(
    py: Python<'_>,
    projected: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
    bias: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    gates: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    by_precision!(projected, T, {
        let projected = reading::<T>("projected", projected)?;
        let mut out = writing::<T>("out", out)?;
        let inputs = Inputs::<T>::take(start, weights, bias, out.shape())?;
        let mut gates = gates.map(|g| writing::<T>("gates", g)).transpose()?;
        let (gru, projected, out) = (inputs.gru()?, projected.as_slice()?, out.as_slice_mut()?);
        let gates = gates.as_mut().map(|g| g.as_slice_mut()).transpose()?;
        done(in_parallel(py, || gru.forward(projected, out, gates)))
    })
}

#[pyfunction]
#[pyo3(signature = (start, weights, bias, out, gates, grad, d_projected, d_recurrent_new, d_start))]
#[expect(
    clippy::too_many_arguments,
    reason = "arrays of one recurrence, given by place"
)]
pub(crate) fn prism_gru_backward(
    py: Python<'_>,
    start: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
    bias: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    gates: &Bound<'_, PyAny>,
    grad: &Bound<'_, PyAny>,
    d_projected: &Bound<'_, PyAny>,
    d_recurrent_new: &Bound<'_, PyAny>,
    d_start: &Bound<'_, PyAny>,
) -> PyResult<()> {
    by_precision!(out, T, {
        let out = reading::<T>("out", out)?;
        let inputs = Inputs::<T>::take(start, weights, bias, out.shape())?;
        let (gates, grad) = (reading::<T>("gates", gates)?, reading::<T>("grad", grad)?);
        let (gru, out, gates, grad) = (
            inputs.gru()?,
            out.as_slice()?,
            gates.as_slice()?,
            grad.as_slice()?,
        );
        let mut d_projected = writing::<T>("d_projected", d_projected)?;
        let mut d_recurrent_new = writing::<T>("d_recurrent_new", d_recurrent_new)?;
        let mut d_start = writing::<T>("d_start", d_start)?;
        let into = GruGradients {
            projected: d_projected.as_slice_mut()?,
            recurrent_new: d_recurrent_new.as_slice_mut()?,
            start: d_start.as_slice_mut()?,
        };
        done(in_parallel(py, || gru.backward(out, gates, grad, into)))
    })
}
