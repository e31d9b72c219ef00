//! Bindings of the histogram scan.

use anticip_kernels::{Dims, Lanes, MOVES, Scan};
use numpy::{Element, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{done, reading, writing};
use crate::errors::{Kind, raise};
use crate::threads::in_parallel;

/// Inputs of a scan, borrowed from Python.
pub(super) struct Inputs<'py, T: Element> {
    dims: Dims,
    moves: PyReadonlyArrayDyn<'py, T>,
    start: PyReadonlyArrayDyn<'py, T>,
    gamma: Option<PyReadonlyArrayDyn<'py, T>>,
    jumps: Option<PyReadonlyArrayDyn<'py, T>>,
}

impl<'py, T: Element + Lanes> Inputs<'py, T> {
    pub(super) fn take(
        moves: &Bound<'py, PyAny>,
        start: &Bound<'py, PyAny>,
        gamma: Option<&Bound<'py, PyAny>>,
        jumps: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let moves = reading("moves", moves)?;
        let start = reading("start", start)?;
        let jumps = jumps.map(|j| reading("jumps", j)).transpose()?;
        let wrong =
            |what: &str, given: &[usize]| raise(Kind::Shape, &format!("expected {what}, got {given:?}"));
        let &[batch, cursors, steps, MOVES] = moves.shape() else {
            return Err(wrong("moves (batch, cursors, steps, 5)", moves.shape()));
        };
        let &[_, _, places] = start.shape() else {
            return Err(wrong("start (batch, cursors, places)", start.shape()));
        };
        let jumping = match jumps.as_ref().map(|j| j.shape()) {
            None => 0,
            Some(&[_, jumping, _, _]) => jumping,
            Some(given) => return Err(wrong("jumps (batch, jumping, steps, places)", given)),
        };
        Ok(Self {
            dims: Dims {
                batch,
                cursors,
                steps,
                places,
                jumping,
            },
            moves,
            start,
            gamma: gamma.map(|g| reading("gamma", g)).transpose()?,
            jumps,
        })
    }

    pub(super) fn scan(&self) -> PyResult<Scan<'_, T>> {
        Ok(Scan {
            dims: self.dims,
            moves: self.moves.as_slice()?,
            start: self.start.as_slice()?,
            gamma: self.gamma.as_ref().map(|g| g.as_slice()).transpose()?,
            jumps: self.jumps.as_ref().map(|j| j.as_slice()).transpose()?,
        })
    }
}

#[pyfunction]
#[pyo3(signature = (moves, start, gamma, jumps, out))]
pub(crate) fn prism_scan(
    py: Python<'_>,
    moves: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
    gamma: Option<&Bound<'_, PyAny>>,
    jumps: Option<&Bound<'_, PyAny>>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    by_precision!(moves, T, {
        let inputs = Inputs::<T>::take(moves, start, gamma, jumps)?;
        let scan = inputs.scan()?;
        let mut out = writing::<T>("out", out)?;
        let values = out.as_slice_mut()?;
        done(in_parallel(py, || scan.forward(values)))
    })
}
