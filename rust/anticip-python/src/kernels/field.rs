//! Bindings of the control field.

use anticip_kernels::{Field, FieldGradients, Gated, Heads, Real};
use numpy::{Element, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{done, reading, writing};
use crate::errors::{Kind, raise};
use crate::threads::in_parallel;

fn first<T: Element + Copy>(name: &str, array: &PyReadonlyArrayDyn<'_, T>) -> PyResult<T> {
    let value = array.as_slice()?.first().copied();
    value.ok_or_else(|| raise(Kind::Shape, &format!("{name}: expected one value, got none")))
}

/// The parameters of a field, borrowed from Python.
struct Parameters<'py, T: Element> {
    bias: PyReadonlyArrayDyn<'py, T>,
    last: PyReadonlyArrayDyn<'py, T>,
    end: T,
    raw: T,
}

impl<'py, T: Element + Real> Parameters<'py, T> {
    fn take([bias, last, end, raw]: [&Bound<'py, PyAny>; 4]) -> PyResult<Self> {
        Ok(Self {
            bias: reading("bias", bias)?,
            last: reading("last", last)?,
            end: first("end", &reading("end", end)?)?,
            raw: first("raw", &reading("raw", raw)?)?,
        })
    }

    /// The field for a result of shape (6, B, L).
    fn field(&self, out: &[usize], fibres: usize, decay: f64, bend: f64) -> PyResult<Field<'_, T>> {
        let &[_, rows, steps] = out else {
            let words = format!("out: expected (6, rows, steps), got {out:?}");
            return Err(raise(Kind::Shape, &words));
        };
        Ok(Field {
            rows,
            steps,
            fibres,
            decay,
            bend,
            bias: self.bias.as_slice()?,
            last: self.last.as_slice()?,
            end: self.end,
            raw: self.raw,
        })
    }
}

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "arrays of one field, given by place")]
pub(crate) fn field_forward(
    py: Python<'_>,
    seen: &Bound<'_, PyAny>,
    fibres: usize,
    bias: &Bound<'_, PyAny>,
    last: &Bound<'_, PyAny>,
    end: &Bound<'_, PyAny>,
    raw: &Bound<'_, PyAny>,
    decay: f64,
    bend: f64,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    by_precision!(seen, T, {
        let parameters = Parameters::<T>::take([bias, last, end, raw])?;
        let seen = reading::<T>("seen", seen)?;
        let mut out = writing::<T>("out", out)?;
        let shape = out.shape().to_vec();
        let field = parameters.field(&shape, fibres, decay, bend)?;
        let (seen, out) = (seen.as_slice()?, out.as_slice_mut()?);
        done(py.detach(|| field.forward(seen, out)))
    })
}

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "arrays of one field, given by place")]
pub(crate) fn field_backward(
    py: Python<'_>,
    seen: &Bound<'_, PyAny>,
    fibres: usize,
    bias: &Bound<'_, PyAny>,
    last: &Bound<'_, PyAny>,
    end: &Bound<'_, PyAny>,
    raw: &Bound<'_, PyAny>,
    decay: f64,
    bend: f64,
    out: &Bound<'_, PyAny>,
    grads: [Option<Bound<'_, PyAny>>; 5],
    into: [Bound<'_, PyAny>; 5],
) -> PyResult<()> {
    by_precision!(seen, T, {
        let parameters = Parameters::<T>::take([bias, last, end, raw])?;
        let (seen, out) = (reading::<T>("seen", seen)?, reading::<T>("out", out)?);
        let field = parameters.field(out.shape(), fibres, decay, bend)?;
        let mut held = Vec::with_capacity(grads.len());
        for grad in &grads {
            held.push(grad.as_ref().map(|g| reading::<T>("gradient", g)).transpose()?);
        }
        let mut given = [None; 5];
        for (given, held) in given.iter_mut().zip(&held) {
            *given = held.as_ref().map(|h| h.as_slice()).transpose()?;
        }
        let [d_seen, d_bias, d_last, d_end, d_raw] = &into;
        let mut d_seen = writing::<T>("d_seen", d_seen)?;
        let mut d_bias = writing::<T>("d_bias", d_bias)?;
        let mut d_last = writing::<T>("d_last", d_last)?;
        let mut d_end = writing::<T>("d_end", d_end)?;
        let mut d_raw = writing::<T>("d_raw", d_raw)?;
        let into = FieldGradients {
            seen: d_seen.as_slice_mut()?,
            bias: d_bias.as_slice_mut()?,
            last: d_last.as_slice_mut()?,
            end: d_end.as_slice_mut()?,
            raw: d_raw.as_slice_mut()?,
        };
        let (seen, out) = (seen.as_slice()?, out.as_slice()?);
        done(py.detach(|| field.backward(seen, out, given, into)))
    })
}

/// An array (B, L, H, d) of an attention: its flat numbers in memory order, and its strides.
type Laid<'py> = (Bound<'py, PyAny>, [usize; 3]);

#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "arrays of one attention, given by place"
)]
pub(crate) fn field_gates(
    py: Python<'_>,
    heads: usize,
    width: usize,
    scale: f64,
    tensors: [Laid<'_>; 7],
    gates: &Bound<'_, PyAny>,
    parallel: bool,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    by_precision!(gates, T, {
        let gates = reading::<T>("gates", gates)?;
        let &[rows, steps] = gates.shape() else {
            let words = format!("gates: expected (rows, steps), got {:?}", gates.shape());
            return Err(raise(Kind::Shape, &words));
        };
        let mut held = Vec::with_capacity(tensors.len());
        for (data, _) in &tensors {
            held.push(reading::<T>("tensor", data)?);
        }
        let mut laid = tensors
            .each_ref()
            .map(|&(_, strides)| Heads { data: &[], strides });
        for (laid, data) in laid.iter_mut().zip(&held) {
            laid.data = data.as_slice()?;
        }
        let [queries, keys, values, mixed, grad, value_gradient, log_sum_exp] = laid;
        let gated = Gated {
            rows,
            steps,
            heads,
            width,
            scale: T::of(scale),
            queries,
            keys,
            values,
            mixed,
            grad,
            value_gradient,
            log_sum_exp,
            gates: gates.as_slice()?,
        };
        let mut out = writing::<T>("out", out)?;
        let out = out.as_slice_mut()?;
        done(in_parallel(py, || gated.gate_gradient(parallel, out)))
    })
}
