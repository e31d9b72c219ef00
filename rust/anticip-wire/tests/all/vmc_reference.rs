//! The VMC assembler against a slow reference implementation on top of `rosc`, for arbitrary packets.

use std::collections::BTreeMap;

use crate::common::osc::{bone, bundle, bytes, message, time};
use crate::invariants::Updates;
use anticip_wire::vmc::{BONE_NAMES, VmcAssembler};
use anticip_wire::{Joint, PoseUpdate};
use proptest::prelude::*;
use rosc::{OscMessage, OscPacket, OscType};

/// A reference implementation of frame assembly, for body bones.
#[derive(Default)]
struct Reference {
    pose: BTreeMap<u16, ([f32; 4], [f32; 3])>,
    fresh: Vec<u16>,
    received: Vec<u16>,
    previous: Vec<u16>,
    bundles: usize,
    was_single_bundle: bool,
    time: Option<f64>,
    /// A `T` before any bone of this bundle.
    leading_time: Option<f64>,
    /// Whether this bundle has a bone.
    has_bone: bool,
    /// Whether this bundle has a `T` after a bone.
    has_closing_time: bool,
    /// Whether the stream ever had a `T`.
    sends_time: bool,
    /// Whether the stream ever had a `T` after the bones of a bundle.
    sends_closing_time: bool,
    completed: Vec<PoseUpdate>,
}

impl Reference {
    fn feed(&mut self, packet: &OscPacket, is_bundled: bool) {
        match packet {
            OscPacket::Bundle(inner) => {
                if !is_bundled {
                    (self.leading_time, self.has_bone, self.has_closing_time) = (None, false, false);
                }
                inner.content.iter().for_each(|element| self.feed(element, true));
                if !is_bundled {
                    if let Some(seconds) = self.leading_time.take() {
                        (self.time, self.has_closing_time) = (Some(seconds), true);
                    }
                    if self.has_closing_time
                        || (!self.sends_closing_time && (self.was_single_bundle || self.is_complete()))
                    {
                        self.flush();
                    }
                }
            }
            OscPacket::Message(OscMessage { addr, args }) if addr == "/VMC/Ext/Bone/Pos" => {
                let Some(OscType::String(name)) = args.first() else {
                    return;
                };
                let floats: Vec<f32> = args[1..]
                    .iter()
                    .map_while(|arg| arg.clone().float())
                    .take(7)
                    .collect();
                let Some(id) = BONE_NAMES.iter().position(|bone| bone == name) else {
                    return;
                };
                let id = id as u16;
                if let Some(seconds) = self.leading_time.take() {
                    self.flush();
                    self.time = Some(seconds);
                }
                let is_first_hips = is_bundled && id == 0 && !self.has_bone && !self.sends_time;
                if is_first_hips || self.fresh.contains(&id) {
                    self.flush();
                }
                self.bundles += usize::from(is_bundled && !self.has_bone);
                self.has_bone = true;
                self.received.push(id);
                let Ok([px, py, pz, qx, qy, qz, qw]) = <[f32; 7]>::try_from(floats) else {
                    return;
                };
                self.fresh.push(id);
                self.pose.insert(id, ([-qw, qx, qy, -qz], [px, py, -pz]));
            }
            OscPacket::Message(OscMessage { addr, args }) if addr == "/VMC/Ext/T" => {
                let Some(OscType::Float(seconds)) = args.first() else {
                    return;
                };
                let seconds = Some(f64::from(*seconds));
                self.sends_time = true;
                if self.fresh.is_empty() {
                    self.time = seconds;
                } else if self.time.is_some() {
                    if self.time != seconds {
                        self.flush();
                    }
                    self.time = seconds;
                } else if !is_bundled {
                    self.time = seconds;
                    self.flush();
                } else if self.has_bone {
                    self.time = seconds;
                    (self.has_closing_time, self.sends_closing_time) = (true, true);
                } else {
                    self.leading_time = seconds;
                }
            }
            OscPacket::Message(_) => {}
        }
    }

    fn is_complete(&self) -> bool {
        self.previous.iter().all(|id| self.received.contains(id))
    }

    fn flush(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        self.was_single_bundle = self.bundles == 1 && !self.previous.is_empty() && self.is_complete();
        self.bundles = 0;
        let fresh = std::mem::take(&mut self.fresh);
        self.previous = std::mem::take(&mut self.received);
        (self.has_bone, self.has_closing_time) = (false, false);
        let joints: Vec<_> = self
            .pose
            .iter()
            .map(|(id, (rotation, position))| Joint {
                id: *id,
                rotation: *rotation,
                position: *position,
                fresh: fresh.contains(id),
            })
            .collect();
        let root = self.pose.get(&0).map(|(_, position)| *position);
        self.completed.push(PoseUpdate {
            time: self.time.take(),
            root,
            joints,
            ..PoseUpdate::default()
        });
    }
}

fn any_message() -> impl Strategy<Value = OscPacket> {
    let floats = |count: std::ops::Range<usize>| prop::collection::vec(-1.0f32..1.0, count);
    let valid = prop::array::uniform7(-1.0f32..1.0).prop_map(|mut v| {
        v[6] += 2.0;
        v.to_vec()
    });
    prop_oneof![
        6 => (0..8usize, valid).prop_map(|(id, v)| bone(BONE_NAMES[id], &v)),
        1 => (0..8usize, floats(0..7)).prop_map(|(id, v)| bone(BONE_NAMES[id], &v)),
        2 => (0.0f32..100.0).prop_map(time),
        1 => ("/[a-zA-Z/]{0,12}", floats(0..4), any::<i32>(), prop::collection::vec(any::<u8>(), 0..9), "[ -~]{0,9}")
            .prop_map(|(addr, v, i, blob, text)| {
                let mut args: Vec<_> = v.into_iter().map(OscType::Float).collect();
                args.extend([OscType::Int(i), OscType::Blob(blob), OscType::String(text)]);
                args.extend([OscType::Bool(true), OscType::Nil]);
                message(&addr, args)
            }),
    ]
}

fn any_packet() -> impl Strategy<Value = OscPacket> {
    any_message().prop_recursive(4, 40, 8, |inner| {
        prop::collection::vec(inner, 0..8).prop_map(bundle)
    })
}

proptest! {
    #[test]
    fn frames_agree_with_the_reference(packets in prop::collection::vec(any_packet(), 1..40)) {
        let mut assembler = VmcAssembler::default();
        let mut reference = Reference::default();
        let mut updates = Updates::default();
        for packet in &packets {
            let raw = bytes(packet);
            let (_, read) = rosc::decoder::decode_udp(&raw).unwrap();
            reference.feed(&read, false);
            // A datagram without any readable bone is an error, but its other messages still count.
            let _ = updates.decode(&mut assembler, &raw);
        }
        prop_assert_eq!(updates.frames, reference.completed);
    }
}
