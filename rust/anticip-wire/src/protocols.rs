//! Which protocols there are, and whose a datagram is.

use crate::source::Source;

/// A protocol.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// What users call it.
    pub name: &'static str,
    /// A decoder that has seen nothing.
    pub open: fn() -> Box<dyn Source>,
    /// Whether a datagram looks like one of these, whole and usable or not.
    pub recognises: fn(&[u8]) -> bool,
}

/// A decoder of that type which has seen nothing.
fn new<S: Source + Default + 'static>() -> Box<dyn Source> {
    Box::<S>::default()
}

/// The protocols, the most usual first.
pub const PROTOCOLS: [Protocol; 8] = [
    Protocol {
        name: "mocopi",
        open: new::<crate::mocopi::MocopiPacket>,
        recognises: crate::mocopi::recognises,
    },
    Protocol {
        name: "vmc",
        open: new::<crate::vmc::VmcAssembler>,
        recognises: crate::vmc::recognises,
    },
    Protocol {
        name: "xsens",
        open: new::<crate::xsens::XsensAssembler>,
        recognises: crate::xsens::recognises,
    },
    Protocol {
        name: "rokoko",
        open: new::<crate::rokoko::RokokoDecoder>,
        recognises: crate::rokoko::recognises,
    },
    Protocol {
        name: "axis",
        open: new::<crate::axis::AxisDecoder>,
        recognises: crate::axis::recognises,
    },
    Protocol {
        name: "natnet",
        open: new::<crate::natnet::NatnetDecoder>,
        recognises: crate::natnet::recognises,
    },
    Protocol {
        name: "msgpack",
        open: new::<crate::native::NativePacket>,
        recognises: crate::native::recognises,
    },
    Protocol {
        name: "vrchat",
        open: new::<crate::vrchat::VrchatAssembler>,
        recognises: crate::vrchat::recognises,
    },
];

/// The end of the address of ZIG SIM's quaternion, behind a name of the phone. Only that: those of other apps (`/quaternion`,
/// `/gyrosc/quat`) may begin with w. A phone's other messages (acceleration, rotation vectors) tell nothing: none of them
/// can be played as a phone's, and its quaternion may come beside them.
const QUATERNION: &[u8] = b"/quaternion";

/// The kind of sender a datagram is from, by its looks: a protocol's name, `wek`, `phone`, or `osc` for OSC
/// of somebody else's; none where it is nothing known.
pub fn recognise(datagram: &[u8]) -> Option<&'static str> {
    if let Some(protocol) = PROTOCOLS.iter().find(|p| (p.recognises)(datagram)) {
        return Some(protocol.name);
    }
    crate::osc::check(datagram).ok()?;
    let mut kind = None;
    // In any message of a bundle.
    crate::osc::walk(datagram, &mut |message| match message.map(|m| m.address) {
        Some(_) if kind.is_some_and(|known| known != "osc") => {}
        Some(b"/wek/inputs") => kind = Some("wek"),
        Some(at) if at.ends_with(QUATERNION) && at != QUATERNION => kind = Some("phone"),
        Some(_) => kind = Some("osc"),
        None => {}
    });
    kind
}
