//! Objects shared by Python threads; waiting for one releases the GIL.

use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError, TryLockError};

/// A stream behind a mutex. `act` never touches Python objects ([`Send`] excludes them), so the holder of the
/// lock never waits for the GIL.
pub(crate) struct Shared<S>(Mutex<S>);

impl<S: Send> Shared<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(Mutex::new(stream))
    }

    /// For short work: the GIL is only released if another thread holds the stream.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, f: impl FnOnce(&mut S) -> R + Send) -> R {
        match self.0.try_lock() {
            Ok(mut stream) => f(&mut stream),
            Err(TryLockError::Poisoned(stream)) => f(&mut stream.into_inner()),
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
