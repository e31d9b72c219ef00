//! VMC against a slow reading of what `rosc` decodes, on any packets.

use std::collections::BTreeMap;

use crate::common::osc::{bone, bundle, bytes, message, time};
use anticip_wire::vmc::{BONE_NAMES, VmcAssembler};
use anticip_wire::{Joint, PoseUpdate};
use proptest::prelude::*;
use rosc::{OscMessage, OscPacket, OscType};

/// The definition once more, slowly, on what rosc decodes, for bones of the body.
#[derive(Default)]
struct Reference {
    pose: BTreeMap<u16, ([f32; 4], [f32; 3])>,
    fresh: Vec<u16>,
    told: Vec<u16>,
    usual: Vec<u16>,
    bundles: usize,
    single: bool,
    time: Option<f64>,
    /// Of this bundle: a `T` before any bone, whether there was a bone, whether a `T` came after one.
    opening: Option<f64>,
    has_bone: bool,
    closes: bool,
    /// Of the stream.
    timed: bool,
    time_closes: bool,
    done: Vec<PoseUpdate>,
}

impl Reference {
    fn feed(&mut self, packet: &OscPacket, bundled: bool) {
        match packet {
            OscPacket::Bundle(inner) => {
                if !bundled {
                    (self.opening, self.has_bone, self.closes) = (None, false, false);
                }
                inner.content.iter().for_each(|element| self.feed(element, true));
                if !bundled {
                    if let Some(seconds) = self.opening.take() {
                        (self.time, self.closes) = (Some(seconds), true);
                    }
                    if self.closes || (!self.time_closes && (self.single || self.whole())) {
                        self.end();
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
                if let Some(seconds) = self.opening.take() {
                    self.end();
                    self.time = Some(seconds);
                }
                let begins = bundled && id == 0 && !self.has_bone && !self.timed;
                if begins || self.fresh.contains(&id) {
                    self.end();
                }
                self.bundles += usize::from(bundled && !self.has_bone);
                self.has_bone = true;
                self.told.push(id);
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
                self.timed = true;
                if self.fresh.is_empty() {
                    self.time = seconds;
                } else if self.time.is_some() {
                    if self.time != seconds {
                        self.end();
                    }
                    self.time = seconds;
                } else if !bundled {
                    self.time = seconds;
                    self.end();
                } else if self.has_bone {
                    self.time = seconds;
                    (self.closes, self.time_closes) = (true, true);
                } else {
                    self.opening = seconds;
                }
            }
            OscPacket::Message(_) => {}
        }
    }

    fn whole(&self) -> bool {
        self.usual.iter().all(|id| self.told.contains(id))
    }

    fn end(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        self.single = self.bundles == 1 && !self.usual.is_empty() && self.whole();
        self.bundles = 0;
        let fresh = std::mem::take(&mut self.fresh);
        self.usual = std::mem::take(&mut self.told);
        (self.has_bone, self.closes) = (false, false);
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
        self.done.push(PoseUpdate {
            time: self.time.take(),
            root,
            joints,
            ..PoseUpdate::default()
        });
    }
}

fn any_message() -> impl Strategy<Value = OscPacket> {
    let floats = |count: std::ops::Range<usize>| prop::collection::vec(-1.0f32..1.0, count);
    let usable = prop::array::uniform7(-1.0f32..1.0).prop_map(|mut v| {
        v[6] += 2.0;
        v.to_vec()
    });
    prop_oneof![
        6 => (0..8usize, usable).prop_map(|(id, v)| bone(BONE_NAMES[id], &v)),
        1 => (0..8usize, floats(0..7)).prop_map(|(id, v)| bone(BONE_NAMES[id], &v)),
        2 => (0.0f32..100.0).prop_map(time),
        1 => ("/[a-zA-Z/]{0,12}", floats(0..4), any::<i32>(), prop::collection::vec(any::<u8>(), 0..9), "[ -~]{0,9}")
            .prop_map(|(addr, v, i, blob, text)| {
                let mut args: Vec<_> = v.into_iter().map(OscType::Float).collect();
                args.extend([OscType::Int(i), OscType::Blob(blob), OscType::String(text), OscType::Bool(true), OscType::Nil]);
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
    fn the_borrowed_parse_agrees_with_rosc(packets in prop::collection::vec(any_packet(), 1..40)) {
        let mut assembler = VmcAssembler::new();
        let mut reference = Reference::default();
        let mut done = Vec::new();
        for packet in &packets {
            let raw = bytes(packet);
            let (_, read) = rosc::decoder::decode_udp(&raw).unwrap();
            reference.feed(&read, false);
            // A datagram of which no bone can be read is an error, and whatever else it says holds.
            let _ = assembler.feed(&raw);
            done.extend_from_slice(assembler.poses());
        }
        prop_assert_eq!(done, reference.done);
    }
}
