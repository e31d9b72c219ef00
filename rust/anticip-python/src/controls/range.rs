//! Bindings of the performer's range.

use anticip_controls::{MAX_STILL, PARAMETER_COUNT, Range, STRETCHED, Shared, Span};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};

/// Value while standing, and 5th and 95th percentile while moving.
type Ends = (f64, f64, f64);
/// Calibrated values of each stretched parameter, where known.
type Calibrated = [Option<Ends>; STRETCHED.len()];

/// Stretches model output to the performer's range; shared with the desk that uses it.
#[pyclass(name = "PerformerRange", module = "pyanticip._core", frozen)]
pub(crate) struct PyRange(pub(super) Shared<Range>);

#[pymethods]
impl PyRange {
    #[new]
    #[pyo3(signature = (calibrated = [None, None], *, frozen = false))]
    fn new(calibrated: Calibrated, frozen: bool) -> PyResult<Self> {
        Ok(Self(Shared::new(Range::new(to_spans(calibrated)?, frozen))))
    }

    #[getter]
    fn frozen(&self) -> bool {
        self.0.with(|range| range.frozen)
    }

    #[setter]
    fn set_frozen(&self, frozen: bool) {
        self.0.with(|range| range.frozen = frozen);
    }

    fn calibrate(&self, calibrated: Calibrated) -> PyResult<()> {
        let calibrated = to_spans(calibrated)?;
        self.0.with(|range| range.calibrate(calibrated));
        Ok(())
    }

    fn spans(&self) -> Vec<Ends> {
        let spans = self.0.with(|range| range.spans());
        spans
            .iter()
            .map(|span| (span.still, span.low, span.high))
            .collect()
    }

    fn learn(&self, now: [f64; PARAMETER_COUNT], activity: f64, dt: f64) {
        self.0.with(|range| range.learn(&now, activity, dt));
    }
}

fn to_spans(calibrated: Calibrated) -> PyResult<[Option<Span>; STRETCHED.len()]> {
    let mut spans = [None; STRETCHED.len()];
    for (slot, ends) in spans.iter_mut().zip(calibrated) {
        *slot = ends.map(span).transpose()?;
    }
    Ok(spans)
}

fn span((still, low, high): Ends) -> PyResult<Span> {
    Span::new(still, low, high).ok_or_else(|| {
        let message = format!(
            "range: expected 0 <= still <= low <= high <= 1, still at most {MAX_STILL}, got {still}, {low}, {high}"
        );
        raise(Kind::Value, &message)
    })
}

#[pyfunction]
pub(crate) fn stretched(value: f64, ends: Ends) -> PyResult<f64> {
    Ok(span(ends)?.reach(0).stretch(value))
}
