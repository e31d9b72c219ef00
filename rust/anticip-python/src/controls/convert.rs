//! What Python gives to the controls: arrays of either precision, nested lists, options by their attributes.

use anticip_controls::{
    EVENT_COUNT, Forecast, HORIZONS_MS, PARAMETER_COUNT, Parameters, SCALAR_COUNT, Smoothing,
};
use numpy::{PyArray2, PyArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::{Kind, raise};

/// Rows of numbers: of an array without a copy in between, of anything else as it extracts.
fn rows(given: &Bound<'_, PyAny>, what: &str, expected: &str) -> PyResult<Vec<Vec<f64>>> {
    if let Ok(array) = given.cast::<PyArray2<f32>>() {
        let array = array.try_readonly()?;
        let rows = array.as_array();
        return Ok(rows
            .outer_iter()
            .map(|row| row.iter().map(|&v| f64::from(v)).collect())
            .collect());
    }
    if let Ok(array) = given.cast::<PyArray2<f64>>() {
        let array = array.try_readonly()?;
        return Ok(array.as_array().outer_iter().map(|row| row.to_vec()).collect());
    }
    let listed = given
        .call_method0(intern!(given.py(), "tolist"))
        .unwrap_or_else(|_| given.clone());
    listed.extract().map_err(|_| {
        let shape = given
            .getattr("shape")
            .map_or_else(|_| "another".to_owned(), |shape| shape.to_string());
        raise(
            Kind::Shape,
            &format!("{what}: expected shape {expected}, got {shape}"),
        )
    })
}

/// Parameters (8, 5).
pub(super) fn forecast(given: &Bound<'_, PyAny>) -> PyResult<Forecast> {
    let expected = format!("({PARAMETER_COUNT}, {})", HORIZONS_MS.len());
    let rows = rows(given, "parameters", &expected)?;
    let fits: Option<Vec<_>> = rows.iter().map(|row| row.as_slice().try_into().ok()).collect();
    fits.and_then(|rows| rows.try_into().ok()).ok_or_else(|| {
        let message = format!("parameters: expected shape {expected}, got {}", shape_of(&rows));
        raise(Kind::Shape, &message)
    })
}

/// Hazards (2, bins): at least one bin each.
pub(super) fn hazards(given: &Bound<'_, PyAny>) -> PyResult<[Vec<f64>; EVENT_COUNT]> {
    let expected = format!("({EVENT_COUNT}, bins)");
    let rows = rows(given, "hazards", &expected)?;
    if rows.iter().any(Vec::is_empty) || rows.len() != EVENT_COUNT {
        let message = format!("hazards: expected shape {expected}, got {}", shape_of(&rows));
        return Err(raise(Kind::Shape, &message));
    }
    rows.try_into()
        .map_err(|_| raise(Kind::Shape, "hazards: expected two events"))
}

fn shape_of(rows: &[Vec<f64>]) -> String {
    format!("({}, {})", rows.len(), rows.first().map_or(0, Vec::len))
}

/// A vector of so many numbers.
pub(super) fn vector<const N: usize>(given: &Bound<'_, PyAny>, what: &str) -> PyResult<[f64; N]> {
    let listed = given
        .call_method0(intern!(given.py(), "tolist"))
        .unwrap_or_else(|_| given.clone());
    let values: Option<Vec<f64>> = listed.extract().ok();
    let count = values.as_ref().map(Vec::len);
    values.and_then(|values| values.try_into().ok()).ok_or_else(|| {
        let got = count.map_or_else(|| "another".to_owned(), |count| format!("({count},)"));
        raise(Kind::Shape, &format!("{what}: expected shape ({N},), got {got}"))
    })
}

/// One lead for all parameters, or one for each, in milliseconds.
#[derive(FromPyObject)]
pub(super) enum Leads {
    One(f64),
    Each(Vec<f64>),
}

impl Leads {
    pub(super) fn checked(self) -> PyResult<Parameters> {
        let leads = match self {
            Self::One(lead) => [lead; PARAMETER_COUNT],
            Self::Each(leads) => leads.try_into().map_err(|leads: Vec<f64>| {
                let message = format!("lead_ms: expected {PARAMETER_COUNT} leads, got {}", leads.len());
                raise(Kind::Shape, &message)
            })?,
        };
        let (nearest, farthest) = (HORIZONS_MS[0], HORIZONS_MS[HORIZONS_MS.len() - 1]);
        match leads.iter().find(|lead| !(nearest..=farthest).contains(lead)) {
            Some(lead) => {
                let message = format!("lead_ms: expected {nearest} to {farthest}, got {lead}");
                Err(raise(Kind::Value, &message))
            }
            None => Ok(leads),
        }
    }
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
    match given.extract() {
        Ok(values) => Ok(values),
        Err(_) => vector(given, "scalars"),
    }
}
