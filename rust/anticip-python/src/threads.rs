//! Calls that compute on several threads.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The process that loaded the module, whose global pool rayon starts.
static LOADED_BY: AtomicU32 = AtomicU32::new(0);

/// The pool of a forked process. Only such processes lock it, so it is never copied in a locked state from the process
/// that loaded the module.
static FORKED: Mutex<Option<(u32, &ThreadPool)>> = Mutex::new(None);

pub(crate) fn loaded() {
    LOADED_BY.store(process::id(), Ordering::Relaxed);
}

/// Runs `f`, which uses rayon, without the GIL.
///
/// A forked process has a copy of the global pool but not its threads, and would wait for them forever. It therefore
/// gets a pool of its own.
pub(crate) fn in_parallel<R: Send>(py: Python<'_>, f: impl FnOnce() -> R + Send) -> R {
    py.detach(|| {
        let process = process::id();
        if process == LOADED_BY.load(Ordering::Relaxed) {
            f()
        } else {
            forked_pool(process).install(f)
        }
    })
}

fn forked_pool(process: u32) -> &'static ThreadPool {
    let mut made = FORKED.lock().unwrap_or_else(PoisonError::into_inner);
    match *made {
        Some((maker, pool)) if maker == process => pool,
        _ => {
            let pool = ThreadPoolBuilder::new().build().expect("threads can be started");
            // Never dropped: a copy of it in a process forked later cannot be shut down.
            let pool: &'static ThreadPool = Box::leak(Box::new(pool));
            *made = Some((process, pool));
            pool
        }
    }
}
