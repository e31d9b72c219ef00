//! The error type of this crate, and checks of buffers.

use thiserror::Error;

/// Buffers or sizes that do not fit together.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// A buffer whose length does not match the sizes.
    #[error("{name}: expected {expected} values, got {given}")]
    Length {
        /// The buffer.
        name: &'static str,
        /// The length required by the sizes.
        expected: usize,
        /// The length of the buffer.
        given: usize,
    },
    /// A size or an index out of its range.
    #[error("{name}: expected {expected}, got {given}")]
    Range {
        /// The size or index.
        name: &'static str,
        /// Its range.
        expected: String,
        /// The value.
        given: String,
    },
}

/// The error of a size or an index out of its range.
#[cold]
pub(crate) fn range(name: &'static str, expected: impl Into<String>, given: impl ToString) -> KernelError {
    KernelError::Range {
        name,
        expected: expected.into(),
        given: given.to_string(),
    }
}

/// Checks that a size is not 0.
pub(crate) fn check_positive(name: &'static str, given: usize) -> Result<(), KernelError> {
    if given > 0 {
        return Ok(());
    }
    Err(range(name, "at least 1", given))
}

/// The `count` chunks of an optional buffer; each is `None` if there is no buffer.
pub(crate) fn chunks<T>(buffer: Option<&mut [T]>, length: usize, count: usize) -> Vec<Option<&mut [T]>> {
    match buffer {
        Some(buffer) => buffer.chunks_mut(length).map(Some).collect(),
        None => (0..count).map(|_| None).collect(),
    }
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
