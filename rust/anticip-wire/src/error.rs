use thiserror::Error;

/// Why bytes could not be decoded, or a value not encoded.
///
/// `at` is a byte offset into the datagram. No variant allocates, so a flood of garbage costs only the parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes belong to another protocol, or to a packet of this one that carries no motion.
    #[error("not a {expected}")]
    Alien {
        /// What was expected.
        expected: &'static str,
    },
    /// A declared length exceeds the end of the datagram.
    #[error("cut short at byte {at}: {what} needs {needed} bytes, {left} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Offset at which it starts.
        at: usize,
        /// How many bytes it needs.
        needed: usize,
        /// How many bytes are left.
        left: usize,
    },
    /// The lengths are consistent, but a value is invalid.
    #[error("malformed datagram at byte {at}: {reason}")]
    Malformed {
        /// What is wrong and what was expected.
        reason: &'static str,
        /// Offset of the value.
        at: usize,
    },
    /// Joints are missing before a complete frame has given the bone lengths.
    #[error("{found} of {needed} joints came: all are needed before the body can play")]
    Partial {
        /// Number of joints received.
        found: usize,
        /// Number of joints of the body.
        needed: usize,
    },
    /// The format's major version is newer than this program supports.
    #[error("{what} version {found} is newer than {known}, the newest this program reads")]
    Version {
        /// Name of the format.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The newest supported version.
        known: u32,
    },
    /// An encoder was given a value that the format cannot express.
    #[error("cannot encode: {reason}")]
    Unencodable {
        /// What is wrong and what was expected.
        reason: &'static str,
    },
}

impl WireError {
    pub(crate) const fn alien(expected: &'static str) -> Self {
        Self::Alien { expected }
    }

    pub(crate) const fn malformed(at: usize, reason: &'static str) -> Self {
        Self::Malformed { reason, at }
    }

    pub(crate) const fn unencodable(reason: &'static str) -> Self {
        Self::Unencodable { reason }
    }
}
