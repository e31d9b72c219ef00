//! The registry of protocols, and detection of a datagram's protocol.

use crate::source::Source;
use crate::{axis, mocopi, native, natnet, osc, rokoko, vmc, vrchat, xsens};

/// One protocol.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// Name in options and status, for example `mocopi`.
    pub name: &'static str,
    /// Creates a decoder.
    pub open: fn() -> Box<dyn Source>,
    /// Whether a datagram looks like this protocol, even if it is incomplete or unusable.
    pub recognises: fn(&[u8]) -> bool,
}

const fn protocol<S: Source + Default + 'static>(
    name: &'static str,
    recognises: fn(&[u8]) -> bool,
) -> Protocol {
    Protocol {
        name,
        open: || Box::<S>::default(),
        recognises,
    }
}

/// All protocols, the most common first.
pub const PROTOCOLS: [Protocol; 8] = [
    protocol::<mocopi::MocopiDecoder>("mocopi", mocopi::recognises),
    protocol::<vmc::VmcAssembler>("vmc", vmc::recognises),
    protocol::<xsens::XsensAssembler>("xsens", xsens::recognises),
    protocol::<rokoko::RokokoDecoder>("rokoko", rokoko::recognises),
    protocol::<axis::AxisDecoder>("axis", axis::recognises),
    protocol::<natnet::NatnetDecoder>("natnet", natnet::recognises),
    protocol::<native::NativeDecoder>("msgpack", native::recognises),
    protocol::<vrchat::VrchatAssembler>("vrchat", vrchat::recognises),
];

/// Suffix of the address of ZIG SIM's quaternion, after the phone's name. The addresses of other apps (`/quaternion`,
/// `/gyrosc/quat`) are not recognised, as their quaternions may start with w. A phone's other messages (acceleration,
/// rotation vectors) decide nothing: they cannot be played, and the quaternion may follow in the same bundle.
const QUATERNION_SUFFIX: &[u8] = b"/quaternion";

/// Detects the kind of sender of a datagram: a protocol's name, `wek` (Wekinator inputs), `phone`, `osc` for any other
/// OSC, or `None`.
pub fn recognise(datagram: &[u8]) -> Option<&'static str> {
    if let Some(protocol) = PROTOCOLS.iter().find(|p| (p.recognises)(datagram)) {
        return Some(protocol.name);
    }
    osc::check(datagram).ok()?;
    let mut kind = None;
    // Any message of a bundle decides; a specific kind wins over `osc`.
    osc::walk(datagram, &mut |message| match message.map(|m| m.address) {
        Some(_) if kind.is_some_and(|known| known != "osc") => {}
        Some(b"/wek/inputs") => kind = Some("wek"),
        Some(at) if at.ends_with(QUATERNION_SUFFIX) && at != QUATERNION_SUFFIX => kind = Some("phone"),
        Some(_) => kind = Some("osc"),
        None => {}
    });
    kind
}
