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

/// Doubles of this shape, converted from any numbers; `None` allows any length.
pub(crate) fn doubles(value: &Bound<'_, PyAny>, what: &str, shape: &[Option<usize>]) -> PyResult<Doubles> {
    let array = of_shape::<f64>(value, what, shape)?;
    Ok(Doubles {
        shape: array.shape().to_vec(),
        values: array.as_slice()?.to_vec(),
    })
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

/// Numbers of any shape in C order: the array itself if it is that already, otherwise a converted copy.
pub(crate) fn numbers<'py, T: Element>(value: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    if let Ok(array) = value.cast::<PyArrayDyn<T>>() {
        let array = array.try_readonly()?;
        if flat(&array).is_some() {
            return Ok(array);
        }
    }
    let py = value.py();
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("require", (value, T::get_dtype(py), "CA"))?;
    Ok(array.cast::<PyArrayDyn<T>>()?.try_readonly()?)
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
    Ok(of_shape(value, what, shape)?.as_slice()?.to_vec())
}

fn of_shape<'py, T: Element>(
    value: &Bound<'py, PyAny>,
    what: &str,
    shape: &[Option<usize>],
) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    let wrong = |got: &str| {
        let size = |n: &Option<usize>| n.map_or_else(|| "n".into(), |n| n.to_string());
        let expected = shape.iter().map(size).collect::<Vec<String>>().join(", ");
        let message = format!("{what}: expected numbers of shape ({expected}), got {got}");
        raise(Kind::Shape, &message)
    };
    let array = numbers(value).map_err(|_| wrong("something else"))?;
    let got = array.shape();
    if got.len() != shape.len() || got.iter().zip(shape).any(|(g, s)| s.is_some_and(|s| s != *g)) {
        return Err(wrong(&format!("{got:?}")));
    }
    Ok(array)
}
