//! What can be wrong with a skeleton, a pose or an option.

/// Errors of this crate. Every message says what was expected and what was given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MotionError {
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
    /// The hierarchy is not a tree: an index out of range, or a cycle.
    #[error("skeleton: {0}")]
    Skeleton(String),
    /// Joints the canonical body cannot do without were not found by name.
    #[error(
        "skeleton cannot be mapped to the canonical body: no joint found for {missing}; its joints are {names}"
    )]
    Unmapped {
        /// The canonical joints that have no source.
        missing: String,
        /// The names the skeleton has.
        names: String,
    },
    /// Joints were found by name, but their hierarchy is not a body's.
    #[error("skeleton cannot be mapped to the canonical body: {child:?} should descend from {parent:?}")]
    Hierarchy {
        /// Source joint of the canonical child.
        child: String,
        /// Source joint of the canonical parent.
        parent: String,
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
    /// The scalars refused their configuration.
    #[error("scalars: {0}")]
    Scalars(String),
}
