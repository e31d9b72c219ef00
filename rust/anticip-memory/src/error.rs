//! Errors of this crate.

/// Errors of this crate. Every message states what was expected and what was received.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MemoryError {
    /// An array has the wrong number of entries.
    #[error("{what}: expected {expected}, got {given}")]
    Shape {
        /// Name of the array.
        what: &'static str,
        /// The expected size.
        expected: String,
        /// The actual size.
        given: String,
    },
    /// An option is out of its range.
    #[error("{option}: expected {expected}, got {given}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The allowed range.
        expected: &'static str,
        /// The value.
        given: String,
    },
    /// The memory has no room for the moments.
    #[error("a memory of {capacity} moments is full")]
    Full {
        /// The number of moments it holds.
        capacity: usize,
    },
    /// A take was rehearsed after moments of the stream had been learned.
    #[error("rehearse before playing: moments of the stream have been learned already")]
    Played,
}
