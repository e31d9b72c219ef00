//! Builders of VMC messages.

use anticip_wire::vmc::BONES;
use anticip_wire::{Joint, PoseUpdate};
use rosc::{OscBundle, OscMessage, OscPacket, OscTime, OscType};

/// A message.
pub(crate) fn message(addr: &str, args: Vec<OscType>) -> OscPacket {
    OscPacket::Message(OscMessage {
        addr: addr.to_owned(),
        args,
    })
}

/// A message with a name and floats.
pub(crate) fn transform(addr: &str, name: &str, floats: &[f32]) -> OscPacket {
    let mut args = vec![OscType::String(name.to_owned())];
    args.extend(floats.iter().copied().map(OscType::Float));
    message(addr, args)
}

/// A bone message: position and rotation.
pub(crate) fn bone(name: &str, floats: &[f32]) -> OscPacket {
    transform("/VMC/Ext/Bone/Pos", name, floats)
}

/// A time message.
pub(crate) fn time(seconds: f32) -> OscPacket {
    message("/VMC/Ext/T", vec![OscType::Float(seconds)])
}

/// A bundle.
pub(crate) fn bundle(content: Vec<OscPacket>) -> OscPacket {
    OscPacket::Bundle(OscBundle {
        timetag: OscTime {
            seconds: 0,
            fractional: 1,
        },
        content,
    })
}

/// The encoded packet.
pub(crate) fn bytes(packet: &OscPacket) -> Vec<u8> {
    rosc::encoder::encode(packet).unwrap()
}

/// A rotation by `angle` about x, as a bone's floats.
pub(crate) fn turned(angle: f32) -> [f32; 7] {
    [0.1, 0.2, 0.3, (angle / 2.0).sin(), 0.0, 0.0, (angle / 2.0).cos()]
}

/// A frame with all bones.
pub(crate) fn full_pose() -> PoseUpdate {
    let joints = (0..BONES as u16)
        .map(|id| Joint::new(id, [0.8, 0.6, 0.0, 0.0], [0.0, 0.1, f32::from(id)]))
        .collect();
    PoseUpdate {
        time: Some(12.5),
        root: Some([0.0, 0.1, 0.0]),
        joints,
        ..PoseUpdate::default()
    }
}
