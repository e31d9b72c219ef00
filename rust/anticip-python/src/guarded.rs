//! Objects shared by Python threads; waiting for one releases the GIL.

use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError, TryLockError};

/// A value behind a mutex. What is called with it never touches Python objects ([`Send`] excludes them), so the
/// holder of the lock never waits for the GIL.
pub(crate) struct Guarded<S>(Mutex<S>);

impl<S: Send> Guarded<S> {
    pub(crate) fn new(value: S) -> Self {
        Self(Mutex::new(value))
    }

    /// For short work: the GIL is only released if another thread holds the value.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, f: impl FnOnce(&mut S) -> R + Send) -> R {
        match self.0.try_lock() {
            Ok(mut value) => f(&mut value),
            Err(TryLockError::Poisoned(value)) => f(&mut value.into_inner()),
            Err(TryLockError::WouldBlock) => self.detached(py, f),
        }
    }

    /// For long work: the GIL is released, so other Python threads run meanwhile.
    pub(crate) fn detached<R: Send>(&self, py: Python<'_>, f: impl FnOnce(&mut S) -> R + Send) -> R {
        py.detach(|| self.locked(f))
    }

    /// For callers that have released the GIL already.
    pub(crate) fn locked<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
