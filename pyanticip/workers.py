"""Map a function over tasks in several processes, with a bounded queue; one worker runs in this process."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from multiprocessing.synchronize import Event
from typing import TypeVar

from pyanticip.errors import DeviceError, FormatError, OptionError, Terminated, reason

T = TypeVar("T")
R = TypeVar("R")

_MAX_WORKERS = 1000
"""Stays below the system's limit on processes."""
_UNWIND_S = 1.0
"""Time for all terminated workers together to remove their half-written files."""
_stopping: Event | None = None
"""In a worker: set when no further task is to begin."""
_is_working = False
"""In a worker: whether a task is under way."""


def _init_worker(stopping: Event) -> None:
    """Leave Ctrl-C to the parent, exit when the parent does, and unwind the stack on SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate)
    end_with_parent()
    global _stopping
    _stopping = stopping


def _terminate(*_: object) -> None:
    # Between tasks an exit, which prints nothing; in a task what no handler of third-party errors takes.
    raise Terminated if _is_working else SystemExit(1)


def _run(work: Callable[[T], R], task: T) -> R:
    """Run a task in a worker, unless the pool was told to stop while the task waited there."""
    if _stopping is not None and _stopping.is_set():
        raise CancelledError
    global _is_working
    try:
        _is_working = True
        return work(task)
    except (SystemExit, Terminated):  # the pool would take it for a result
        os._exit(1)
    finally:
        _is_working = False


def end_with_parent() -> None:
    """Exit when the parent process does, so that a killed command leaves no process behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


def needs_guard() -> None:
    """Refuse to go on in a worker that re-runs its parent's script: it would wait for the parent forever.

    Raises:
        OptionError: a script whose work is not under ``if __name__ == "__main__"``.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise OptionError("a script that starts workers does so under if __name__ == '__main__'")


@contextmanager
def _starting() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeviceError(f"worker processes cannot be started ({reason(error)})") from None


def spread(
    work: Callable[[T], R],
    tasks: Iterable[T],
    workers: int,
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[R]:
    """Yield the results of ``work`` as they complete, in no particular order.

    Ctrl-C calls ``on_wait`` and waits for the tasks that are being worked on; another one ends the workers.

    Args:
        work: a module-level function, so that it can be pickled.
        tasks: consumed lazily: at most twice as many as there are workers are submitted at a time.
        workers: number of processes, capped at 1000; 1 runs everything in this process.

    Raises:
        OptionError: ``workers`` is less than 1.
        FormatError: a worker process died.
        DeviceError: the system does not allow another process.
    """
    if workers < 1:
        raise OptionError(f"workers must be at least 1, got {workers}")
    if workers == 1:
        yield from map(work, tasks)
        return
    workers = min(workers, _MAX_WORKERS)
    # Not fork: the parent may have threads (rayon, a progress bar) that a forked copy would lack.
    context = multiprocessing.get_context("spawn")
    with _starting():
        stopping = context.Event()
        pool = ProcessPoolExecutor(
            workers, mp_context=context, initializer=_init_worker, initargs=(stopping,)
        )
    pending: set[Future[R]] = set()
    try:
        for task in tasks:
            if len(pending) >= 2 * workers:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
            with _starting():
                pending.add(pool.submit(_run, work, task))
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BrokenProcessPool:
        raise FormatError(
            "a worker process ended (out of memory? or a script without if __name__ == '__main__'?); what is "
            "finished is kept: run it again, with fewer workers"
        ) from None
    finally:
        try:
            stopping.set()
            if not all(future.done() for future in pending):
                on_wait()
            pool.shutdown(wait=True, cancel_futures=True)
        except KeyboardInterrupt:
            # Another Ctrl-C. Python now takes the pool's thread for ended, and would wait forever for workers
            # that nobody tells to end.
            children = multiprocessing.active_children()
            for worker in children:
                worker.terminate()
            end = time.monotonic() + _UNWIND_S
            try:
                for worker in children:
                    worker.join(max(end - time.monotonic(), 0.0))
            finally:
                for worker in children:
                    worker.kill()
            raise
