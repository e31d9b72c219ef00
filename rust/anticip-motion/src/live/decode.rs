//! Datagrams of the chosen protocol, handed on as poses and skeletons.

use anticip_wire::mocopi::{self, MocopiKind, MocopiPacket};
use anticip_wire::native::{self, NativeKind, NativePacket};
use anticip_wire::vmc::VmcAssembler;
use anticip_wire::{PoseUpdate, WireError};

use super::stage::{Clock, Stage};
use super::{Counters, Source};

/// The decoder of one protocol with its reused memory.
pub(super) enum Decoder {
    Mocopi(Box<MocopiPacket>),
    Vmc(Box<VmcAssembler>),
    Msgpack(Box<NativePacket>),
}

impl Decoder {
    pub(super) fn new(source: Source) -> Self {
        match source {
            Source::Mocopi => Self::Mocopi(Box::default()),
            Source::Vmc => Self::Vmc(Box::default()),
            Source::Msgpack => Self::Msgpack(Box::default()),
        }
    }

    pub(super) fn reset(&mut self) {
        if let Self::Vmc(assembler) = self {
            assembler.reset();
        }
    }

    /// Decodes one datagram and hands what it holds to the stage.
    pub(super) fn decode(
        &mut self,
        datagram: &[u8],
        arrival_ns: i64,
        stage: &mut Stage,
        counters: &mut Counters,
    ) {
        let result = match self {
            Self::Mocopi(packet) => mocopi::decode(datagram, packet).map(|kind| match kind {
                MocopiKind::Skeleton => stage.skeleton(&packet.skeleton, counters),
                MocopiKind::Frame => {
                    let clock = Clock {
                        number: packet.pose.seq,
                        seconds: packet.unix_time,
                    };
                    stage.frame(&packet.pose, clock, arrival_ns, counters);
                }
            }),
            Self::Vmc(assembler) => assembler.feed(datagram).map(|poses| {
                for pose in poses {
                    stage.frame(pose, clock_of(pose), arrival_ns, counters);
                }
            }),
            Self::Msgpack(packet) => native::decode(datagram, packet).map(|kind| match kind {
                NativeKind::Skeleton => stage.skeleton(&packet.skeleton, counters),
                NativeKind::Frame => stage.frame(&packet.pose, clock_of(&packet.pose), arrival_ns, counters),
            }),
        };
        match result {
            Ok(()) => {}
            Err(WireError::Alien { .. }) => counters.alien += 1,
            Err(WireError::Truncated { .. }) => counters.truncated += 1,
            Err(_) => counters.malformed += 1,
        }
    }
}

fn clock_of(pose: &PoseUpdate) -> Clock {
    Clock {
        number: pose.seq,
        seconds: pose.time,
    }
}
