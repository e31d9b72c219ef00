//! A value shared between the frame loop and the code that reads or changes its settings.

use std::sync::{Arc, Mutex, PoisonError};

/// A value with several owners, behind a mutex.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    /// Another handle to the same value, not a copy of it.
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    /// Wraps `value`; clones of the result share it.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Calls `f` with the value locked. Must not be called again from within `f`.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
