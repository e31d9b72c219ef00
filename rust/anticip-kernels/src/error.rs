//! The error type of this crate.

use thiserror::Error;

/// Maximum number of attention heads.
pub(crate) const MAX_HEADS: usize = 4096;

/// Buffers that do not fit together.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// A buffer whose length does not match the sizes.
    #[error("{name}: expected {expected} values, given {given}")]
    Length {
        /// The buffer.
        name: &'static str,
        /// The length required by the sizes.
        expected: usize,
        /// The length of the buffer.
        given: usize,
    },
    /// Fewer places than a cursor needs to move.
    #[error("places: expected at least 2, given {given}")]
    Places {
        /// The number of places.
        given: usize,
    },
    /// Too many heads. With strides of zero, buffers do not limit their number.
    #[error("heads: expected at most {most}, given {given}", most = MAX_HEADS)]
    Heads {
        /// The number of heads.
        given: usize,
    },
    /// Positions outside the table of sinusoids.
    #[error("positions: expected within the {rows} rows of the table, given one outside")]
    Positions {
        /// Rows of the table.
        rows: usize,
    },
    /// Vectors of width 0.
    #[error("width: expected at least 1, given 0")]
    Width,
    /// Codes out of range.
    #[error("codes: expected below {codes}, given one outside")]
    Codes {
        /// The number of codes.
        codes: usize,
    },
    /// Plans without slots, or with more slots than codes.
    #[error("slots: expected 1 to {most}, given {given}")]
    Slots {
        /// The number of codes.
        most: usize,
        /// The number of slots.
        given: usize,
    },
    /// More jumping cursors than cursors.
    #[error("jumping: expected at most {cursors} cursors, given {given}")]
    Jumping {
        /// The number of cursors.
        cursors: usize,
        /// The number of jumping cursors.
        given: usize,
    },
}

/// Checks the length of a buffer.
pub(crate) fn check<T>(name: &'static str, given: &[T], expected: usize) -> Result<(), KernelError> {
    if given.len() == expected {
        return Ok(());
    }
    Err(KernelError::Length {
        name,
        expected,
        given: given.len(),
    })
}
