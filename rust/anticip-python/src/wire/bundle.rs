//! Bindings of OSC bundles with a fixed layout.

use anticip_wire::bundle::{Bundle, Place};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Kind, raise};
use crate::guarded::Guarded;

/// A bundle with a fixed layout.
#[pyclass(name = "OscBundle", module = "pyanticip._core", frozen)]
pub(crate) struct PyBundle(Guarded<Bundle>);

#[pymethods]
impl PyBundle {
    #[new]
    fn new(layout: &[u8], count_at: Option<usize>, places: Vec<(usize, usize, usize)>) -> PyResult<Self> {
        let place = |(at, list, index)| Place { at, list, index };
        let places = places.into_iter().map(place).collect();
        Bundle::new(layout.to_vec(), count_at, places)
            .map(|bundle| Self(Guarded::new(bundle)))
            .ok_or_else(|| raise(Kind::Value, "places: expected within the bundle"))
    }

    fn pack<'py>(
        &self,
        py: Python<'py>,
        count: i32,
        lists: Vec<Vec<f64>>,
        tail: Vec<(Vec<u8>, Vec<f64>)>,
    ) -> Bound<'py, PyBytes> {
        let lists: Vec<&[f64]> = lists.iter().map(Vec::as_slice).collect();
        let data = self.0.with(py, |bundle| {
            bundle.write(count, &lists);
            for (head, values) in &tail {
                bundle.add(head, values);
            }
            bundle.bytes().to_vec()
        });
        PyBytes::new(py, &data)
    }
}
