//! Bindings of `anticip-kernels`: arrays are passed without copies.

/// Runs a body with `$number` as f32 if the array has single precision, else as f64.
macro_rules! by_precision {
    ($array:expr, $number:ident, $body:block) => {
        if $crate::kernels::single($array) {
            type $number = f32;
            $body
        } else {
            type $number = f64;
            $body
        }
    };
}

pub(crate) mod field;
pub(crate) mod gru;
pub(crate) mod places;
pub(crate) mod plan;
pub(crate) mod scan;
pub(crate) mod trajectory;

use anticip_kernels::KernelError;
use numpy::{
    Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};

/// Converts a kernel's error to a Python exception.
fn done<T>(result: Result<T, KernelError>) -> PyResult<T> {
    result.map_err(|err| raise(Kind::Shape, &err.to_string()))
}

/// A C-contiguous array of one precision.
fn array<'a, 'py, T: Element>(
    name: &str,
    value: &'a Bound<'py, PyAny>,
) -> PyResult<&'a Bound<'py, PyArrayDyn<T>>> {
    let wrong = || {
        raise(
            Kind::Shape,
            &format!(
                "{name}: expected a C-contiguous array of {}",
                T::get_dtype(value.py())
            ),
        )
    };
    let array = value.cast::<PyArrayDyn<T>>().map_err(|_| wrong())?;
    if array.is_c_contiguous() {
        Ok(array)
    } else {
        Err(wrong())
    }
}

fn reading<'py, T: Element>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    Ok(array::<T>(name, value)?.try_readonly()?)
}

fn writing<'py, T: Element>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<PyReadwriteArrayDyn<'py, T>> {
    Ok(array::<T>(name, value)?.try_readwrite()?)
}

/// Whether an array has single precision rather than double.
fn single(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyArrayDyn<f32>>().is_ok()
}
