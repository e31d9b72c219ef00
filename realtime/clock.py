"""Injected clocks: the monotonic one on stage, a scaled one for replays, an offline one for whole shows.

Everything in the pipeline that asks for the time asks one of these; nothing calls the system's clock by
itself but to measure its own cost.
"""

from __future__ import annotations

import time
from typing import Protocol

from pyanticip import _core
from pyanticip.errors import OptionError

__all__ = ["FRAME", "FRAME_NS", "Clock", "MonotonicClock", "OfflineClock", "ScaledClock", "wall_ns"]

FRAME_NS = _core.FRAME_NS
"""Nanoseconds between two frames of the grid."""

FRAME = FRAME_NS / 1e9
"""The same in seconds."""


class Clock(Protocol):
    """Nanoseconds that never go back."""

    #: Show seconds per wall second.
    speed: float
    #: Whether this is a performance, not one that is played again: what takes too long is told from this
    #: alone.
    live: bool

    def now_ns(self) -> int:
        """The time now."""
        ...


class MonotonicClock:
    """The system's monotonic clock: the one on stage."""

    speed = 1.0
    live = True

    def now_ns(self) -> int:
        """Nanoseconds of ``CLOCK_MONOTONIC``."""
        return time.monotonic_ns()


class ScaledClock:
    """A show that runs ``speed`` times as fast as the wall clock, beginning at the monotonic clock's time."""

    live = False

    def __init__(self, speed: float) -> None:
        if not 0.01 <= speed <= 1000:
            raise OptionError(f"speed: expected 0.01 to 1000 or max, got {speed:g}")
        self.speed = speed
        self._from = self._start = time.monotonic_ns()
        self._until_ns: int | None = None

    def begin(self, t_ns: int) -> None:
        """It is ``t_ns`` now."""
        self._start, self._from = t_ns, time.monotonic_ns()

    def wait_for(self, t_ns: int | None) -> None:
        """Go no farther than ``t_ns``, where something comes to be heard first; None: on from here."""
        if t_ns is None:
            self.begin(self.now_ns())
        self._until_ns = t_ns

    def now_ns(self) -> int:
        """Show time so far."""
        now = self._start + int((time.monotonic_ns() - self._from) * self.speed)
        return now if self._until_ns is None else min(now, self._until_ns)


class OfflineClock:
    """Time that passes only when told: a whole show runs as fast as it can, and always the same."""

    speed = float("inf")
    live = False

    def __init__(self, start_ns: int = 0) -> None:
        self.start_ns = self._now = start_ns

    def now_ns(self) -> int:
        """The time last advanced to."""
        return self._now

    def advance_to(self, t_ns: int) -> None:
        """Let time pass up to ``t_ns``; a time already past changes nothing."""
        self._now = max(self._now, t_ns)


def wall_ns(clock: Clock, t_ns: int) -> int:
    """The Unix time of a moment of a clock, as it is told now: the one place where wall time is asked for.

    It is asked for anew each time, for the system's clock may be set while one plays.
    """
    return time.time_ns() - round((clock.now_ns() - t_ns) / clock.speed)
