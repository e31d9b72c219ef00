//! The live front end.

use anticip_motion::{
    FrontConfig, FrontOutput, LiveFront, SenderState, Source, canonical::JOINT_COUNT, features::RATE,
};
use numpy::{PyArray1, PyArray2, PyArray3, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::motion_error;
use super::tempo::told;
use crate::shared::Shared;

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyLiveFront>()?;
    m.add_class::<PyFrontOutput>()
}

/// The grid frames that one datagram completed.
#[pyclass(name = "FrontOutput", module = "pyanticip._core", frozen, get_all)]
pub(super) struct PyFrontOutput {
    /// Feature rows (n, 279) in time order.
    features: Py<PyArray2<f32>>,
    /// True when the first row begins the stream anew.
    reset: bool,
    /// Grid index of the newest row.
    seq: u64,
    /// Source time of the newest row, ns.
    t_source_ns: i64,
    /// The same on the local monotonic clock, ns.
    t_local_ns: i64,
    /// Local time at which the datagram that completes the next grid frame is expected, ns.
    expected_ns: i64,
    /// Local time from which on the next grid frame is late, ns.
    late_ns: i64,
    /// How late a datagram may be, ns.
    patience_ns: i64,
    /// The seven scalars of the newest row, (7,).
    scalars: Py<PyArray1<f64>>,
    /// Canonical rotations of each row, (n, 22, 4).
    poses: Py<PyArray3<f32>>,
    /// Position of the hips in the newest row, (3,) metres.
    root: Py<PyArray1<f32>>,
    /// 0 while the body stands still in the newest row, 1 while it moves.
    activity: f32,
    /// The beat that the body keeps in the newest row: beats a minute, phase, trust.
    tempo: (f64, f64, f64),
    /// Of left hand, right hand, left foot and right foot: speed, height, strength of a stroke; 12 numbers.
    limbs: Vec<f32>,
    /// How many rows fill a gap.
    filled: u32,
    /// False while too much of the scalars' window was not measured.
    valid: bool,
    /// Time spent decoding, resampling and on scalars, ns.
    stages_ns: (i64, i64, i64),
}

impl PyFrontOutput {
    fn new(py: Python<'_>, out: &FrontOutput) -> PyResult<Self> {
        let features = out.rows.as_flattened();
        let width = features.len() / out.rows.len().max(1);
        let features = PyArray1::from_slice(py, features).reshape([out.rows.len(), width])?;
        let poses = PyArray1::from_slice(py, out.poses.as_flattened().as_flattened());
        let poses = poses.reshape([out.poses.len(), JOINT_COUNT, 4])?;
        Ok(Self {
            features: features.unbind(),
            reset: out.reset,
            seq: out.seq,
            t_source_ns: out.t_source_ns,
            t_local_ns: out.t_local_ns,
            expected_ns: out.expected_ns,
            late_ns: out.late_ns,
            patience_ns: out.patience_ns,
            scalars: PyArray1::from_slice(py, &out.scalars).unbind(),
            poses: poses.unbind(),
            root: PyArray1::from_slice(py, &out.root).unbind(),
            activity: out.activity,
            tempo: told(out.tempo),
            limbs: out
                .limbs
                .iter()
                .flat_map(|limb| [limb.speed, limb.height, limb.stroke])
                .collect(),
            filled: out.filled,
            valid: out.valid,
            stages_ns: (out.stages.decode, out.stages.resample, out.stages.scalars),
        })
    }
}

/// Bytes in, feature rows out.
#[pyclass(name = "LiveFront", module = "pyanticip._core", frozen)]
pub(super) struct PyLiveFront(Shared<LiveFront>);

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
    ) -> PyResult<Option<PyFrontOutput>> {
        let out = self
            .0
            .with(py, |front| front.feed(datagram, t_arrival_ns, sender).cloned());
        out.map(|out| PyFrontOutput::new(py, &out)).transpose()
    }

    /// The grid frame after the newest as a body that goes on moving would have it; nothing of the stream changes.
    fn imagine(&self, py: Python<'_>) -> PyResult<Option<PyFrontOutput>> {
        let out = self.0.with(py, |front| front.imagine().cloned());
        out.map(|out| PyFrontOutput::new(py, &out)).transpose()
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
