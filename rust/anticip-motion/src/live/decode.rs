//! Datagrams of the chosen protocol, handed on as poses and skeletons.

use anticip_wire::{Update, WireError};

use super::stage::Stage;
use super::{Counters, Source};
use crate::trackers::Trackers;

/// The decoder of one protocol with its reused memory.
pub(super) struct Decoder {
    source: Box<dyn anticip_wire::Source>,
    /// What makes a body of trackers, where such come.
    trackers: Option<Trackers>,
}

impl Decoder {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source: source.open(),
            trackers: None,
        }
    }

    pub(super) fn left_out(&self) -> Option<&'static str> {
        self.source.left_out()
    }

    /// Decodes one datagram and hands what it holds to the stage; true where a frame in it goes on as the stream does.
    pub(super) fn decode(
        &mut self,
        datagram: &[u8],
        arrival_ns: i64,
        stage: &mut Stage,
        counters: &mut Counters,
    ) -> bool {
        let mut good = false;
        let result = self.source.decode(datagram, &mut |update| match update {
            Update::Skeleton(skeleton) => {
                if self.trackers.take().is_some() {
                    stage.places(0);
                }
                stage.skeleton(skeleton, counters);
            }
            Update::Frame(pose) => good |= stage.frame(pose, arrival_ns, counters),
            Update::Past(number) => stage.past(number, counters),
            Update::Trackers(update) => {
                let trackers = self.trackers.get_or_insert_with(|| {
                    stage.skeleton(&Trackers::skeleton(), counters);
                    Trackers::default()
                });
                if let Some((pose, placed)) = trackers.solve(update) {
                    stage.places(placed);
                    good |= stage.frame(pose, arrival_ns, counters);
                }
            }
        });
        match result {
            Ok(()) => {}
            Err(WireError::Alien { .. }) => counters.alien += 1,
            Err(WireError::Truncated { .. }) => counters.truncated += 1,
            Err(_) => counters.malformed += 1,
        }
        good
    }
}
