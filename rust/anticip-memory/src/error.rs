//! What can be wrong with what is given to a memory.

/// Errors of this crate. Every message says what was expected and what was given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MemoryError {
    /// An array has the wrong number of entries.
    #[error("{what}: expected {expected}, got {given}")]
    Shape {
        /// Which array.
        what: &'static str,
        /// What it should hold.
        expected: String,
        /// What it holds.
        given: String,
    },
    /// An option is out of its range.
    #[error("{option}: expected {expected}, got {given}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Its range.
        expected: &'static str,
        /// The value.
        given: String,
    },
    /// There is no room for what should be remembered.
    #[error("a memory of {capacity} moments is full")]
    Full {
        /// How many moments there is room for.
        capacity: usize,
    },
    /// A take is rehearsed when the stream has already been learned from.
    #[error("rehearse before playing: moments of the stream have been learned already")]
    Played,
}
