//! The error type of this crate.

use thiserror::Error;

/// Errors of a caller's data or options; each message states what was expected and what was given.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum GeometryError {
    /// A pose with the wrong number of joints.
    #[error("expected a pose of {expected} joints, got {given}")]
    Joints {
        /// Number of joints of the stream.
        expected: usize,
        /// Number of joints of the pose.
        given: usize,
    },
    /// A vector of the wrong dimension.
    #[error("expected a vector of dimension {expected}, got {given}")]
    Dimension {
        /// Dimension of the stream.
        expected: usize,
        /// Dimension of the vector.
        given: usize,
    },
    /// A buffer whose length does not match its shape.
    #[error("expected {expected} values ({what}), got {given}")]
    Length {
        /// The shape, in words.
        what: &'static str,
        /// Length required by the shape.
        expected: usize,
        /// Actual length.
        given: usize,
    },
    /// An option outside its range, or of the wrong length.
    #[error("option {name}: expected {expected}, got {given}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// Its range, in words.
        expected: String,
        /// Actual value.
        given: String,
    },
}

/// Fails with the error of option `name` unless `is_valid`.
pub(crate) fn check(
    is_valid: bool,
    name: &'static str,
    expected: impl Into<String>,
    given: impl std::fmt::Debug,
) -> Result<(), GeometryError> {
    if is_valid {
        return Ok(());
    }
    Err(GeometryError::Option {
        name,
        expected: expected.into(),
        given: format!("{given:?}"),
    })
}
