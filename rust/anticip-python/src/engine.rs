//! One performer's way from a datagram to control values: one call of Python's a datagram.
//!
//! The parts are those that Python has as well, each behind its own lock; they work while the interpreter is
//! let go, but for what Python brings itself: another front end, another model's backend, a taught mapping.

pub(crate) mod frame_result;
mod model;

use std::mem::{replace, take};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anticip_controls::{Out, Trust};
use anticip_memory::{Memory, MixedForecast, Place, Rotations};
use anticip_motion::{CanonicalPose, FRAME, FrameGrid, FrontOutput, GridPosition, Playout};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::controls::desk::{PyDesk, checked, unfit};
use crate::errors::{Kind, raise};
use crate::memory::following::PyFollower;
use crate::memory::stream::PyMemory;
use crate::model::PyMotionStream;
use crate::motion::front_output::PyFrontOutput;
use crate::motion::live::PyLiveFront;
use crate::shared::Shared;
use crate::step_result::PyStepResult;
use frame_result::{PyFrameResult, Remembered};
use model::Model;

/// What completes frames.
enum Front {
    Core(Py<PyLiveFront>),
    Other(Py<PyAny>),
}

/// What was done before, and where in what was rehearsed a frame is; takes by the number that the memory has
/// for them.
struct Remembering {
    memory: Py<PyMemory>,
    follower: Option<Py<PyFollower>>,
    numbers: Vec<usize>,
}

/// Parts that are changed while playing.
#[derive(Default)]
struct Parts {
    model: Option<Model>,
    memory: Option<Remembering>,
    mapping: Option<Py<PyAny>>,
}

/// The way of a performer's frames, and their slots.
#[pyclass(name = "Engine", module = "pyanticip._core", frozen)]
pub(crate) struct PyEngine {
    front: Front,
    desk: Py<PyDesk>,
    warm: Py<PyDesk>,
    grid: Shared<FrameGrid>,
    /// What datagrams completed of which newer ones were there already, and how many that were.
    held: Shared<Option<(FrontOutput, u32)>>,
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
        buffer: Option<Buffer>,
    ) -> PyResult<Self> {
        let front = match front.cast_into::<PyLiveFront>() {
            Ok(front) => Front::Core(front.unbind()),
            Err(other) => Front::Other(other.into_inner().unbind()),
        };
        let playout = buffer.map(Buffer::playout).transpose()?;
        Ok(Self {
            front,
            desk,
            warm,
            grid: Shared::new(FrameGrid::new(now_ns, playout)),
            held: Shared::new(None),
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
        let memory = memory.map(|memory| Remembering {
            memory,
            follower,
            numbers,
        });
        self.change(|parts| replace(&mut parts.memory, memory));
    }

    fn set_mapping(&self, mapping: Option<Py<PyAny>>) {
        self.change(|parts| replace(&mut parts.mapping, mapping));
    }

    /// What the collector has to know of; nobody is waited for.
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
        let completed = self.completed(py, datagram, t_arrival_ns, sender)?;
        let (out, left_out) = match (self.held.with(py, Option::take), completed) {
            (None, None) => return Ok(None),
            (None, Some(out)) => (out, 0),
            // The newest of those that were held plays.
            (Some((held, count)), None) => (Py::new(py, PyFrontOutput::of(held))?, count - 1),
            (Some((held, count)), Some(newest)) => {
                let joined = held.joined(newest.get().out.clone());
                (Py::new(py, PyFrontOutput::of(joined))?, count)
            }
        };
        if let Some(fill) = fill {
            let turns = self.grid.with(py, |grid| grid.leapt(&out.get().out, now_ns));
            if !turns.is_empty() {
                fill.call1((turns,))?;
            }
        }
        let (model, memory, mapping) = self.parts(py);
        let began = Instant::now();
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
            let remembered = memory.as_ref().map(|memory| memory.hear(&row.out, step.as_ref()));
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
        let taught = match mapping {
            None => None,
            Some(mapping) => mapping
                .call1(py, (&out, &step, slot.since, slot.number))?
                .extract::<Option<Vec<f64>>>(py)?,
        };
        let played = self.play(py, &row.out, step.as_ref(), taught.as_deref(), slot)?;
        let mapped = Instant::now();
        let nanoseconds = |from: Instant, to: Instant| (to - from).as_nanos() as i64;
        Ok(Some(PyFrameResult {
            out,
            left_out,
            step,
            failure,
            remembered,
            slot,
            played,
            stages_ns: (nanoseconds(began, stepped), nanoseconds(stepped, mapped)),
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
        let Some(out) = self.completed(py, datagram, t_arrival_ns, sender)? else {
            return Ok(());
        };
        let out = out.get().out.clone();
        self.grid.with(py, |grid| grid.hold(&out, now_ns));
        self.held.with(py, |held| {
            *held = Some(match held.take() {
                None => (out, 1),
                Some((before, count)) => (before.joined(out), count + 1),
            });
        });
        Ok(())
    }

    fn learn(&self, py: Python<'_>) {
        let (_, memory, _) = self.parts(py);
        py.detach(|| {
            self.desk.get().0.turn(anticip_controls::Mixer::learn);
            if let Some(memory) = memory {
                memory.memory.get().0.turn(Memory::learn);
            }
        });
    }

    #[pyo3(signature = (out, step, taught = None))]
    fn prewarm(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyFrontOutput>,
        step: Option<&Bound<'_, PyStepResult>>,
        taught: Option<Vec<f64>>,
    ) -> PyResult<()> {
        let (_, memory, _) = self.parts(py);
        if let Front::Other(front) = &self.front {
            front.call_method0(py, "prewarm")?;
        }
        let (out, step) = (&out.get().out, step.map(|step| step.get()));
        py.detach(|| {
            if let (Some(memory), Some(step), Some(pose)) = (memory, step, out.poses.last()) {
                let memory = &memory.memory.get().0;
                memory.turn(|memory| memory.prewarm(&rotations(pose), Some(&step.params)));
            }
            // After the model's weights, which would displace the little that it reads.
            if let Front::Core(front) = &self.front {
                front.get().0.turn(|front| front.prewarm());
            }
            self.grid.turn(|grid| grid.clone().take(out, 0));
            let model_output = step.map(PyStepResult::model_output);
            let activity = f64::from(out.activity);
            // Guessed: nothing is learned of it, which is not done before a frame leaves either.
            self.warm.get().0.turn(|mixer| {
                let taught = checked(mixer, taught.as_deref()).unwrap_or(None);
                mixer.play(model_output.as_ref(), &out.scalars, taught, activity, FRAME, true)
            });
        });
        Ok(())
    }

    #[getter]
    fn newest(&self, py: Python<'_>) -> i64 {
        self.grid.with(py, |grid| grid.newest())
    }

    #[getter]
    fn away(&self, py: Python<'_>) -> i64 {
        self.grid.with(py, |grid| grid.away())
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
                let out = front.get().0.with(py, |front| front.imagine().cloned());
                out.map(|out| Py::new(py, PyFrontOutput::of(out))).transpose()?
            }
            Front::Other(front) => front.call_method0(py, "imagine")?.extract(py)?,
        };
        Ok(out.filter(|out| {
            self.grid.with(py, |grid| {
                let foreseen = &out.get().out;
                let is_newest = grid.is_newest(foreseen);
                if is_newest && grid.playout.is_none() {
                    grid.wait(foreseen, now_ns);
                }
                is_newest
            })
        }))
    }
}

/// How long frames are held back: milliseconds, or "auto".
#[derive(FromPyObject)]
enum Buffer {
    Fixed(f64),
    Word(String),
    /// Refused in one line; without it each way to read it would have a line.
    Other(Py<PyAny>),
}

impl Buffer {
    fn playout(self) -> PyResult<Playout> {
        match self {
            Self::Fixed(ms) if (0.0..=100.0).contains(&ms) => Ok(Playout::new(Some(ms))),
            Self::Word(word) if word == "auto" => Ok(Playout::new(None)),
            refused => {
                if let Self::Other(given) = refused {
                    drop(given);
                }
                Err(raise(Kind::Value, "buffer: expected 0 to 100 ms or auto"))
            }
        }
    }
}

type Working = (Option<Model>, Option<Remembering>, Option<Py<PyAny>>);

impl PyEngine {
    /// What `act` takes out is dropped once nothing is locked: that may run whatever Python likes.
    fn change<T>(&self, act: impl FnOnce(&mut Parts) -> T) {
        let before = act(&mut self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        drop(before);
    }

    /// The parts as they are now: nothing is locked while they work.
    fn parts(&self, py: Python<'_>) -> Working {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        (
            parts.model.as_ref().map(|model| model.clone_ref(py)),
            parts.memory.as_ref().map(|memory| memory.clone_ref(py)),
            parts.mapping.as_ref().map(|mapping| mapping.clone_ref(py)),
        )
    }

    fn completed(
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

    /// The slot of a frame, and what it says of the way that frames have.
    fn place(&self, out: &FrontOutput, trust: Option<Trust>, now_ns: i64) -> GridPosition {
        let slot = self.grid.turn(|grid| grid.take(out, now_ns));
        self.desk.get().0.turn(|mixer| {
            mixer.trust = trust;
            if out.reset {
                mixer.desk.restart();
            }
            let age_ms = slot.release_ns.saturating_sub(out.t_local_ns) as f64 / 1e6;
            mixer.lead.with(|lead| lead.add_age(age_ms));
        });
        slot
    }

    /// What goes out; `None` where the frame's turn has passed: the forecast spoke for it, and what it says
    /// counts from the next frame on.
    fn play(
        &self,
        py: Python<'_>,
        out: &FrontOutput,
        step: Option<&Py<PyStepResult>>,
        taught: Option<&[f64]>,
        slot: GridPosition,
    ) -> PyResult<Option<Out>> {
        let step = step.map(|step| step.get());
        let played = py.detach(|| {
            let model_output = step.map(PyStepResult::model_output);
            let activity = f64::from(out.activity);
            self.desk.get().0.turn(|mixer| {
                let taught = checked(mixer, taught)?;
                let Some(dt) = slot.dt else {
                    if let Some(model_output) = &model_output {
                        mixer.observe(model_output, activity, slot.since);
                    }
                    return Ok(None);
                };
                let played = mixer.play(model_output.as_ref(), &out.scalars, taught, activity, dt, false);
                Ok(Some(played))
            })
        });
        played.map_err(unfit)
    }
}

impl Remembering {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            memory: self.memory.clone_ref(py),
            follower: self.follower.as_ref().map(|follower| follower.clone_ref(py)),
            numbers: self.numbers.clone(),
        }
    }

    /// Takes the frames that a datagram completed, and what the model says of the newest.
    fn hear(&self, out: &FrontOutput, step: Option<&PyStepResult>) -> Remembered {
        let follower = self.follower.as_ref().map(|follower| &follower.get().0);
        let (places, dues) = follower.map_or_else(Default::default, |follower| {
            follower.turn(|following| following.hear(out))
        });
        let place = places.last().copied().flatten();
        let forecast = self.memory.get().0.turn(|memory| {
            if out.reset {
                memory.reset();
            }
            let mut forecast = None;
            for (n, pose) in out.poses.iter().enumerate() {
                // Of the frames that fill a gap the model says nothing.
                let newest = n + 1 == out.poses.len();
                let model = step.filter(|_| newest).map(|step| &step.params);
                let place = places
                    .get(n)
                    .copied()
                    .flatten()
                    .and_then(|place| self.known(place));
                forecast = Some(memory.push(&rotations(pose), model, place.as_ref()));
            }
            forecast
        });
        // The sound goes on with what the model says, whatever becomes of what is mixed with it.
        let finite = |one: &MixedForecast| one.parameters.iter().flatten().all(|value| value.is_finite());
        let mixed = forecast.filter(|forecast| step.is_some() && finite(forecast));
        Remembered { mixed, place, dues }
    }

    /// A place by the number that the memory has for the take.
    fn known(&self, place: Place) -> Option<Place> {
        let take = *self.numbers.get(place.take)?;
        Some(Place { take, ..place })
    }
}

fn rotations(pose: &CanonicalPose) -> Rotations {
    pose.map(|joint| joint.map(f64::from))
}
