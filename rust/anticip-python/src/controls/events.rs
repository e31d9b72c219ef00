//! Bindings of the event rule.

use anticip_controls::{EVENT_COUNT, Event, LastMoment, Trigger};
use anticip_synth::EVENTS;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::convert;
use crate::errors::{Kind, raise};
use crate::guarded::Guarded;

/// The rule by which events are announced, and its state.
#[pyclass(name = "EventRule", module = "pyanticip._core", frozen)]
pub(crate) struct PyEventRule(pub(super) Guarded<Trigger>);

#[pymethods]
impl PyEventRule {
    #[new]
    #[pyo3(signature = (threshold, refractory, *, theta, max_buffer, reach_ms, last_moment = None))]
    fn new(
        threshold: [f64; EVENT_COUNT],
        refractory: [f64; EVENT_COUNT],
        theta: f64,
        max_buffer: u32,
        reach_ms: f64,
        last_moment: Option<(f64, f64)>,
    ) -> PyResult<Self> {
        if max_buffer == 0 {
            return Err(raise(Kind::Value, "max_buffer: expected at least 1, got 0"));
        }
        let last_moment = last_moment.map(|(lead_ms, sure)| LastMoment { lead_ms, sure });
        let rule = Trigger::new(threshold, refractory, (theta, max_buffer), reach_ms, last_moment);
        Ok(Self(Guarded::new(rule)))
    }

    fn step<'py>(
        &self,
        hazards: &Bound<'py, PyAny>,
        gate: f64,
        lead_ms: f64,
        dt: f64,
    ) -> PyResult<Vec<EventTuple<'py>>> {
        let rows = convert::hazards(hazards)?;
        let py = hazards.py();
        let events = self.0.with(py, |rule| {
            rule.step(rows.each_ref().map(Vec::as_slice), gate, lead_ms, dt)
        });
        Ok(event_tuples(py, &events))
    }

    fn reset(&self, py: Python<'_>) {
        self.0.with(py, Trigger::reset);
    }
}

/// Name, strength, seconds ahead.
pub(crate) type EventTuple<'py> = (Bound<'py, PyString>, f64, f64);

/// Converts events to Python tuples.
pub(crate) fn event_tuples<'py>(py: Python<'py>, events: &[Event]) -> Vec<EventTuple<'py>> {
    let one = |event: &Event| {
        let name = match (event.kind, event.cancelled) {
            (0, false) => intern!(py, EVENTS[0]).clone(),
            (_, false) => intern!(py, EVENTS[1]).clone(),
            (kind, true) => PyString::new(py, &format!("{}/cancel", EVENTS[kind.min(EVENT_COUNT - 1)])),
        };
        (name, event.strength, event.ahead)
    };
    events.iter().map(one).collect()
}
