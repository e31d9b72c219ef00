"""The model as far as it can be relied on: one that is late or fails rests for a while; the show goes on."""

from __future__ import annotations

import contextlib

from pyanticip.errors import one_line
from realtime.clock import Clock
from realtime.step.base import F32, StepBackend, StepResult

__all__ = ["GuardedModel"]

# So many late steps in a row, and the scalars take over; one in time takes this from the count, so that more
# than one in five adds up. The model is tried again after the pause, which doubles each time up to the
# longest, and is the first again once the model has played so long.
_LATE_IN_A_ROW, _IN_TIME = 3.0, 0.25
# No interrupt makes a step take so long.
_LONG_NS = 100_000_000
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000_000, 32_000_000_000
_GOOD_NS = 60_000_000_000


class GuardedModel:
    """Whether a backend steps; ``error`` is the line that says why it failed or was late last, into
    ``counts`` goes how often.

    A step slower than ``budget_ms`` is late, where the clock is a live one.
    """

    def __init__(
        self, backend: StepBackend | None, clock: Clock, budget_ms: float, counts: dict[str, int]
    ) -> None:
        self.backend = backend
        self.error = ""
        self._clock = clock
        self._budget_ns = int(budget_ms * 1e6)
        self._counts = counts
        self._late = 0.0
        self._pause_ns = _FIRST_PAUSE_NS
        self._off_until_ns = 0
        self._stale = True

    def play(self, backend: StepBackend) -> None:
        """Step this one from now on, as a new stream; the one before is closed."""
        before, self.backend = self.backend, backend
        self.error, self._late, self._stale = "", 0.0, True
        self._pause_ns, self._off_until_ns = _FIRST_PAUSE_NS, 0
        _close(before)

    def close(self) -> None:
        """Close the backend that plays."""
        _close(self.backend)

    def ready(self, now: int) -> tuple[bool, bool]:
        """Whether a frame of ``now`` is stepped, and whether that begins a stream whatever the frame says."""
        if self.backend is None:
            return False, False
        if self.rests(now):
            self._stale = True
            return False, False
        return True, self._stale

    def judge(self, now: int, failure: str | None, took_ns: int) -> bool:
        """What a step came to; True where it was late once too often.

        ``failure`` is why there is none: told in the status, never the end of the sound.
        """
        self._stale = False
        if failure is not None:
            self._counts["failed_steps"] += 1
            self.error = f"the model failed, the scalars play: {failure}"
            self.rest(now)
            return False
        if not (self._clock.live and took_ns > self._budget_ns):
            self._late = max(self._late - _IN_TIME, 0.0)
            return False
        self._counts["late_steps"] += 1
        self._late += 1.0
        if took_ns > _LONG_NS:
            self.error = (
                f"a step of the model took more than {_LONG_NS // 1_000_000} ms: all else waits for it"
            )
        too_often = self._late >= _LATE_IN_A_ROW
        if too_often:
            late = f"takes longer than {self._budget_ns / 1e6:g} ms (model.budget_ms)"
            self.error = f"the model {late}, the scalars play until it is tried again"
            self.rest(now)
        return too_often

    def imagine(self, row: F32) -> StepResult | None:
        """What holds if this is the next row; None: it cannot be told."""
        # A model that fails here will say why with the next true frame.
        with contextlib.suppress(Exception):
            step = None if self.backend is None else self.backend.imagine(row)
            if step is not None and step.finite:
                return step
        return None

    def rest(self, now: int) -> None:
        """Leave the model out for a while from ``now`` on, longer each time unless it has played for long."""
        self._late = 0.0
        self._stale = True
        if now - self._off_until_ns > _GOOD_NS:
            self._pause_ns = _FIRST_PAUSE_NS
        self._off_until_ns = now + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)

    def rests(self, now: int) -> bool:
        """Whether it is left out."""
        return self.backend is not None and now < self._off_until_ns

    def prewarm(self, now: int) -> None:
        """Compute a step and throw it away; that this fails changes nothing of what plays, and is told."""
        if self.backend is not None and not self.rests(now):
            try:
                self.backend.prewarm()
            except Exception as error:
                self._counts["errors"] += 1
                self.error = (
                    f"the model cannot be warmed up, going on: {type(error).__name__}: {one_line(error)}"
                )


def _close(backend: StepBackend | None) -> None:
    # It may be somebody else's, and it is not needed any more.
    if backend is not None:
        with contextlib.suppress(Exception):
            backend.close()
