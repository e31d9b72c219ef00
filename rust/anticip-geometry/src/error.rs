//! The one error type of this crate.

use thiserror::Error;

/// Everything a caller's data or options can cause; each message says what was expected and what was given.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum GeometryError {
    /// A pose with the wrong number of joints.
    #[error("expected a pose of {expected} joints, given {given}")]
    Joints {
        /// The joints the stream was made for.
        expected: usize,
        /// The joints of the pose.
        given: usize,
    },
    /// A vector of the wrong dimension.
    #[error("expected a vector of dimension {expected}, given {given}")]
    Dimension {
        /// The dimension the stream was made for.
        expected: usize,
        /// The dimension of the vector.
        given: usize,
    },
    /// A buffer whose length is not what its shape says.
    #[error("expected {expected} values ({what}), given {given}")]
    Length {
        /// The shape in words.
        what: &'static str,
        /// The length the shape asks for.
        expected: usize,
        /// The length of the buffer.
        given: usize,
    },
    /// An option outside its range, or of the wrong length.
    #[error("option {name}: expected {expected}, given {given}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its range in words.
        expected: String,
        /// What was given.
        given: String,
    },
}

/// The error of option `name`.
pub(crate) fn option(
    name: &'static str,
    expected: impl Into<String>,
    given: impl std::fmt::Debug,
) -> GeometryError {
    GeometryError::Option {
        name,
        expected: expected.into(),
        given: format!("{given:?}"),
    }
}
