//! What can be wrong with a model's weights.

/// Errors of this crate. Every message says what was expected and what was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A tensor is missing or has another shape, or sizes do not fit together.
    #[error("{what}: expected {expected}, got {given}")]
    Shape {
        /// Which tensor or sizes.
        what: String,
        /// What it should be.
        expected: String,
        /// What it is.
        given: String,
    },
}
