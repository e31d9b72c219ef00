//! Conversion of control inputs from Python: arrays, and options by their attributes.

use anticip_controls::{EVENT_COUNT, SCALAR_COUNT, Smoothing};
use pyo3::prelude::*;

use crate::errors::{Kind, raise};
use crate::motion::convert::doubles;

/// Hazards (2, bins), with at least one bin.
pub(super) fn hazards(value: &Bound<'_, PyAny>) -> PyResult<[Vec<f64>; EVENT_COUNT]> {
    let array = doubles(value, "hazards", &[Some(EVENT_COUNT), None])?;
    let bins = array.shape[1];
    if bins == 0 {
        let none = "hazards: expected shape (2, bins), got no bins";
        return Err(raise(Kind::Shape, none));
    }
    Ok(std::array::from_fn(|i| array.values[i * bins..][..bins].to_vec()))
}

/// Checks that values are in 0..1, except for rounding.
pub(super) fn in_unit<'a>(what: &str, values: impl IntoIterator<Item = &'a f64>) -> PyResult<()> {
    if values
        .into_iter()
        .all(|value| (-1e-9..=1.0 + 1e-9).contains(value))
    {
        return Ok(());
    }
    Err(raise(Kind::Value, &format!("{what}: expected values in 0..1")))
}

/// The attributes of a `pyanticip.controls.Smoothing`.
#[derive(FromPyObject)]
pub(super) struct SmoothingArgs {
    kind: String,
    half_life: f64,
    min_cutoff: f64,
    beta: f64,
}

/// Converts smoothing settings; there must be `count` of them.
pub(super) fn smoothings(settings: Vec<SmoothingArgs>, count: usize) -> PyResult<Vec<Smoothing>> {
    if settings.len() != count {
        let message = format!("smoothing: expected {count} settings, got {}", settings.len());
        return Err(raise(Kind::Shape, &message));
    }
    let convert = |args: SmoothingArgs| match (args.kind.as_str(), args.half_life, args.min_cutoff, args.beta)
    {
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
    settings.into_iter().map(convert).collect()
}

fn above(value: f64, max: f64) -> bool {
    value > 0.0 && value <= max
}

/// The seven scalars.
pub(super) fn scalars(settings: &Bound<'_, PyAny>) -> PyResult<[f64; SCALAR_COUNT]> {
    settings.extract().or_else(|_| {
        let values = doubles(settings, "scalars", &[Some(SCALAR_COUNT)])?.values;
        Ok(std::array::from_fn(|i| values[i]))
    })
}
