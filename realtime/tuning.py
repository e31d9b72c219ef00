"""The process settings of the live path, each with its reason; docs/latency.md has the figures.

Entered once everything is loaded, before the first datagram; :func:`map_large_blocks` is called before.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import time
from collections.abc import Iterator

__all__ = [
    "Collector",
    "lock_memory",
    "map_large_blocks",
    "raise_priority",
    "realtime_mode",
]

# A thread that wants the interpreter waits at most so long for it (Python's default is 5 ms: a quarter
# of a frame).
_SWITCH_INTERVAL = 0.0005


def raise_priority() -> str:
    """Run this thread before ordinary ones where the system lets us, and say what came of it.

    Linux grants it to root and to those with an rtprio limit (the audio group of a studio machine). The
    lowest real-time priority is enough: the thread works for about a millisecond of twenty, and children
    do not inherit it. macOS keeps a thread of this class on its fast cores.
    """
    with contextlib.suppress(AttributeError, OSError):
        if sys.platform == "linux":
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
            return "SCHED_RR"
        elif sys.platform == "darwin":
            user_interactive = 0x21
            if ctypes.CDLL(None).pthread_set_qos_class_self_np(user_interactive, 0) == 0:
                return "QOS_CLASS_USER_INTERACTIVE"
        elif sys.platform == "win32" and _set_class(_HIGH):
            return "HIGH_PRIORITY_CLASS"
    return "ordinary"


def lock_memory() -> bool:
    """Keep what we have touched in memory, where the system lets us; whether it did.

    A page that the kernel took away in a quiet minute costs a disk access in the middle of a frame. Granted
    like the priority: root, or a memlock limit.
    """
    if sys.platform == "linux":
        current, future, on_fault = 1, 2, 4
        with contextlib.suppress(OSError, AttributeError):
            return bool(ctypes.CDLL(None).mlockall(current | future | on_fault) == 0)
    return False


def map_large_blocks() -> None:
    """Let every large block be mapped by itself, as glibc does until the first one is freed.

    What reading a model takes goes back to the system, and what is to be zero, such as room for an hour of
    memory, is no memory until it is written. So it is called before a model is read.
    """
    if sys.platform == "linux":
        mmap_threshold, size = -3, 128 * 1024
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(mmap_threshold, size)


# For each show of the process how the interpreter was before the first of them.
_before: list[tuple[float, bool]] = []


@contextlib.contextmanager
def realtime_mode() -> Iterator[None]:
    """No collection in the middle of a frame, no long wait for the interpreter.

    What is loaded by now lives as long as the show: it is moved out of the collector's sight, so that the
    collections that remain (:class:`Collector`) look at little. Behind the last show the interpreter is as it
    was, the priority an ordinary one: the process may go on.
    """
    _before.append(_before[0] if _before else (sys.getswitchinterval(), gc.isenabled()))
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
    gc.disable()
    if sys.platform == "win32":
        # Otherwise it wakes 64 times a second.
        ctypes.windll.winmm.timeBeginPeriod(1)
    try:
        yield
    finally:
        interval, collects = _before.pop()
        if not _before:
            gc.unfreeze()
            sys.setswitchinterval(interval)
            if collects:
                gc.enable()
        # Of this thread, and of the whole process behind its last show.
        with contextlib.suppress(AttributeError, OSError):
            if sys.platform == "linux":
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
                if not _before:
                    ctypes.CDLL(None).munlockall()
            elif sys.platform == "win32":
                ctypes.windll.winmm.timeEndPeriod(1)
                if not _before:
                    _set_class(_NORMAL)


if sys.platform == "win32":
    _HIGH, _NORMAL = 0x80, 0x20

    def _set_class(priority: int) -> bool:
        kernel = ctypes.windll.kernel32
        return bool(kernel.SetPriorityClass(ctypes.c_void_p(kernel.GetCurrentProcess()), priority))


class Collector:
    """Collects garbage once a second in the idle gap between two frames, never on the way of one."""

    def __init__(self) -> None:
        self._last_ns = time.monotonic_ns()
        self.longest_ns = 0
        self.runs = 0

    def due(self) -> bool:
        """Whether it is time again."""
        return time.monotonic_ns() - self._last_ns >= 1_000_000_000

    def collect(self) -> None:
        """Collect now; called in a gap."""
        self._last_ns = time.monotonic_ns()
        gc.collect()
        self.runs += 1
        self.longest_ns = max(self.longest_ns, time.monotonic_ns() - self._last_ns)
