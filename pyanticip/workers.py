"""Work in several processes with little waiting in memory; one process works in place."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import TypeVar

from pyanticip.errors import FormatError, OptionError

T = TypeVar("T")
R = TypeVar("R")

_MOST = 1000
"""What a system counts its processes by has an end."""


def _start() -> None:
    """Ctrl-C is for the parent, and who loses the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def end_with_parent() -> None:
    """Who loses the parent ends: a killed command leaves no process behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


def needs_guard() -> None:
    """Refuse to go on in a worker that runs its parent's script once more, before it waits for the parent.

    Raises:
        OptionError: a script whose work is not under ``if __name__ == "__main__"``.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise OptionError("a script that starts workers does so under if __name__ == '__main__'")


def spread(work: Callable[[T], R], tasks: Iterable[T], workers: int) -> Iterator[R]:
    """Results of ``work`` as they come, in no particular order.

    Args:
        work: a function of a module.
        tasks: taken as there is room: twice as many as workers are under way.
        workers: processes, a thousand at most; with 1 everything happens here.

    Raises:
        OptionError: no worker.
        FormatError: a worker process ended before its time.
    """
    if workers < 1:
        raise OptionError(f"workers must be at least 1, given {workers}")
    if workers == 1:
        yield from map(work, tasks)
        return
    workers = min(workers, _MOST)
    # Not by fork: the parent may have threads (rayon, a progress bar) that a copy would not.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start)
    under_way: set[Future[R]] = set()
    try:
        for task in tasks:
            if len(under_way) >= 2 * workers:
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
            under_way.add(pool.submit(work, task))
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BrokenProcessPool:
        raise FormatError(
            "a worker process ended (out of memory? or a script without if __name__ == '__main__'?); what is "
            "finished is kept: run it again, with fewer workers"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
