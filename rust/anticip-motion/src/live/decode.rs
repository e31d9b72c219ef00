//! Datagrams of the chosen protocol, handed on as poses and skeletons.

use anticip_wire::WireError;
use anticip_wire::mocopi::{self, MocopiKind, MocopiPacket};
use anticip_wire::native::{self, NativeKind, NativePacket};
use anticip_wire::vmc::VmcAssembler;

use super::stage::Stage;
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

    /// Decodes one datagram and hands what it holds to the stage; true where a frame in it goes on as the stream does.
    pub(super) fn decode(
        &mut self,
        datagram: &[u8],
        arrival_ns: i64,
        stage: &mut Stage,
        counters: &mut Counters,
    ) -> bool {
        let result = match self {
            Self::Mocopi(packet) => mocopi::decode(datagram, packet).map(|kind| match kind {
                MocopiKind::Skeleton => {
                    stage.skeleton(&packet.skeleton, counters);
                    false
                }
                MocopiKind::Frame => stage.frame(&packet.pose, arrival_ns, counters),
            }),
            Self::Vmc(assembler) => assembler.feed(datagram).map(|poses| {
                let good = |pose| stage.frame(pose, arrival_ns, counters);
                poses.iter().map(good).fold(false, |any, good| any | good)
            }),
            Self::Msgpack(packet) => native::decode(datagram, packet).map(|kind| match kind {
                NativeKind::Skeleton => {
                    stage.skeleton(&packet.skeleton, counters);
                    false
                }
                NativeKind::Frame => stage.frame(&packet.pose, arrival_ns, counters),
            }),
        };
        result.unwrap_or_else(|error| {
            match error {
                WireError::Alien { .. } => counters.alien += 1,
                WireError::Truncated { .. } => counters.truncated += 1,
                _ => counters.malformed += 1,
            }
            false
        })
    }
}
