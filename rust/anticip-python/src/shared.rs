//! What Python's threads share: they take turns, and who waits does so without the interpreter.

use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError, TryLockError};

/// A stream that threads take in turns. Nothing of Python's is touched in a turn (whatever is [`Send`] has none of
/// it), so whoever has the stream needs nobody else to go on.
pub(crate) struct Shared<S>(Mutex<S>);

impl<S: Send> Shared<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(Mutex::new(stream))
    }

    /// A short turn: the interpreter is only let go where another thread has the stream.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, act: impl FnOnce(&mut S) -> R + Send) -> R {
        match self.0.try_lock() {
            Ok(mut stream) => act(&mut stream),
            Err(TryLockError::Poisoned(stream)) => act(&mut stream.into_inner()),
            Err(TryLockError::WouldBlock) => self.detached(py, act),
        }
    }

    /// A long turn: other threads of Python run meanwhile.
    pub(crate) fn detached<R: Send>(&self, py: Python<'_>, act: impl FnOnce(&mut S) -> R + Send) -> R {
        py.detach(|| self.turn(act))
    }

    /// A turn of somebody who has let the interpreter go.
    pub(crate) fn turn<R>(&self, act: impl FnOnce(&mut S) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
