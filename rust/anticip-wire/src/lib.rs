//! Datagrams of motion-capture systems, decoded and encoded; pure functions of bytes that never panic.
//!
//! What comes in ([`PROTOCOLS`]): Sony mocopi ([`mocopi`]), VMC over OSC ([`vmc`]), Xsens MVN ([`xsens`]), Rokoko Studio
//! ([`rokoko`]), Axis Studio ([`axis`]), OptiTrack ([`natnet`]), VRChat's trackers ([`vrchat`]) and this project's own msgpack datagrams ([`native`]). Each is a
//! [`Source`] and becomes the same values: [`SkeletonUpdate`] and [`PoseUpdate`], every rotation local to its parent, or, of parts that are no skeleton, [`TrackerUpdate`],
//! already in this project's convention: right-handed, y up, metres, seconds, unit quaternions `w, x, y, z` (Hamilton).
//!
//! A datagram is untrusted. Every parser checks each declared length against what is really there, bounds
//! its recursion, keeps no reference to the input and answers with a value or one [`WireError`]. After the
//! first frame no parser allocates but that of JSON: callers hand in the value to overwrite.
//!
//! [`recording`] is the framing of recorded shows: magic, version, and records with a checksum each.
#![forbid(unsafe_code)]

pub mod axis;
pub mod bundle;
mod bytes;
mod error;
mod figure;
pub mod mocopi;
mod msgpack;
pub mod native;
pub mod natnet;
mod osc;
mod pose;
mod protocols;
pub mod recording;
pub mod rokoko;
mod source;
pub mod vmc;
pub mod vrchat;
pub mod xsens;

pub use error::WireError;
pub use pose::{Joint, MAX_JOINTS, PoseUpdate, SkeletonUpdate, Tracker, TrackerUpdate};
pub use protocols::{PROTOCOLS, Protocol, recognise};
pub use source::{Source, Update};

/// CRC-32C (Castagnoli) of `data`, as iSCSI and the recording format use it.
pub fn crc32c(data: &[u8]) -> u32 {
    ::crc32c::crc32c(data)
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc32c_matches_the_published_check_value() {
        // RFC 3720, appendix B.4, and the check value of the CRC catalogue.
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(super::crc32c(&[0u8; 32]), 0x8a91_36aa);
        assert_eq!(super::crc32c(b""), 0);
    }
}
