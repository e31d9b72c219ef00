use thiserror::Error;

/// Why bytes are not the datagram they were taken for.
///
/// `at` is a byte offset into the datagram. Nothing in here allocates: a flood of garbage costs nothing
/// but the parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes belong to another protocol, or to a part of this one that carries no motion.
    #[error("not a {expected}")]
    Alien {
        /// What was expected.
        expected: &'static str,
    },
    /// A declared length reaches beyond the end of the datagram.
    #[error("cut short at byte {at}: {what} needs {needed} bytes, {left} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it starts.
        at: usize,
        /// How many bytes it needs.
        needed: usize,
        /// How many bytes are left.
        left: usize,
    },
    /// The structure holds, a value in it makes no sense.
    #[error("malformed datagram at byte {at}: {reason}")]
    Malformed {
        /// What is wrong and what was expected.
        reason: &'static str,
        /// Where.
        at: usize,
    },
    /// A body that is not whole, while what its joints are apart is not known.
    #[error("{found} of {needed} joints came: all are needed before the body can play")]
    Partial {
        /// How many joints came.
        found: usize,
        /// How many the body has.
        needed: usize,
    },
    /// A newer major version of the format than this program knows.
    #[error("{what} version {found} is newer than {known}, the newest this program reads")]
    Version {
        /// Which format.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// A value handed to an encoder cannot be written.
    #[error("cannot encode: {reason}")]
    Unencodable {
        /// What is wrong and what was expected.
        reason: &'static str,
    },
}
