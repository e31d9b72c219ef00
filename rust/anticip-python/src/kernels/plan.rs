//! Bindings of plans: drawing them for training, and attending to them.

use anticip_kernels::{OccurringCodes, PlanAhead, PlanDraw, PlanRows};
use numpy::{Element, PyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{done, reading, writing};
use crate::errors::{Kind, raise};
use crate::threads::in_parallel;

#[pyfunction]
pub(crate) fn plan_targets<'py>(
    py: Python<'py>,
    codes: &Bound<'py, PyAny>,
    place: &Bound<'py, PyAny>,
    gone: &Bound<'py, PyAny>,
    whole: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let codes = reading::<i64>("codes", codes)?;
    let (mut place, mut gone) = (writing::<i64>("place", place)?, writing::<bool>("gone", gone)?);
    let mut whole = writing::<bool>("whole", whole)?;
    let (&[_, count], &[_, _, horizon]) = (codes.shape(), place.shape()) else {
        let words = format!(
            "expected codes (rows, N) and place (rows, steps, K), got {:?} and {:?}",
            codes.shape(),
            place.shape()
        );
        return Err(raise(Kind::Shape, &words));
    };
    let ahead = PlanAhead {
        codes: codes.as_slice()?,
        count,
        horizon,
    };
    let (place, gone) = (place.as_slice_mut()?, gone.as_slice_mut()?);
    let whole = whole.as_slice_mut()?;
    let targets = done(py.detach(|| ahead.targets(place, gone, whole)))?;
    Ok(PyArray1::from_vec(py, targets))
}

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "arrays of one draw, given by place")]
pub(crate) fn plan_draw(
    py: Python<'_>,
    comes: &Bound<'_, PyAny>,
    place: &Bound<'_, PyAny>,
    shapes: &Bound<'_, PyAny>,
    log_frequency: &Bound<'_, PyAny>,
    quantiles: &Bound<'_, PyAny>,
    edge: f64,
    seed: u64,
    codes: &Bound<'_, PyAny>,
    found: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (comes, place) = (reading::<i64>("comes", comes)?, reading::<i64>("place", place)?);
    let shapes = reading::<f64>("shapes", shapes)?;
    let log_frequency = reading::<f64>("log_frequency", log_frequency)?;
    let quantiles = reading::<f64>("quantiles", quantiles)?;
    let (mut codes, mut found) = (writing::<i64>("codes", codes)?, writing::<f64>("found", found)?);
    let &[_, slots] = codes.shape() else {
        let words = format!("codes: expected (steps, slots), got {:?}", codes.shape());
        return Err(raise(Kind::Shape, &words));
    };
    let draw = PlanDraw {
        log_frequency: log_frequency.as_slice()?,
        quantiles: quantiles.as_slice()?,
        edge,
    };
    let occurring = OccurringCodes {
        codes: comes.as_slice()?,
        place: place.as_slice()?,
        shapes: shapes.as_slice()?,
    };
    let into = (codes.as_slice_mut()?, found.as_slice_mut()?);
    done(in_parallel(py, || draw.draw(seed, slots, occurring, into)))
}

/// The rows that `codes` (steps, K) select of a table of this shape, for vectors.
fn rows<'a, T: Element>(
    codes: &'a PyReadonlyArrayDyn<'_, i64>,
    table: &[usize],
    vectors: &'a PyReadonlyArrayDyn<'_, T>,
) -> PyResult<PlanRows<'a, T>> {
    let (&[_, rows_per_step], &[_, width]) = (codes.shape(), table) else {
        let words = format!(
            "expected codes (steps, K) and table (codes, width), got {:?} and {table:?}",
            codes.shape()
        );
        return Err(raise(Kind::Shape, &words));
    };
    Ok(PlanRows {
        codes: codes.as_slice()?,
        rows_per_step,
        width,
        vectors: vectors.as_slice()?,
    })
}

#[pyfunction]
pub(crate) fn plan_products(
    py: Python<'_>,
    asked: &Bound<'_, PyAny>,
    table: &Bound<'_, PyAny>,
    codes: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    by_precision!(asked, T, {
        let (asked, table) = (reading::<T>("asked", asked)?, reading::<T>("table", table)?);
        let (codes, mut out) = (reading::<i64>("codes", codes)?, writing::<T>("out", out)?);
        let rows = rows(&codes, table.shape(), &asked)?;
        let (table, out) = (table.as_slice()?, out.as_slice_mut()?);
        done(py.detach(|| rows.products(table, out)))
    })
}

#[pyfunction]
pub(crate) fn plan_spread(
    py: Python<'_>,
    shares: &Bound<'_, PyAny>,
    grad: &Bound<'_, PyAny>,
    codes: &Bound<'_, PyAny>,
    table: &Bound<'_, PyAny>,
) -> PyResult<()> {
    by_precision!(shares, T, {
        let (shares, grad) = (reading::<T>("shares", shares)?, reading::<T>("grad", grad)?);
        let (codes, mut table) = (reading::<i64>("codes", codes)?, writing::<T>("table", table)?);
        let rows = rows(&codes, table.shape(), &grad)?;
        let (shares, table) = (shares.as_slice()?, table.as_slice_mut()?);
        done(py.detach(|| rows.spread(shares, table)))
    })
}
