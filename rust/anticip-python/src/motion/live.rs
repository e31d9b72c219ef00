//! Bindings of the live front end.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::features::RATE;
use anticip_motion::{FrontConfig, LiveFront, SenderState, Source};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::front_output::PyFrontOutput;
use super::motion_error;
use crate::guarded::Guarded;

/// Datagrams in, feature rows out.
#[pyclass(name = "LiveFront", module = "pyanticip._core", frozen)]
pub(crate) struct PyLiveFront(pub(crate) Guarded<LiveFront>);

#[pymethods]
impl PyLiveFront {
    #[new]
    #[pyo3(signature = (source, *, rate = RATE, window = 256, steady = false, noise = None))]
    fn new(
        source: &str,
        rate: f64,
        window: usize,
        steady: bool,
        noise: Option<[f64; JOINT_COUNT]>,
    ) -> PyResult<Self> {
        let config = FrontConfig {
            rate,
            window,
            steady,
            noise,
        };
        let front = Source::from_name(source).and_then(|s| LiveFront::new(s, config));
        Ok(Self(Guarded::new(front.map_err(motion_error)?)))
    }

    #[pyo3(signature = (datagram, t_arrival_ns, sender = ""))]
    fn feed(
        &self,
        py: Python<'_>,
        datagram: &[u8],
        t_arrival_ns: i64,
        sender: &str,
    ) -> Option<PyFrontOutput> {
        let out = self
            .0
            .with(py, |front| front.feed(datagram, t_arrival_ns, sender).cloned());
        out.map(PyFrontOutput::of)
    }

    fn imagine(&self, py: Python<'_>) -> Option<PyFrontOutput> {
        let out = self.0.with(py, |front| front.extrapolate().cloned());
        out.map(PyFrontOutput::of)
    }

    fn prewarm(&self, py: Python<'_>) {
        self.0.with(py, |front| front.prewarm());
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, count) in self.0.with(py, |front| *front.counters()).named() {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    fn senders(&self, py: Python<'_>) -> Vec<(String, bool, u64, i64)> {
        let to_tuple = |s: SenderState| (s.name, s.is_active, s.frames, s.last_arrival_ns);
        let senders = self.0.with(py, |front| front.senders());
        senders.into_iter().map(to_tuple).collect()
    }

    fn listen_to(&self, py: Python<'_>, sender: Option<&str>) -> bool {
        self.0.with(py, |front| front.listen_to(sender))
    }

    #[getter]
    fn timing(&self, py: Python<'_>) -> (Option<f64>, f64, f64) {
        let timing = self.0.with(py, |front| front.timing());
        (timing.rate, timing.jitter_ms, timing.drift_ppm)
    }

    #[getter]
    fn refusal(&self, py: Python<'_>) -> Option<String> {
        self.0.with(py, |front| front.refusal().map(str::to_owned))
    }

    #[getter]
    fn unplayed_reason(&self, py: Python<'_>) -> Option<&'static str> {
        self.0.with(py, |front| front.unplayed_reason())
    }

    fn reset(&self, py: Python<'_>) {
        self.0.with(py, LiveFront::reset);
    }

    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_slice(py, &self.0.with(py, |front| front.mask()))
    }

    #[getter]
    fn confidence<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, &self.0.with(py, |front| front.confidence()))
    }

    #[getter]
    fn noise<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        let noise = self.0.with(py, |front| front.noise());
        noise.map(|n| PyArray1::from_slice(py, &n))
    }

    #[getter]
    fn has_skeleton(&self, py: Python<'_>) -> bool {
        self.0.with(py, |front| front.has_skeleton())
    }

    #[getter]
    fn skeleton(&self, py: Python<'_>) -> Option<Vec<String>> {
        self.0.with(py, |front| front.skeleton().map(<[String]>::to_vec))
    }
}
