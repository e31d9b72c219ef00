//! From model output to control values.

use anticip_controls::{Desk, Mixer, Mode, Out, PARAMETER_COUNT, Silence, Smoothing};
use pyo3::prelude::*;

use super::convert::{self, SmoothingArgs, in_unit, smoothings};
use super::events::{EventTuple, PyEventRule, event_tuples};
use super::lead::PyLead;
use super::range::PyRange;
use super::shaping::PyShaper;
use crate::errors::{Kind, raise, within};
use crate::guarded::Guarded;
use crate::step_result::PyStepResult;

const MODES: [(&str, Mode); 4] = [
    ("playing", Mode::Playing),
    ("frozen", Mode::Frozen),
    ("stopped", Mode::Stopped),
    ("panic", Mode::Panic),
];

/// Control values of one performer.
#[pyclass(name = "Desk", module = "pyanticip._core", frozen)]
pub(crate) struct PyDesk(pub(crate) Guarded<Mixer>);

/// Shapers, each with the index of its output.
type Shapers<'py> = Vec<(usize, PyRef<'py, PyShaper>)>;
/// The eight parameters, and the events.
pub(crate) type Output<'py> = (Vec<f64>, Vec<EventTuple<'py>>);

#[pymethods]
impl PyDesk {
    #[new]
    #[pyo3(signature = (smoothing, silence, neutral, rule, lead))]
    fn new(
        smoothing: Vec<SmoothingArgs>,
        silence: (f64, f64, f64),
        neutral: [f64; PARAMETER_COUNT],
        rule: PyRef<'_, PyEventRule>,
        lead: PyRef<'_, PyLead>,
    ) -> PyResult<Self> {
        let smoothing = parameter_smoothing(smoothing)?;
        in_unit("neutral", &neutral)?;
        let (hold, fade, catch_up) = silence;
        if !(hold >= 0.0 && fade > 0.0 && catch_up >= 0.0) {
            let message = format!(
                "silence: expected hold >= 0, fade > 0, catch_up >= 0, got {hold}, {fade}, {catch_up}"
            );
            return Err(raise(Kind::Value, &message));
        }
        let silence = Silence { hold, fade, catch_up };
        let rule = rule.0.with(rule.py(), |rule| rule.clone());
        let desk = Desk::new(smoothing, silence, neutral, rule);
        Ok(Self(Guarded::new(Mixer::new(desk, lead.0.clone()))))
    }

    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn play<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyStepResult>>,
        scalars: &Bound<'py, PyAny>,
        mapped: Option<Vec<f64>>,
        activity: f64,
        dt: f64,
        guessed: bool,
    ) -> PyResult<Output<'py>> {
        let scalars = convert::scalars(scalars)?;
        let model_output = step.map(|step| step.get().model_output());
        let out = self.0.with(py, |mixer| {
            let mapped = check_mapped(mixer, mapped.as_deref())?;
            Ok(mixer.play(model_output.as_ref(), &scalars, mapped, activity, dt, guessed))
        });
        Ok(to_python(py, out.map_err(mapped_error)?))
    }

    fn bridge<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyStepResult>>,
        since_step_s: f64,
        dt: f64,
    ) -> Output<'py> {
        let model_output = step.map(|step| step.get().model_output());
        let out = self
            .0
            .with(py, |mixer| mixer.bridge(model_output.as_ref(), since_step_s, dt));
        to_python(py, out)
    }

    #[getter]
    fn range_sample(&self, py: Python<'_>) -> Option<(Vec<f64>, f64, f64)> {
        let range_sample = self.0.with(py, |mixer| mixer.range_sample().copied());
        range_sample.map(|(now, activity, dt)| (now.to_vec(), activity, dt))
    }

    fn set_range(&self, py: Python<'_>, range: Option<PyRef<'_, PyRange>>) {
        let range = range.map(|range| range.0.clone());
        self.0.with(py, |mixer| mixer.range = range);
    }

    fn silence(&self, py: Python<'_>, dt: f64) -> Vec<f64> {
        self.0.with(py, |mixer| mixer.desk.silence(dt)).to_vec()
    }

    fn set_mapping(
        &self,
        py: Python<'_>,
        places: Vec<Option<usize>>,
        smoothing: Vec<SmoothingArgs>,
        neutral: Vec<f64>,
        initial: Vec<f64>,
    ) -> PyResult<()> {
        let extra_count = places.iter().filter(|place| place.is_none()).count();
        if places.iter().flatten().any(|&place| place >= PARAMETER_COUNT)
            || neutral.len() != extra_count
            || initial.len() != extra_count
        {
            let message =
                format!("mapping: expected indices of parameters, and {extra_count} values of extra outputs");
            return Err(raise(Kind::Shape, &message));
        }
        in_unit("mapping", neutral.iter().chain(&initial))?;
        let smoothing = smoothings(smoothing, extra_count)?;
        self.0.with(py, |mixer| {
            mixer.desk.set_mapping(places, smoothing, &neutral, &initial)
        });
        Ok(())
    }

    fn set_shapers(&self, py: Python<'_>, main: Shapers<'_>, extra: Shapers<'_>) {
        let shared = |shapers: Shapers<'_>| -> Vec<_> {
            shapers
                .iter()
                .map(|(place, shaper)| (*place, shaper.inner.clone()))
                .collect()
        };
        let (main, extra) = (shared(main), shared(extra));
        self.0.with(py, |mixer| mixer.desk.set_shapers(main, extra));
    }

    fn set_smoothing_settings(
        &self,
        py: Python<'_>,
        main: Vec<SmoothingArgs>,
        extra: Vec<SmoothingArgs>,
    ) -> PyResult<()> {
        let main = parameter_smoothing(main)?;
        let extra = smoothings(extra, self.0.with(py, |mixer| mixer.desk.extras().len()))?;
        // If another thread changes their number meanwhile, the desk ignores these.
        self.0
            .with(py, |mixer| mixer.desk.set_smoothing_settings(main, extra));
        Ok(())
    }

    fn set_mode(&self, py: Python<'_>, mode: &str) -> PyResult<()> {
        let Some((_, mode_found)) = MODES.iter().find(|(name, _)| *name == mode) else {
            let message = format!("mode: expected playing, frozen, stopped or panic, got {mode:?}");
            return Err(raise(Kind::Value, &message));
        };
        self.0.with(py, |mixer| mixer.desk.set_mode(*mode_found));
        Ok(())
    }

    fn fade_out(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        if seconds.is_nan() {
            return Err(raise(Kind::Value, "seconds: expected a number, got NaN"));
        }
        self.0.with(py, |mixer| mixer.desk.fade_out(seconds));
        Ok(())
    }

    fn restart(&self, py: Python<'_>) {
        self.0.with(py, |mixer| mixer.desk.restart());
    }

    fn resume(&self, py: Python<'_>, last_sent: [f64; PARAMETER_COUNT], extras: Vec<f64>) -> PyResult<()> {
        in_unit("last_sent", last_sent.iter().chain(&extras))?;
        self.0.with(py, |mixer| mixer.desk.resume(&last_sent, &extras));
        Ok(())
    }

    #[getter]
    fn mode(&self, py: Python<'_>) -> &'static str {
        let mode = self.0.with(py, |mixer| mixer.desk.mode());
        MODES
            .iter()
            .find(|(_, candidate)| *candidate == mode)
            .map_or("playing", |(name, _)| name)
    }

    #[getter]
    fn extras(&self, py: Python<'_>) -> Vec<f64> {
        self.0.with(py, |mixer| mixer.desk.extras().to_vec())
    }

    #[getter]
    fn by_model(&self, py: Python<'_>) -> bool {
        self.0.with(py, |mixer| mixer.desk.by_model())
    }

    #[getter]
    fn silent_s(&self, py: Python<'_>) -> f64 {
        self.0.with(py, |mixer| mixer.desk.silent_s())
    }

    #[getter]
    fn gain(&self, py: Python<'_>) -> f64 {
        self.0.with(py, |mixer| mixer.desk.gain)
    }

    #[setter]
    fn set_gain(&self, py: Python<'_>, gain: f64) -> PyResult<()> {
        within("gain", gain, 0.0..=4.0)?;
        self.0.with(py, |mixer| mixer.desk.gain = gain);
        Ok(())
    }

    #[getter]
    fn bypass(&self, py: Python<'_>) -> bool {
        self.0.with(py, |mixer| mixer.desk.bypass)
    }

    #[setter]
    fn set_bypass(&self, py: Python<'_>, bypass: bool) {
        self.0.with(py, |mixer| mixer.desk.bypass = bypass);
    }

    #[getter]
    fn smoothing(&self, py: Python<'_>) -> f64 {
        self.0.with(py, |mixer| mixer.desk.smoothing())
    }

    #[setter]
    fn set_smoothing(&self, py: Python<'_>, amount: f64) -> PyResult<()> {
        within("smoothing amount", amount, 0.0..=100.0)?;
        self.0.with(py, |mixer| mixer.desk.set_smoothing(amount));
        Ok(())
    }
}

fn parameter_smoothing(settings: Vec<SmoothingArgs>) -> PyResult<[Smoothing; PARAMETER_COUNT]> {
    let settings = smoothings(settings, PARAMETER_COUNT)?;
    settings
        .try_into()
        .map_err(|_| raise(Kind::Shape, "smoothing: expected a setting a parameter"))
}

/// Checks the number of a mapping's values; the error is the expected number.
pub(crate) fn check_mapped<'a>(mixer: &Mixer, mapped: Option<&'a [f64]>) -> Result<Option<&'a [f64]>, usize> {
    let expected = mixer.desk.mapping_len();
    match mapped {
        Some(values) if values.len() != expected => Err(expected),
        values => Ok(values),
    }
}

pub(crate) fn mapped_error(expected: usize) -> PyErr {
    raise(Kind::Shape, &format!("mapping: expected {expected} values"))
}

pub(crate) fn to_python(py: Python<'_>, (values, events): Out) -> Output<'_> {
    (values.to_vec(), event_tuples(py, &events))
}
