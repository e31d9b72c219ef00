//! Events that wait for their time.

use crate::error::SynthError;
use crate::params::Event;

/// So many can wait.
pub(crate) const QUEUE: usize = 64;

#[derive(Clone, Copy)]
struct Waiting {
    due: u64,
    event: Event,
    strength: f32,
}

/// Events, each with the sample that it is due at; nothing is ever allocated.
pub(crate) struct Queue([Option<Waiting>; QUEUE]);

impl Queue {
    pub(crate) fn new() -> Self {
        Self([None; QUEUE])
    }

    pub(crate) fn clear(&mut self) {
        self.0 = [None; QUEUE];
    }

    /// Lets an event wait.
    ///
    /// # Errors
    /// [`SynthError::QueueFull`].
    pub(crate) fn push(&mut self, due: u64, event: Event, strength: f32) -> Result<(), SynthError> {
        let slot = self.0.iter_mut().find(|slot| slot.is_none());
        *slot.ok_or(SynthError::QueueFull(QUEUE))? = Some(Waiting { due, event, strength });
        Ok(())
    }

    /// The events that are due before a sample, in the order in which they came to lie; they wait no longer.
    pub(crate) fn take(&mut self, end: u64) -> [Option<(Event, f32)>; QUEUE] {
        let mut due = [None; QUEUE];
        for (slot, found) in self.0.iter_mut().zip(&mut due) {
            if let Some(waiting) = slot.take_if(|waiting| waiting.due < end) {
                *found = Some((waiting.event, waiting.strength));
            }
        }
        due
    }
}
