//! Events waiting for their time.

use crate::error::SynthError;
use crate::params::Event;

/// Capacity of the queue.
pub(crate) const QUEUE_SIZE: usize = 64;

#[derive(Clone, Copy)]
struct QueuedEvent {
    due: u64,
    event: Event,
    strength: f32,
}

/// Events with the sample at which they are due; never allocates.
pub(crate) struct Queue([Option<QueuedEvent>; QUEUE_SIZE]);

impl Queue {
    pub(crate) fn new() -> Self {
        Self([None; QUEUE_SIZE])
    }

    pub(crate) fn clear(&mut self) {
        self.0 = [None; QUEUE_SIZE];
    }

    /// Adds an event.
    ///
    /// # Errors
    /// [`SynthError::QueueFull`].
    pub(crate) fn push(&mut self, due: u64, event: Event, strength: f32) -> Result<(), SynthError> {
        let slot = self.0.iter_mut().find(|slot| slot.is_none());
        *slot.ok_or(SynthError::QueueFull(QUEUE_SIZE))? = Some(QueuedEvent { due, event, strength });
        Ok(())
    }

    /// Removes and returns the events due before sample `end`, in slot order.
    pub(crate) fn take(&mut self, end: u64) -> [Option<(Event, f32)>; QUEUE_SIZE] {
        let mut due = [None; QUEUE_SIZE];
        for (slot, slot_out) in self.0.iter_mut().zip(&mut due) {
            if let Some(queued) = slot.take_if(|queued| queued.due < end) {
                *slot_out = Some((queued.event, queued.strength));
            }
        }
        due
    }
}
