//! The way from a step to what goes out.

use anticip_controls::{Desk, Mode, Out, PARAMETER_COUNT, Parameters, Reach, Silence};
use pyo3::prelude::*;

use super::convert::{self, GivenSmoothing, smoothings};
use super::events::{PyEventRule, Told, told};
use super::shaping::PyShaper;
use crate::errors::{Kind, raise};
use crate::shared::Shared;
use crate::step_result::PyStepResult;

const MODES: [(&str, Mode); 4] = [
    ("playing", Mode::Playing),
    ("frozen", Mode::Frozen),
    ("stopped", Mode::Stopped),
    ("panic", Mode::Panic),
];

/// Control values of one performer.
#[pyclass(name = "Desk", module = "pyanticip._core", frozen)]
pub(super) struct PyDesk(Shared<Desk>);

/// Shapers with their places.
type Shapers<'py> = Vec<(usize, PyRef<'py, PyShaper>)>;
/// Place, foot, top and curve.
type Reaches = Vec<(usize, f64, f64, f64)>;
/// The eight, and events.
type Played<'py> = (Vec<f64>, Vec<Told<'py>>);

#[pymethods]
impl PyDesk {
    #[new]
    #[pyo3(signature = (smoothing, silence, neutral, rule))]
    fn new(
        smoothing: Vec<GivenSmoothing>,
        silence: (f64, f64, f64),
        neutral: [f64; PARAMETER_COUNT],
        rule: PyRef<'_, PyEventRule>,
    ) -> PyResult<Self> {
        let smoothing = eight(smoothing)?;
        let (hold, fade, catch_up) = silence;
        let silence = Silence { hold, fade, catch_up };
        let rule = rule.copied(rule.py());
        Ok(Self(Shared::new(Desk::new(smoothing, silence, neutral, rule))))
    }

    /// A frame.
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn play<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyStepResult>>,
        scalars: &Bound<'py, PyAny>,
        leads_ms: Parameters,
        way_ms: f64,
        reaches: Reaches,
        taught: Option<Vec<f64>>,
        activity: f64,
        dt: f64,
    ) -> PyResult<Played<'py>> {
        let reaches = read(reaches);
        let scalars = convert::scalars(scalars)?;
        let said = step.map(|step| convert::said(step.get(), leads_ms, way_ms, &reaches));
        let out = self.0.with(py, |desk| {
            let (given, expected) = (taught.as_deref(), desk.taught());
            if given.is_some_and(|given| given.len() != expected) {
                return Err(expected);
            }
            Ok(desk.play(said.as_ref(), &scalars, given, activity, dt))
        });
        let wrong = |expected| raise(Kind::Shape, &format!("taught: expected {expected} values"));
        Ok(played(py, out.map_err(wrong)?))
    }

    /// No frame: what the newest one's model says of now.
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn bridge<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyStepResult>>,
        leads_ms: Parameters,
        way_ms: f64,
        reaches: Reaches,
        away: f64,
        dt: f64,
    ) -> Played<'py> {
        let reaches = read(reaches);
        let said = step.map(|step| convert::said(step.get(), leads_ms, way_ms, &reaches));
        let out = self.0.with(py, |desk| desk.bridge(said.as_ref(), away, dt));
        played(py, out)
    }

    /// No frame for another while: hold, then fade.
    fn silence(&self, py: Python<'_>, dt: f64) -> Vec<f64> {
        self.0.with(py, |desk| desk.silence(dt)).to_vec()
    }

    /// Plays taught outputs from the next frame on.
    fn teach(
        &self,
        py: Python<'_>,
        places: Vec<Option<usize>>,
        smoothing: Vec<GivenSmoothing>,
        neutral: Vec<f64>,
        begin: Vec<f64>,
    ) -> PyResult<()> {
        let beside = places.iter().filter(|place| place.is_none()).count();
        if places.iter().flatten().any(|&place| place >= PARAMETER_COUNT)
            || neutral.len() != beside
            || begin.len() != beside
        {
            let message = format!("taught: expected places among the eight, and {beside} values beside them");
            return Err(raise(Kind::Shape, &message));
        }
        let smoothing = smoothings(smoothing, beside)?;
        self.0
            .with(py, |desk| desk.teach(places, smoothing, &neutral, &begin));
        Ok(())
    }

    /// Shapes the eight, and what is taught beside them, by these.
    fn shape(&self, py: Python<'_>, main: Shapers<'_>, extra: Shapers<'_>) {
        let shared = |given: Shapers<'_>| -> Vec<_> {
            given
                .iter()
                .map(|(place, shaper)| (*place, shaper.inner.clone()))
                .collect()
        };
        let (main, extra) = (shared(main), shared(extra));
        self.0.with(py, |desk| desk.shape(main, extra));
    }

    /// Smooths otherwise from the next frame on.
    fn resmooth(
        &self,
        py: Python<'_>,
        main: Vec<GivenSmoothing>,
        extra: Vec<GivenSmoothing>,
    ) -> PyResult<()> {
        let (main, count) = (eight(main)?, extra.len());
        let extra = smoothings(extra, count)?;
        let retuned = self.0.with(py, |desk| {
            let expected = desk.extras().len();
            if count != expected {
                return Err(expected);
            }
            desk.resmooth(main, extra);
            Ok(())
        });
        retuned.map_err(|expected| {
            let message = format!("smoothing: expected {expected} settings, got {count}");
            raise(Kind::Shape, &message)
        })
    }

    /// Goes to another mode, without a jump.
    fn set_mode(&self, py: Python<'_>, mode: &str) -> PyResult<()> {
        let Some((_, found)) = MODES.iter().find(|(name, _)| *name == mode) else {
            let message = format!("mode: expected playing, frozen, stopped or panic, got {mode:?}");
            return Err(raise(Kind::Value, &message));
        };
        self.0.with(py, |desk| desk.set_mode(*found));
        Ok(())
    }

    /// To neutral within so many seconds, whatever the mode.
    fn leave(&self, py: Python<'_>, seconds: f64) {
        self.0.with(py, |desk| desk.leave(seconds));
    }

    /// The stream begins anew.
    fn forget(&self, py: Python<'_>) {
        self.0.with(py, Desk::forget);
    }

    #[getter]
    fn mode(&self, py: Python<'_>) -> &'static str {
        let mode = self.0.with(py, |desk| desk.mode());
        MODES
            .iter()
            .find(|(_, known)| *known == mode)
            .map_or("playing", |(name, _)| name)
    }

    #[getter]
    fn extras(&self, py: Python<'_>) -> Vec<f64> {
        self.0.with(py, |desk| desk.extras().to_vec())
    }

    #[getter]
    fn by_model(&self, py: Python<'_>) -> bool {
        self.0.with(py, |desk| desk.by_model())
    }

    #[getter]
    fn silent(&self, py: Python<'_>) -> f64 {
        self.0.with(py, |desk| desk.silent())
    }

    #[getter]
    fn gain(&self, py: Python<'_>) -> f64 {
        self.0.with(py, |desk| desk.gain)
    }

    #[setter]
    fn set_gain(&self, py: Python<'_>, gain: f64) -> PyResult<()> {
        if !(0.0..=4.0).contains(&gain) {
            return Err(raise(Kind::Value, &format!("gain: expected 0 to 4, got {gain}")));
        }
        self.0.with(py, |desk| desk.gain = gain);
        Ok(())
    }

    #[getter]
    fn bypass(&self, py: Python<'_>) -> bool {
        self.0.with(py, |desk| desk.bypass)
    }

    #[setter]
    fn set_bypass(&self, py: Python<'_>, bypass: bool) {
        self.0.with(py, |desk| desk.bypass = bypass);
    }

    #[getter]
    fn smoothing(&self, py: Python<'_>) -> f64 {
        self.0.with(py, |desk| desk.smoothing())
    }

    #[setter]
    fn set_smoothing(&self, py: Python<'_>, amount: f64) -> PyResult<()> {
        if !(0.0..=100.0).contains(&amount) {
            let message = format!("smoothing amount: expected 0 to 100, got {amount}");
            return Err(raise(Kind::Value, &message));
        }
        self.0.with(py, |desk| desk.set_smoothing(amount));
        Ok(())
    }
}

fn eight(given: Vec<GivenSmoothing>) -> PyResult<[anticip_controls::Smoothing; PARAMETER_COUNT]> {
    let read = smoothings(given, PARAMETER_COUNT)?;
    read.try_into()
        .map_err(|_| raise(Kind::Shape, "smoothing: expected a setting a parameter"))
}

fn read(reaches: Reaches) -> Vec<Reach> {
    let one = |(place, foot, top, curve)| Reach {
        place,
        foot,
        top,
        curve,
    };
    reaches.into_iter().map(one).collect()
}

fn played(py: Python<'_>, (values, events): Out) -> Played<'_> {
    (values.to_vec(), told(py, &events))
}
