"""Injected clocks: monotonic for live shows, scaled for replays, offline for rendering.

The pipeline reads the time from one of these; the system's clock is read directly only to measure durations.
"""

from __future__ import annotations

import time
from typing import Protocol

from pyanticip import _core
from pyanticip.errors import OptionError

FRAME_NS = _core.FRAME_NS
"""Nanoseconds between two frames of the 50 Hz grid."""

FRAME = FRAME_NS / 1e9
"""Seconds between two frames of the 50 Hz grid."""


class Clock(Protocol):
    """A source of int64 nanoseconds that never decrease."""

    #: Show seconds per wall second.
    speed: float
    #: Whether this is a live performance rather than a replay; timeouts are judged only while live.
    live: bool

    def now_ns(self) -> int:
        """The current time in nanoseconds."""
        ...


class MonotonicClock:
    """The system's monotonic clock, used by live shows."""

    speed = 1.0
    live = True

    def now_ns(self) -> int:
        """Nanoseconds of ``CLOCK_MONOTONIC``."""
        return time.monotonic_ns()


class ScaledClock:
    """Runs ``speed`` (0.01 to 1000) times as fast as the wall clock, starting at the monotonic clock's
    time."""

    live = False

    def __init__(self, speed: float) -> None:
        if not 0.01 <= speed <= 1000:
            raise OptionError(f"speed: expected 0.01 to 1000 or max, got {speed:g}")
        self.speed = speed
        self._wall_start_ns = self._start_ns = time.monotonic_ns()
        self._limit_ns: int | None = None

    def begin(self, t_ns: int) -> None:
        """Set the current time to ``t_ns``."""
        self._start_ns, self._wall_start_ns = t_ns, time.monotonic_ns()

    def wait_for(self, t_ns: int | None) -> None:
        """Do not pass ``t_ns``, so that what happens then is processed first; None: continue from the current
        time."""
        if t_ns is None:
            self.begin(self.now_ns())
        self._limit_ns = t_ns

    def now_ns(self) -> int:
        """The current show time in nanoseconds."""
        now_ns = self._start_ns + int((time.monotonic_ns() - self._wall_start_ns) * self.speed)
        return now_ns if self._limit_ns is None else min(now_ns, self._limit_ns)


class OfflineClock:
    """Advances only on request, so that a whole show runs as fast as possible and deterministically."""

    speed = float("inf")
    live = False

    def __init__(self, start_ns: int = 0) -> None:
        self.start_ns = self._now = start_ns

    def now_ns(self) -> int:
        """The time last advanced to."""
        return self._now

    def advance_to(self, t_ns: int) -> None:
        """Advance to ``t_ns``; an earlier time changes nothing."""
        self._now = max(self._now, t_ns)


def wall_ns(clock: Clock, t_ns: int) -> int:
    """Unix time in nanoseconds of the time ``t_ns`` of ``clock``; wall time is read nowhere else in the
    pipeline.

    It is read on every call because the system's clock may be adjusted during a show.
    """
    return time.time_ns() - round((clock.now_ns() - t_ns) / clock.speed)
