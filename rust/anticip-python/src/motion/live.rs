//! The live front end.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::features::RATE;
use anticip_motion::{FrontConfig, LiveFront, SenderState, Source};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::front_output::PyFrontOutput;
use super::motion_error;
use crate::shared::Shared;

/// Bytes in, feature rows out.
#[pyclass(name = "LiveFront", module = "pyanticip._core", frozen)]
pub(crate) struct PyLiveFront(pub(crate) Shared<LiveFront>);

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
        Ok(Self(Shared::new(front.map_err(|e| motion_error(&e))?)))
    }

    /// Takes one datagram of `sender`; `None` where it completes no frame of the grid, or another sender plays.
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

    /// The grid frame after the newest as a body that goes on moving would have it; nothing of the stream changes.
    fn imagine(&self, py: Python<'_>) -> Option<PyFrontOutput> {
        let out = self.0.with(py, |front| front.imagine().cloned());
        out.map(PyFrontOutput::of)
    }

    /// Brings into the caches what the next frame is likely to need; nothing changes.
    fn prewarm(&self, py: Python<'_>) {
        self.0.with(py, |front| front.prewarm());
    }

    /// Everything counted since the start, by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, count) in self.0.with(py, |front| *front.counters()).named() {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    /// Everybody heard of, the player first: (name, plays, good frames, arrival of the last datagram in ns).
    fn senders(&self, py: Python<'_>) -> Vec<(String, bool, u64, i64)> {
        let told = |s: SenderState| (s.name, s.plays, s.frames, s.last_ns);
        let senders = self.0.with(py, |front| front.senders());
        senders.into_iter().map(told).collect()
    }

    /// Lets only this sender play (a name, or the host in it), `None`: whoever comes; True where it was heard of.
    fn listen_to(&self, py: Python<'_>, sender: Option<&str>) -> bool {
        self.0.with(py, |front| front.listen_to(sender))
    }

    /// Measured of the player's stream: frames a second (`None` at first), spread of the delays in ms, drift in ppm.
    #[getter]
    fn timing(&self, py: Python<'_>) -> (Option<f64>, f64, f64) {
        let timing = self.0.with(py, |front| front.timing());
        (timing.rate, timing.jitter_ms, timing.drift_ppm)
    }

    /// Why the player's body cannot be played, or `None`.
    #[getter]
    fn refusal(&self, py: Python<'_>) -> Option<String> {
        self.0.with(py, |front| front.refusal().map(str::to_owned))
    }

    /// Why something of the player's frames is not played, or `None`.
    #[getter]
    fn left_out(&self, py: Python<'_>) -> Option<&'static str> {
        self.0.with(py, |front| front.left_out())
    }

    /// Forgets the stream, the skeleton and who plays; the counters go on.
    fn reset(&self, py: Python<'_>) {
        self.0.with(py, LiveFront::reset);
    }

    /// Which canonical joints the features have, (22,) bool.
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_slice(py, &self.0.with(py, |front| front.mask()))
    }

    /// How sure each canonical joint of the newest frame is, (22,), 0 to 1.
    #[getter]
    fn confidence<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, &self.0.with(py, |front| front.confidence()))
    }

    /// The jitter of each canonical joint as learned so far, (22,) radians; `None` without a noise gate.
    #[getter]
    fn noise<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        let noise = self.0.with(py, |front| front.noise());
        noise.map(|n| PyArray1::from_slice(py, &n))
    }

    /// The source's joint names, or `None` before they are known.
    #[getter]
    fn skeleton(&self, py: Python<'_>) -> Option<Vec<String>> {
        self.0.with(py, |front| front.skeleton().map(<[String]>::to_vec))
    }
}
