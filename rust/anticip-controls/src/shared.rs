//! A part that plays in every frame, and that others ask and tell meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

/// One part that several have; they take turns.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    /// The same part, not another like it.
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    /// A part of its own.
    #[must_use]
    pub fn new(part: T) -> Self {
        Self(Arc::new(Mutex::new(part)))
    }

    /// Does something with it; others wait meanwhile.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
