//! Decoders and encoders for motion-capture datagrams: pure functions of bytes that never panic.
//!
//! [`PROTOCOLS`] lists the formats: Sony mocopi ([`mocopi`]), VMC over OSC ([`vmc`]), Xsens MVN ([`xsens`]), Rokoko
//! Studio ([`rokoko`]), Axis Studio ([`axis`]), OptiTrack ([`natnet`]), VRChat trackers ([`vrchat`]) and this project's
//! own msgpack datagrams ([`native`]). Each decoder is a [`Source`] and produces the same values: [`SkeletonUpdate`]
//! and [`PoseUpdate`], with transforms local to the parent joint, or [`TrackerUpdate`] for trackers without a skeleton.
//! All are in this project's convention: right-handed, y up, metres, seconds, quaternions `w, x, y, z` (Hamilton).
//!
//! Datagrams are untrusted. Every parser checks each declared length against the bytes that are there, bounds its
//! recursion, keeps no reference to the input and returns a value or one [`WireError`]. After the first frame only the
//! parsers of Rokoko's JSON and of NatNet allocate; the others reuse their buffers.
//!
//! [`recording`] frames the records of a recording file: magic, version, and a checksum per record.
#![forbid(unsafe_code)]

pub mod axis;
pub mod bundle;
mod bytes;
mod error;
mod frame_numbers;
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
mod world;
pub mod xsens;

pub use error::WireError;
pub use pose::{Joint, MAX_JOINTS, PoseUpdate, SkeletonUpdate, Tracker, TrackerUpdate};
pub use protocols::{PROTOCOLS, Protocol, recognise};
pub use source::{Source, Update};

/// CRC-32C (Castagnoli) of `data`, the checksum of iSCSI and of the recording format.
pub fn crc32c(data: &[u8]) -> u32 {
    ::crc32c::crc32c(data)
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc32c_matches_the_published_check_value() {
        // RFC 3720, appendix B.4, and the check value in the CRC catalogue.
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(super::crc32c(&[0u8; 32]), 0x8a91_36aa);
        assert_eq!(super::crc32c(b""), 0);
    }
}
