//! Bindings of the histogram scan with its read-out.

use anticip_kernels::{Gradients, Lanes, PlaceGradients, Places};
use numpy::{Element, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::scan::Inputs;
use super::{done, reading, writing};
use crate::errors::{Kind, raise};
use crate::threads::in_parallel;

/// The scan and the table of its places, borrowed from Python.
fn read_out<'a, T: Element + Lanes>(
    inputs: &'a Inputs<'_, T>,
    table: &'a PyReadonlyArrayDyn<'_, T>,
) -> PyResult<Places<'a, T>> {
    let &[_, width] = table.shape() else {
        return Err(raise(
            Kind::Shape,
            &format!("expected table (places, width), got {:?}", table.shape()),
        ));
    };
    Ok(Places {
        scan: inputs.scan()?,
        table: table.as_slice()?,
        width,
    })
}

#[pyfunction]
#[pyo3(signature = (moves, start, gamma, jumps, table, out, last, saved))]
#[expect(clippy::too_many_arguments, reason = "arrays of one scan, given by place")]
pub(crate) fn prism_places(
    py: Python<'_>,
    moves: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
    gamma: Option<&Bound<'_, PyAny>>,
    jumps: Option<&Bound<'_, PyAny>>,
    table: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    last: &Bound<'_, PyAny>,
    saved: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    by_precision!(moves, T, {
        let inputs = Inputs::<T>::take(moves, start, gamma, jumps)?;
        let table = reading::<T>("table", table)?;
        let places = read_out(&inputs, &table)?;
        let (mut out, mut last) = (writing::<T>("out", out)?, writing::<T>("last", last)?);
        let mut saved = saved.map(|s| writing::<T>("saved", s)).transpose()?;
        let (out, last) = (out.as_slice_mut()?, last.as_slice_mut()?);
        let saved = saved.as_mut().map(|s| s.as_slice_mut()).transpose()?;
        done(in_parallel(py, || places.forward(out, last, saved)))
    })
}

#[pyfunction]
#[pyo3(signature = (moves, start, gamma, jumps, table, saved, grad, grad_last, d_moves, d_start, d_gamma, d_jumps))]
#[expect(clippy::too_many_arguments, reason = "arrays of one scan, given by place")]
pub(crate) fn prism_places_backward(
    py: Python<'_>,
    moves: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
    gamma: Option<&Bound<'_, PyAny>>,
    jumps: Option<&Bound<'_, PyAny>>,
    table: &Bound<'_, PyAny>,
    saved: &Bound<'_, PyAny>,
    grad: &Bound<'_, PyAny>,
    grad_last: Option<&Bound<'_, PyAny>>,
    d_moves: &Bound<'_, PyAny>,
    d_start: &Bound<'_, PyAny>,
    d_gamma: Option<&Bound<'_, PyAny>>,
    d_jumps: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    by_precision!(moves, T, {
        let inputs = Inputs::<T>::take(moves, start, gamma, jumps)?;
        let table = reading::<T>("table", table)?;
        let places = read_out(&inputs, &table)?;
        let (saved, grad) = (reading::<T>("saved", saved)?, reading::<T>("grad", grad)?);
        let (saved, grad) = (saved.as_slice()?, grad.as_slice()?);
        let last = grad_last
            .map(|g| reading::<T>("last's gradient", g))
            .transpose()?;
        let last = last.as_ref().map(|g| g.as_slice()).transpose()?;
        let mut d_moves = writing::<T>("d_moves", d_moves)?;
        let mut d_start = writing::<T>("d_start", d_start)?;
        let mut d_gamma = d_gamma.map(|d| writing::<T>("d_gamma", d)).transpose()?;
        let mut d_jumps = d_jumps.map(|d| writing::<T>("d_jumps", d)).transpose()?;
        let gradients = PlaceGradients {
            places: grad,
            last,
            into: Gradients {
                moves: d_moves.as_slice_mut()?,
                start: d_start.as_slice_mut()?,
                gamma: d_gamma.as_mut().map(|d| d.as_slice_mut()).transpose()?,
                jumps: d_jumps.as_mut().map(|d| d.as_slice_mut()).transpose()?,
            },
        };
        done(in_parallel(py, || places.backward(saved, gradients)))
    })
}
