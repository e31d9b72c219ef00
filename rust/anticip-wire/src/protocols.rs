//! The registry of protocols, and detection of a datagram's protocol.

use crate::source::Source;

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

fn open<S: Source + Default + 'static>() -> Box<dyn Source> {
    Box::<S>::default()
}

/// All protocols, the most common first.
pub const PROTOCOLS: [Protocol; 8] = [
    Protocol {
        name: "mocopi",
        open: open::<crate::mocopi::MocopiPacket>,
        recognises: crate::mocopi::recognises,
    },
    Protocol {
        name: "vmc",
        open: open::<crate::vmc::VmcAssembler>,
        recognises: crate::vmc::recognises,
    },
    Protocol {
        name: "xsens",
        open: open::<crate::xsens::XsensAssembler>,
        recognises: crate::xsens::recognises,
    },
    Protocol {
        name: "rokoko",
        open: open::<crate::rokoko::RokokoDecoder>,
        recognises: crate::rokoko::recognises,
    },
    Protocol {
        name: "axis",
        open: open::<crate::axis::AxisDecoder>,
        recognises: crate::axis::recognises,
    },
    Protocol {
        name: "natnet",
        open: open::<crate::natnet::NatnetDecoder>,
        recognises: crate::natnet::recognises,
    },
    Protocol {
        name: "msgpack",
        open: open::<crate::native::NativePacket>,
        recognises: crate::native::recognises,
    },
    Protocol {
        name: "vrchat",
        open: open::<crate::vrchat::VrchatAssembler>,
        recognises: crate::vrchat::recognises,
    },
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
    crate::osc::check(datagram).ok()?;
    let mut kind = None;
    // Any message of a bundle decides; a specific kind wins over `osc`.
    crate::osc::walk(datagram, &mut |message| match message.map(|m| m.address) {
        Some(_) if kind.is_some_and(|known| known != "osc") => {}
        Some(b"/wek/inputs") => kind = Some("wek"),
        Some(at) if at.ends_with(QUATERNION_SUFFIX) && at != QUATERNION_SUFFIX => kind = Some("phone"),
        Some(_) => kind = Some("osc"),
        None => {}
    });
    kind
}
