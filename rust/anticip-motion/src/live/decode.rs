//! Decoding of datagrams into poses and skeletons.

use anticip_wire::{Update, WireError};

use super::stage::Stage;
use super::{Counters, Source};
use crate::trackers::Trackers;

/// The decoder of one protocol with its reused buffers.
pub(super) struct Decoder {
    source: Box<dyn anticip_wire::Source>,
    /// Solves bodies of trackers; created when the first ones come.
    trackers: Option<Trackers>,
}

impl Decoder {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source: source.open(),
            trackers: None,
        }
    }

    pub(super) fn unplayed_reason(&self) -> Option<&'static str> {
        self.source.unplayed_reason()
    }

    /// Decodes one datagram and passes its content to the stage; returns true if it held a new frame of the stream.
    pub(super) fn decode(
        &mut self,
        datagram: &[u8],
        arrival_ns: i64,
        stage: &mut Stage,
        counters: &mut Counters,
    ) -> bool {
        let mut has_frame = false;
        let result = self.source.decode(datagram, &mut |update| match update {
            Update::Skeleton(skeleton) => {
                if self.trackers.take().is_some() {
                    stage.set_position_only(0);
                }
                stage.set_skeleton(skeleton, counters);
            }
            Update::Frame(pose) => has_frame |= stage.push_frame(pose, arrival_ns, counters),
            Update::Late(number) => stage.count_late(number, counters),
            Update::Trackers(update) => {
                let trackers = self.trackers.get_or_insert_with(|| {
                    stage.set_skeleton(&Trackers::skeleton(), counters);
                    Trackers::default()
                });
                if let Some((pose, position_only)) = trackers.solve(update) {
                    stage.set_position_only(position_only);
                    has_frame |= stage.push_frame(pose, arrival_ns, counters);
                }
            }
        });
        match result {
            Ok(()) => {}
            Err(WireError::Alien { .. }) => counters.alien += 1,
            Err(WireError::Truncated { .. }) => counters.truncated += 1,
            Err(_) => counters.malformed += 1,
        }
        has_frame
    }
}
