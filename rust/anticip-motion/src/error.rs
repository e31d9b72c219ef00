//! Errors about skeletons, poses and options.

/// Errors of this crate. Every message states what was expected and what was given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MotionError {
    /// An array has the wrong number of entries.
    #[error("{what}: expected {expected}, got {given}")]
    Shape {
        /// Name of the array.
        what: &'static str,
        /// Expected size.
        expected: String,
        /// Actual size.
        given: String,
    },
    /// The hierarchy is not a tree: an index is out of range, or there is a cycle.
    #[error("skeleton: {0}")]
    Skeleton(String),
    /// Joints that the canonical body requires were not found by name.
    #[error(
        "skeleton cannot be mapped to the canonical body: no joint found for {missing}; its joints are {names}"
    )]
    Unmapped {
        /// Canonical joints without a source.
        missing: String,
        /// Names in the skeleton.
        names: String,
    },
    /// Joints were found by name, but their hierarchy is not that of a body.
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
        /// Allowed range.
        expected: &'static str,
        /// Actual value.
        given: String,
    },
    /// The configuration of the scalars is invalid.
    #[error("scalars: {0}")]
    Scalars(String),
}

/// Fails with the error of an option unless `is_valid`.
pub(crate) fn check(
    is_valid: bool,
    option: &'static str,
    expected: &'static str,
    given: impl ToString,
) -> Result<(), MotionError> {
    if is_valid {
        return Ok(());
    }
    Err(MotionError::Option {
        option,
        expected,
        given: given.to_string(),
    })
}
