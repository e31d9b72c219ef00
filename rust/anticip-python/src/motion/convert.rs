//! Conversion between NumPy arrays and the motion crate's types.

use anticip_geometry::Quat;
use numpy::ndarray::Dimension;
use numpy::{
    Element, PyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArray, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};

/// An array of doubles of a known shape.
pub(crate) struct Doubles {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

/// Reads any numeric array as doubles and checks its shape; `None` in `shape` allows any length.
pub(crate) fn doubles(value: &Bound<'_, PyAny>, what: &str, shape: &[Option<usize>]) -> PyResult<Doubles> {
    let expected = || {
        let sizes: Vec<String> = shape
            .iter()
            .map(|s| s.map_or_else(|| "T".into(), |n| n.to_string()))
            .collect();
        format!("({})", sizes.join(", "))
    };
    let numpy = value.py().import("numpy")?;
    let array = numpy
        .call_method1("require", (value, "float64", "CA"))
        .map_err(|_| {
            raise(
                Kind::Shape,
                &format!("{what}: expected an array of numbers of shape {}", expected()),
            )
        })?;
    let array: PyReadonlyArrayDyn<'_, f64> = array.cast::<PyArrayDyn<f64>>()?.try_readonly()?;
    let actual = array.shape().to_vec();
    let fits =
        actual.len() == shape.len() && actual.iter().zip(shape).all(|(g, s)| s.is_none_or(|s| s == *g));
    if !fits {
        let message = format!("{what}: expected shape {}, got {actual:?}", expected());
        return Err(raise(Kind::Shape, &message));
    }
    Ok(Doubles {
        values: array.as_slice()?.to_vec(),
        shape: actual,
    })
}

/// Rows of `N` values.
pub(crate) fn rows<const N: usize>(values: &[f64]) -> Vec<[f64; N]> {
    values.as_chunks::<N>().0.to_vec()
}

/// Unit quaternions from rows w, x, y, z. Raises with the position of an invalid rotation.
pub(crate) fn unit(values: &[f64], joints: usize, what: &str) -> PyResult<Vec<Quat>> {
    let (rows, _) = values.as_chunks::<4>();
    let checked = rows.iter().enumerate().map(|(i, row)| {
        Quat::from_array(*row).try_normalize().ok_or_else(|| {
            let (frame, joint) = (i / joints.max(1), i % joints.max(1));
            let message = format!(
                "{what}: expected finite quaternions that are not zero, got {row:?} at frame {frame}, joint {joint}"
            );
            raise(Kind::Value, &message)
        })
    });
    checked.collect()
}

/// Raises unless all values are finite.
pub(crate) fn finite(values: &[f32], what: &str) -> PyResult<()> {
    if values.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    let message = format!("{what} must be finite, got NaN or infinity");
    Err(raise(Kind::Shape, &message))
}

/// Raises if a quaternion is far from unit length: running sums would keep the effect of one such frame.
pub(crate) fn about_unit<T: Copy + Into<f64>>(values: &[T], what: &str) -> PyResult<()> {
    let square = |&value: &T| -> f64 {
        let value: f64 = value.into();
        value * value
    };
    for quat in values.as_chunks::<4>().0 {
        let length = quat.iter().map(square).sum::<f64>().sqrt();
        if !(0.5..=2.0).contains(&length) {
            let message = format!("{what}: expected finite unit quaternions, got one of length {length}");
            return Err(raise(Kind::Shape, &message));
        }
    }
    Ok(())
}

/// The numbers of a C-contiguous array; `as_slice` alone would accept Fortran order too.
pub(crate) fn flat<'a, T: Element, D: Dimension>(array: &'a PyReadonlyArray<'_, T, D>) -> Option<&'a [T]> {
    array.as_slice().ok().filter(|_| array.is_c_contiguous())
}

/// Contiguous floats of any shape: the array itself if it is that already, otherwise a copy.
pub(crate) fn floats<'py>(value: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArrayDyn<'py, f32>> {
    if let Ok(array) = value.cast::<PyArrayDyn<f32>>() {
        let array = array.try_readonly()?;
        if flat(&array).is_some() {
            return Ok(array);
        }
    }
    let numpy = value.py().import("numpy")?;
    let array = numpy.call_method1("require", (value, "float32", "CA"))?;
    Ok(array.cast::<PyArrayDyn<f32>>()?.try_readonly()?)
}

/// An array of one type and dimension; `expected` describes it. Arrays whose strides are not multiples of the
/// item size, such as a field of packed records, are refused.
pub(crate) fn exact<'py, T: Element, D: Dimension>(
    value: &Bound<'py, PyAny>,
    expected: &str,
) -> PyResult<PyReadonlyArray<'py, T, D>> {
    let array = value.cast::<PyArray<T, D>>().ok();
    let array = array.filter(|array| array.is_aligned());
    let array = array.and_then(|array| array.try_readonly().ok());
    array.ok_or_else(|| raise(Kind::Shape, &format!("expected {expected}")))
}

/// Floats of this shape, converted from any numbers; `None` allows any length.
pub(crate) fn shaped(value: &Bound<'_, PyAny>, what: &str, shape: &[Option<usize>]) -> PyResult<Vec<f32>> {
    let wrong = |got: &str| {
        let sizes = shape
            .iter()
            .map(|n| n.map_or_else(|| "n".into(), |n| n.to_string()));
        let sizes: Vec<String> = sizes.collect();
        let expected = sizes.join(", ");
        raise(
            Kind::Shape,
            &format!("{what}: expected numbers of shape ({expected}), got {got}"),
        )
    };
    let array = floats(value).map_err(|_| wrong("something else"))?;
    let got = array.shape();
    if got.len() != shape.len() || got.iter().zip(shape).any(|(g, s)| s.is_some_and(|s| s != *g)) {
        return Err(wrong(&format!("{got:?}")));
    }
    Ok(array.as_slice()?.to_vec())
}
