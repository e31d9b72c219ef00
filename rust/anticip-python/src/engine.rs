//! One performer's pipeline from datagram to control values: one call from Python per datagram.
//!
//! Its parts are also accessible from Python, each behind its own lock. They run with the GIL released,
//! except for parts written in Python: another front end, another model's backend, a mapping.

pub(crate) mod frame_result;
mod model;

use std::mem::{replace, take};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anticip_controls::{Out, Trust};
use anticip_memory::{Memory, MixedForecast, Place, Rotations};
use anticip_motion::{CanonicalPose, FRAME, FrameGrid, FrontOutput, GridPosition, Playout};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::controls::desk::{PyDesk, check_mapped, mapped_error};
use crate::errors::{Kind, raise};
use crate::guarded::Guarded;
use crate::memory::following::PyFollower;
use crate::memory::stream::PyMemory;
use crate::model::PyMotionStream;
use crate::motion::front_output::PyFrontOutput;
use crate::motion::live::PyLiveFront;
use crate::step_result::PyStepResult;
use frame_result::{PyFrameResult, Remembered};
use model::Model;

/// The front end, which completes frames.
enum Front {
    Core(Py<PyLiveFront>),
    Other(Py<PyAny>),
}

/// The memory, and the follower of the rehearsed takes; `numbers` are the memory's numbers of the follower's takes.
struct MemoryParts {
    memory: Py<PyMemory>,
    follower: Option<Py<PyFollower>>,
    numbers: Arc<[usize]>,
}

/// Parts that may be replaced while playing.
#[derive(Default)]
struct Parts {
    model: Option<Model>,
    memory: Option<MemoryParts>,
    mapping: Option<Py<PyAny>>,
}

/// A performer's pipeline, and the grid slots of its frames.
#[pyclass(name = "Engine", module = "pyanticip._core", frozen)]
pub(crate) struct PyEngine {
    front: Front,
    desk: Py<PyDesk>,
    warm: Py<PyDesk>,
    grid: Guarded<FrameGrid>,
    /// Frames of datagrams that newer ones followed at once, joined, and the number of these datagrams.
    held: Guarded<Option<(FrontOutput, u32)>>,
    parts: Mutex<Parts>,
}

#[pymethods]
impl PyEngine {
    #[new]
    #[pyo3(signature = (front, desk, warm, now_ns, buffer = None))]
    fn new(
        front: Bound<'_, PyAny>,
        desk: Py<PyDesk>,
        warm: Py<PyDesk>,
        now_ns: i64,
        buffer: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let front = match front.cast_into::<PyLiveFront>() {
            Ok(front) => Front::Core(front.unbind()),
            Err(other) => Front::Other(other.into_inner().unbind()),
        };
        let playout = buffer.map(|buffer| playout(&buffer)).transpose()?;
        Ok(Self {
            front,
            desk,
            warm,
            grid: Guarded::new(FrameGrid::new(now_ns, playout)),
            held: Guarded::new(None),
            parts: Mutex::default(),
        })
    }

    fn set_model(&self, backend: Option<Py<PyAny>>, core: Option<Py<PyMotionStream>>) {
        let model = backend.map(|backend| Model::new(backend, core));
        self.change(|parts| replace(&mut parts.model, model));
    }

    #[pyo3(signature = (memory, follower = None, numbers = Vec::new()))]
    fn set_memory(
        &self,
        memory: Option<Py<PyMemory>>,
        follower: Option<Py<PyFollower>>,
        numbers: Vec<usize>,
    ) {
        let memory = memory.map(|memory| MemoryParts {
            memory,
            follower,
            numbers: numbers.into(),
        });
        self.change(|parts| replace(&mut parts.memory, memory));
    }

    fn set_mapping(&self, mapping: Option<Py<PyAny>>) {
        self.change(|parts| replace(&mut parts.mapping, mapping));
    }

    /// Reports references to the garbage collector; must not block on the lock.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Front::Other(front) = &self.front {
            visit.call(front)?;
        }
        let Ok(parts) = self.parts.try_lock() else {
            return Ok(());
        };
        if let Some(model) = &parts.model {
            model.traverse(&visit)?;
        }
        visit.call(&parts.mapping)
    }

    fn __clear__(&self) {
        self.change(take);
    }

    #[pyo3(signature = (datagram, t_arrival_ns, sender, now_ns, stepping, stale, fill = None))]
    #[expect(clippy::too_many_arguments, reason = "all of a datagram in one call")]
    fn feed(
        &self,
        py: Python<'_>,
        datagram: &Bound<'_, PyAny>,
        t_arrival_ns: i64,
        sender: &str,
        now_ns: i64,
        stepping: bool,
        stale: bool,
        fill: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<PyFrameResult>> {
        let completed = self.complete_frame(py, datagram, t_arrival_ns, sender)?;
        let (out, skipped) = match (self.held.with(py, Option::take), completed) {
            (None, None) => return Ok(None),
            (None, Some(out)) => (out, 0),
            // The newest of the held frames plays.
            (Some((held, count)), None) => (Py::new(py, PyFrontOutput::of(held))?, count - 1),
            (Some((held, count)), Some(newest)) => {
                let merged = held.merge(newest.get().out.clone());
                (Py::new(py, PyFrontOutput::of(merged))?, count)
            }
        };
        if let Some(fill) = fill {
            let turns = self
                .grid
                .with(py, |grid| grid.skipped_slots_ns(&out.get().out, now_ns));
            if !turns.is_empty() {
                fill.call1((turns,))?;
            }
        }
        let Parts {
            model,
            memory,
            mapping,
        } = self.parts(py);
        let started = Instant::now();
        let row = out.get();
        let reset = row.out.reset;
        let (step, failure) = match model.filter(|_| stepping) {
            None => (None, None),
            Some(model) => match model.step(py, row, reset || stale)? {
                Ok(step) => (Some(step), None),
                Err(failure) => (None, Some(failure)),
            },
        };
        let stepped = Instant::now();
        let (remembered, slot) = py.detach(|| {
            let remembered = memory
                .as_ref()
                .map(|memory| memory.push_frames(&row.out, step.as_ref()));
            let trust = remembered.as_ref().and_then(Remembered::trust);
            (remembered, self.place(&row.out, trust, now_ns))
        });
        let mixed = remembered
            .as_ref()
            .and_then(|remembered| remembered.mixed.as_ref());
        let mixed = mixed
            .zip(step.as_ref())
            .map(|(forecast, step)| step.with_rows(py, forecast.parameters));
        let step = mixed.or(step);
        let step = step.map(|step| Py::new(py, step)).transpose()?;
        let mapped = match mapping {
            None => None,
            Some(mapping) => mapping
                .call1(py, (&out, &step, slot.since_completed_s, slot.number))?
                .extract::<Option<Vec<f64>>>(py)?,
        };
        let output = self.play(py, &row.out, step.as_ref(), mapped.as_deref(), slot)?;
        let finished = Instant::now();
        let nanoseconds = |from: Instant, to: Instant| (to - from).as_nanos() as i64;
        Ok(Some(PyFrameResult {
            front_output: out,
            skipped,
            step,
            failure,
            remembered,
            slot,
            output,
            stages_ns: (nanoseconds(started, stepped), nanoseconds(stepped, finished)),
        }))
    }

    fn hold(
        &self,
        py: Python<'_>,
        datagram: &Bound<'_, PyAny>,
        t_arrival_ns: i64,
        sender: &str,
        now_ns: i64,
    ) -> PyResult<()> {
        let Some(out) = self.complete_frame(py, datagram, t_arrival_ns, sender)? else {
            return Ok(());
        };
        let out = out.get().out.clone();
        self.grid.with(py, |grid| grid.postpone(&out, now_ns));
        self.held.with(py, |held| {
            *held = Some(match held.take() {
                None => (out, 1),
                Some((before, count)) => (before.merge(out), count + 1),
            });
        });
        Ok(())
    }

    fn learn(&self, py: Python<'_>) {
        let memory = self.parts(py).memory;
        py.detach(|| {
            self.desk.get().0.locked(anticip_controls::Mixer::learn);
            if let Some(memory) = memory {
                memory.memory.get().0.locked(Memory::learn);
            }
        });
    }

    #[pyo3(signature = (out, step, mapped = None))]
    fn prewarm(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyFrontOutput>,
        step: Option<&Bound<'_, PyStepResult>>,
        mapped: Option<Vec<f64>>,
    ) -> PyResult<()> {
        let memory = self.parts(py).memory;
        if let Front::Other(front) = &self.front {
            front.call_method0(py, "prewarm")?;
        }
        let (out, step) = (&out.get().out, step.map(|step| step.get()));
        py.detach(|| {
            if let (Some(memory), Some(step), Some(pose)) = (memory, step, out.poses.last()) {
                let memory = &memory.memory.get().0;
                memory.locked(|memory| memory.prewarm(&rotations(pose), Some(&step.params)));
            }
            // Last, so that the model's weights do not displace the little data that it reads.
            if let Front::Core(front) = &self.front {
                front.get().0.locked(|front| front.prewarm());
            }
            self.grid.locked(|grid| grid.clone().take(out, 0));
            let model_output = step.map(PyStepResult::model_output);
            let activity = f64::from(out.activity);
            // Passed as guessed, so that nothing is learned from it; learning comes after a frame is sent.
            self.warm.get().0.locked(|mixer| {
                let mapped = check_mapped(mixer, mapped.as_deref()).unwrap_or(None);
                mixer.play(model_output.as_ref(), &out.scalars, mapped, activity, FRAME, true)
            });
        });
        Ok(())
    }

    #[getter]
    fn newest_slot(&self, py: Python<'_>) -> i64 {
        self.grid.with(py, |grid| grid.newest())
    }

    #[getter]
    fn missing_frames(&self, py: Python<'_>) -> i64 {
        self.grid.with(py, |grid| grid.frames_since_completed())
    }

    #[getter]
    fn due_ns(&self, py: Python<'_>) -> i64 {
        self.grid.with(py, |grid| grid.due_ns)
    }

    #[setter]
    fn set_due_ns(&self, py: Python<'_>, due_ns: i64) {
        self.grid.with(py, |grid| grid.due_ns = due_ns);
    }

    #[getter]
    fn buffer_ms(&self, py: Python<'_>) -> Option<f64> {
        self.grid
            .with(py, |grid| grid.playout.as_ref().map(Playout::buffer_ms))
    }

    fn skip(&self, py: Python<'_>, silent: bool) {
        self.grid.with(py, |grid| grid.skip(silent));
    }

    fn imagine(&self, py: Python<'_>, now_ns: i64) -> PyResult<Option<Py<PyFrontOutput>>> {
        let out = match &self.front {
            Front::Core(front) => {
                let out = front.get().0.with(py, |front| front.extrapolate().cloned());
                out.map(|out| Py::new(py, PyFrontOutput::of(out))).transpose()?
            }
            Front::Other(front) => front.call_method0(py, "imagine")?.extract(py)?,
        };
        Ok(out.filter(|out| {
            self.grid.with(py, |grid| {
                let predicted = &out.get().out;
                let is_newest = grid.is_newest(predicted);
                if is_newest && grid.playout.is_none() {
                    grid.set_deadline(predicted, now_ns);
                }
                is_newest
            })
        }))
    }
}

/// The playout buffer that `buffer` describes: 0 to 100 ms, or "auto".
fn playout(buffer: &Bound<'_, PyAny>) -> PyResult<Playout> {
    match buffer.extract::<f64>() {
        Ok(ms) if (0.0..=100.0).contains(&ms) => Ok(Playout::new(Some(ms))),
        Err(_) if buffer.extract::<String>().is_ok_and(|word| word == "auto") => Ok(Playout::new(None)),
        _ => Err(raise(Kind::Value, "buffer: expected 0 to 100 ms or auto")),
    }
}

impl PyEngine {
    /// Replaces a part. The old one is dropped after unlocking, because that may run any Python code.
    fn change<T>(&self, act: impl FnOnce(&mut Parts) -> T) {
        let before = act(&mut self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        drop(before);
    }

    /// The current parts, cloned so that nothing is locked while they work.
    fn parts(&self, py: Python<'_>) -> Parts {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        Parts {
            model: parts.model.as_ref().map(|model| model.clone_ref(py)),
            memory: parts.memory.as_ref().map(|memory| memory.clone_ref(py)),
            mapping: parts.mapping.as_ref().map(|mapping| mapping.clone_ref(py)),
        }
    }

    fn complete_frame(
        &self,
        py: Python<'_>,
        datagram: &Bound<'_, PyAny>,
        t_arrival_ns: i64,
        sender: &str,
    ) -> PyResult<Option<Py<PyFrontOutput>>> {
        let front = match &self.front {
            Front::Core(front) => front.get(),
            Front::Other(front) => {
                let out = front.call_method1(py, "feed", (datagram, t_arrival_ns, sender))?;
                return Ok(out.extract(py)?);
            }
        };
        let bytes: &[u8] = datagram.extract()?;
        let out = front
            .0
            .detached(py, |front| front.feed(bytes, t_arrival_ns, sender).cloned());
        out.map(|out| Py::new(py, PyFrontOutput::of(out))).transpose()
    }

    /// Assigns the slot of a frame, and updates trust and lead from it.
    fn place(&self, out: &FrontOutput, trust: Option<Trust>, now_ns: i64) -> GridPosition {
        let slot = self.grid.locked(|grid| grid.take(out, now_ns));
        self.desk.get().0.locked(|mixer| {
            mixer.trust = trust;
            if out.reset {
                mixer.desk.restart();
            }
            let age_ms = slot.release_ns.saturating_sub(out.t_local_ns) as f64 / 1e6;
            mixer.lead.with(|lead| lead.add_age(age_ms));
        });
        slot
    }

    /// The output of a frame; `None` if its slot has passed: the forecast was sent instead, and the frame
    /// only affects later ones.
    fn play(
        &self,
        py: Python<'_>,
        out: &FrontOutput,
        step: Option<&Py<PyStepResult>>,
        mapped: Option<&[f64]>,
        slot: GridPosition,
    ) -> PyResult<Option<Out>> {
        let step = step.map(|step| step.get());
        let played = py.detach(|| {
            let model_output = step.map(PyStepResult::model_output);
            let activity = f64::from(out.activity);
            self.desk.get().0.locked(|mixer| {
                let mapped = check_mapped(mixer, mapped)?;
                let Some(dt) = slot.dt else {
                    if let Some(model_output) = &model_output {
                        mixer.observe(model_output, activity, slot.since_completed_s);
                    }
                    return Ok(None);
                };
                let played = mixer.play(model_output.as_ref(), &out.scalars, mapped, activity, dt, false);
                Ok(Some(played))
            })
        });
        played.map_err(mapped_error)
    }
}

impl MemoryParts {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            memory: self.memory.clone_ref(py),
            follower: self.follower.as_ref().map(|follower| follower.clone_ref(py)),
            numbers: Arc::clone(&self.numbers),
        }
    }

    /// Adds the frames completed by a datagram, and the model's output for the newest.
    fn push_frames(&self, out: &FrontOutput, step: Option<&PyStepResult>) -> Remembered {
        let follower = self.follower.as_ref().map(|follower| &follower.get().0);
        let (places, dues) = follower.map_or_else(Default::default, |follower| {
            follower.locked(|following| following.push_frames(out))
        });
        let place = places.last().copied().flatten();
        let forecast = self.memory.get().0.locked(|memory| {
            if out.reset {
                memory.reset();
            }
            let mut forecast = None;
            for (n, pose) in out.poses.iter().enumerate() {
                // There is no model output for frames that fill a gap.
                let newest = n + 1 == out.poses.len();
                let model = step.filter(|_| newest).map(|step| &step.params);
                let place = places
                    .get(n)
                    .copied()
                    .flatten()
                    .and_then(|place| self.with_memory_take(place));
                forecast = Some(memory.push(&rotations(pose), model, place.as_ref()));
            }
            forecast
        });
        // If the mixture is not finite, the model's own output is used.
        let finite = |one: &MixedForecast| one.parameters.iter().flatten().all(|value| value.is_finite());
        let mixed = forecast.filter(|forecast| step.is_some() && finite(forecast));
        Remembered { mixed, place, dues }
    }

    /// A place with the memory's number of its take.
    fn with_memory_take(&self, place: Place) -> Option<Place> {
        let take = *self.numbers.get(place.take)?;
        Some(Place { take, ..place })
    }
}

fn rotations(pose: &CanonicalPose) -> Rotations {
    pose.map(|joint| joint.map(f64::from))
}
