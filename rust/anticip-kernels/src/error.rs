//! The one error type of this crate.

use thiserror::Error;

/// Heads of an attention.
pub(crate) const MAX_HEADS: usize = 4096;

/// Buffers that do not fit together.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// A buffer whose length is not what the sizes say.
    #[error("{name}: expected {expected} values, given {given}")]
    Length {
        /// The buffer.
        name: &'static str,
        /// The length the sizes ask for.
        expected: usize,
        /// The length of the buffer.
        given: usize,
    },
    /// Fewer places than a cursor needs to move.
    #[error("places: expected at least 2, given {given}")]
    Places {
        /// The places asked for.
        given: usize,
    },
    /// More heads than any model has: strides of zero would make them of nothing.
    #[error("heads: expected at most {most}, given {given}", most = MAX_HEADS)]
    Heads {
        /// The heads asked for.
        given: usize,
    },
    /// Positions that a table of sinusoids does not reach.
    #[error("positions: expected within the {rows} rows of the table, given one outside")]
    Positions {
        /// Rows of the table.
        rows: usize,
    },
    /// Vectors of no width.
    #[error("width: expected at least 1, given 0")]
    Width,
    /// Codes beyond those that there are.
    #[error("codes: expected below {codes}, given one outside")]
    Codes {
        /// How many there are.
        codes: usize,
    },
    /// Plans of no codes, or of more than there are.
    #[error("slots: expected 1 to {most}, given {given}")]
    Slots {
        /// How many codes there are.
        most: usize,
        /// The slots asked for.
        given: usize,
    },
    /// More cursors that jump than there are cursors.
    #[error("jumping: expected at most {cursors} cursors, given {given}")]
    Jumping {
        /// All cursors.
        cursors: usize,
        /// Those that were said to jump.
        given: usize,
    },
}

/// Whether a buffer is as long as the sizes say.
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
