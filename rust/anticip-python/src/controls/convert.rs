//! What Python gives to the controls: arrays, options by their attributes.

use anticip_controls::{EVENT_COUNT, SCALAR_COUNT, Smoothing};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};
use crate::motion::convert::doubles;

/// Hazards (2, bins), at least one bin each.
pub(super) fn hazards(given: &Bound<'_, PyAny>) -> PyResult<[Vec<f64>; EVENT_COUNT]> {
    let found = doubles(given, "hazards", &[Some(EVENT_COUNT), None])?;
    let bins = found.shape[1];
    if bins == 0 {
        let none = "hazards: expected shape (2, bins), got no bins";
        return Err(raise(Kind::Shape, none));
    }
    Ok(std::array::from_fn(|i| found.values[i * bins..][..bins].to_vec()))
}

/// Values that are heard, each 0..1 but for rounding.
pub(super) fn within<'a>(what: &str, values: impl IntoIterator<Item = &'a f64>) -> PyResult<()> {
    if values
        .into_iter()
        .all(|value| (-1e-9..=1.0 + 1e-9).contains(value))
    {
        return Ok(());
    }
    Err(raise(Kind::Value, &format!("{what}: expected values in 0..1")))
}

/// How one value is smoothed, as `pyanticip.controls.Smoothing` has it.
#[derive(FromPyObject)]
pub(super) struct SmoothingArgs {
    kind: String,
    half_life: f64,
    min_cutoff: f64,
    beta: f64,
}

/// As many settings as there are outputs.
pub(super) fn smoothings(given: Vec<SmoothingArgs>, count: usize) -> PyResult<Vec<Smoothing>> {
    if given.len() != count {
        let message = format!("smoothing: expected {count} settings, got {}", given.len());
        return Err(raise(Kind::Shape, &message));
    }
    let read = |one: SmoothingArgs| match (one.kind.as_str(), one.half_life, one.min_cutoff, one.beta) {
        ("none", ..) => Ok(Smoothing::None),
        ("spring", half_life, ..) if above(half_life, 60.0) => Ok(Smoothing::Spring { half_life }),
        ("one-euro", _, min_cutoff, beta) if above(min_cutoff, 1000.0) && (0.0..=1000.0).contains(&beta) => {
            Ok(Smoothing::OneEuro { min_cutoff, beta })
        }
        (kind, half_life, min_cutoff, beta) => Err(raise(
            Kind::Value,
            &format!(
                "smoothing: expected spring (half_life above 0, to 60 s), one-euro (min_cutoff above 0, to 1000 Hz; \
                 beta 0 to 1000) or none, got {kind:?} ({half_life}; {min_cutoff}, {beta})"
            ),
        )),
    };
    given.into_iter().map(read).collect()
}

fn above(value: f64, most: f64) -> bool {
    value > 0.0 && value <= most
}

/// Seven scalars.
pub(super) fn scalars(given: &Bound<'_, PyAny>) -> PyResult<[f64; SCALAR_COUNT]> {
    given.extract().or_else(|_| {
        let values = doubles(given, "scalars", &[Some(SCALAR_COUNT)])?.values;
        Ok(std::array::from_fn(|i| values[i]))
    })
}
