//! The one place where Rust errors become Python exceptions.
//!
//! The classes live in `pyanticip.errors`, below this module in the layering; they are looked up when an
//! error is raised, never at import.

use std::ops::RangeInclusive;

use pyo3::prelude::*;

/// The class in `pyanticip.errors` an error becomes.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// An array of the wrong shape or type.
    Shape,
    /// An option or value out of its range.
    Value,
    /// A malformed file or recording.
    Format,
    /// A malformed datagram.
    Wire,
    /// A skeleton that is none, or that the canonical body cannot be mapped onto.
    Skeleton,
}

/// Builds the Python exception of `kind` with `message`.
pub(crate) fn raise(kind: Kind, message: &str) -> PyErr {
    let name = match kind {
        Kind::Shape => "ShapeError",
        Kind::Value => "OptionError",
        Kind::Format => "FormatError",
        Kind::Wire => "WireError",
        Kind::Skeleton => "SkeletonError",
    };
    Python::attach(|py| {
        let class = py.import("pyanticip.errors").and_then(|m| m.getattr(name));
        match class.and_then(|c| c.call1((message,))) {
            Ok(value) => PyErr::from_value(value),
            Err(err) => err,
        }
    })
}

/// Raises unless a number is in its range.
pub(crate) fn within(what: &str, value: f64, range: RangeInclusive<f64>) -> PyResult<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    let message = format!("{what}: expected {least} to {most}, got {value}");
    Err(raise(Kind::Value, &message))
}

/// The first 200 characters of an object's text, in one line.
pub(crate) fn one_line(text: &Bound<'_, PyAny>) -> String {
    let text = text.to_string();
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").chars().take(200).collect()
}
