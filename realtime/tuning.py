"""Process settings of the live path, each with its reason; docs/latency.md has the figures.

:func:`realtime_mode` is entered once everything is loaded, before the first datagram;
:func:`map_large_blocks` is called before loading.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import time
from collections.abc import Iterator

# Maximum time in seconds that a thread waits for the interpreter. Python's default, 5 ms, is a quarter of a
# frame.
_SWITCH_INTERVAL = 0.0005


def raise_priority() -> str:
    """Raise the priority of this thread if the system permits, and return its scheduling class.

    Linux permits it to root and to users with an rtprio limit (the audio group of a studio machine). The
    lowest real-time priority is enough: the thread works for about one millisecond in twenty, and children do
    not inherit it. macOS keeps a thread of this class on its fast cores.
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
    """Lock the pages in use in memory if the system permits; returns whether it did.

    A page that the kernel evicted costs a disk access in the middle of a frame. Permitted like the priority:
    to root, or with a memlock limit.
    """
    if sys.platform == "linux":
        current, future, on_fault = 1, 2, 4
        with contextlib.suppress(OSError, AttributeError):
            return bool(ctypes.CDLL(None).mlockall(current | future | on_fault) == 0)
    return False


def map_large_blocks() -> None:
    """Map every large block by itself, as glibc does only until the first one is freed.

    Called before a model is read: what reading it takes is then returned to the system, and zeroed blocks,
    such as room for an hour of memory, take no memory until they are written.
    """
    if sys.platform == "linux":
        mmap_threshold, size = -3, 128 * 1024
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(mmap_threshold, size)


# For each running show, the switch interval and whether the collector was enabled before the first of them.
_previous_states: list[tuple[float, bool]] = []


@contextlib.contextmanager
def realtime_mode() -> Iterator[None]:
    """Disable automatic garbage collection and shorten the wait for the interpreter.

    Objects loaded by now live as long as the show, so they are frozen, and the remaining collections
    (:class:`Collector`) look at little. After the last show the interpreter's settings are restored and the
    priority is an ordinary one.
    """
    _previous_states.append(
        _previous_states[0] if _previous_states else (sys.getswitchinterval(), gc.isenabled())
    )
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
    gc.disable()
    if sys.platform == "win32":
        # Otherwise timers have a resolution of 1/64 s.
        ctypes.windll.winmm.timeBeginPeriod(1)
    try:
        yield
    finally:
        interval, gc_was_enabled = _previous_states.pop()
        if not _previous_states:
            gc.unfreeze()
            sys.setswitchinterval(interval)
            if gc_was_enabled:
                gc.enable()
        # The priority of this thread; the process's settings after its last show.
        with contextlib.suppress(AttributeError, OSError):
            if sys.platform == "linux":
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
                if not _previous_states:
                    ctypes.CDLL(None).munlockall()
            elif sys.platform == "win32":
                ctypes.windll.winmm.timeEndPeriod(1)
                if not _previous_states:
                    _set_class(_NORMAL)


if sys.platform == "win32":
    _HIGH, _NORMAL = 0x80, 0x20

    def _set_class(priority: int) -> bool:
        kernel = ctypes.windll.kernel32
        return bool(kernel.SetPriorityClass(ctypes.c_void_p(kernel.GetCurrentProcess()), priority))


class Collector:
    """Collects garbage once a second, in the idle gap between two frames."""

    def __init__(self) -> None:
        self._last_ns = time.monotonic_ns()
        self.longest_ns = 0
        self.runs = 0

    def due(self) -> bool:
        """Whether a second has passed since the last collection."""
        return time.monotonic_ns() - self._last_ns >= 1_000_000_000

    def collect(self) -> None:
        """Collect now."""
        self._last_ns = time.monotonic_ns()
        gc.collect()
        self.runs += 1
        self.longest_ns = max(self.longest_ns, time.monotonic_ns() - self._last_ns)
