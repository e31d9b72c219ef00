"""Suspends a model that is late or fails for a while, so that the show goes on without it."""

from __future__ import annotations

import contextlib

from pyanticip.errors import FOREIGN, one_line
from realtime.clock import Clock
from realtime.step.base import F32, StepBackend, StepResult

# The model is suspended when the score of late steps reaches this. A late step adds 1 ...
_MAX_LATE_SCORE = 3.0
# ... and one on time subtracts this, so that more than one late step in five adds up.
_ON_TIME_CREDIT = 0.25
# A step that takes longer than this was not merely interrupted.
_VERY_LONG_NS = 100_000_000
# The suspension doubles each time up to the maximum.
_MIN_SUSPEND_NS, _MAX_SUSPEND_NS = 2_000_000_000, 32_000_000_000
# A model that has played this long is suspended for the minimum again.
_STABLE_NS = 60_000_000_000


class GuardedModel:
    """Decides whether a backend steps. ``error`` is one line on why it last failed or was late; ``counts`` is
    updated with how often.

    A step slower than ``budget_ms`` is late, if the clock is a live one.
    """

    def __init__(
        self, backend: StepBackend | None, clock: Clock, budget_ms: float, counts: dict[str, int]
    ) -> None:
        self.backend = backend
        self.error = ""
        self._clock = clock
        self._budget_ns = int(budget_ms * 1e6)
        self._counts = counts
        self._late_score = 0.0
        self._suspend_ns = _MIN_SUSPEND_NS
        self._suspended_until_ns = 0
        self._is_stale = True

    def set_backend(self, backend: StepBackend) -> None:
        """Step this backend from now on, as a new stream; the previous one is closed."""
        previous, self.backend = self.backend, backend
        self.error, self._late_score, self._is_stale = "", 0.0, True
        self._suspend_ns, self._suspended_until_ns = _MIN_SUSPEND_NS, 0
        _close(previous)

    def close(self) -> None:
        """Close the backend."""
        _close(self.backend)

    def ready(self, now_ns: int) -> tuple[bool, bool]:
        """Whether a frame at ``now_ns`` is stepped, and whether the stream must be reset for it."""
        if self.backend is None:
            return False, False
        if self.is_suspended(now_ns):
            self._is_stale = True
            return False, False
        return True, self._is_stale

    def judge(self, now_ns: int, failure: str | None, took_ns: int) -> bool:
        """Record the outcome of a step; True if it was late once too often.

        ``failure`` is the error of a step that failed; it is reported in the status and must not stop the
        sound.
        """
        self._is_stale = False
        if failure is not None:
            self._counts["failed_steps"] += 1
            self.error = f"the model failed, the scalars play: {failure}"
            self.suspend(now_ns)
            return False
        if not (self._clock.live and took_ns > self._budget_ns):
            self._late_score = max(self._late_score - _ON_TIME_CREDIT, 0.0)
            return False
        self._counts["late_steps"] += 1
        self._late_score += 1.0
        if took_ns > _VERY_LONG_NS:
            self.error = (
                f"a step of the model took more than {_VERY_LONG_NS // 1_000_000} ms: all else waits for it"
            )
        too_often = self._late_score >= _MAX_LATE_SCORE
        if too_often:
            late = f"takes longer than {self._budget_ns / 1e6:g} ms (model.budget_ms)"
            self.error = f"the model {late}, the scalars play until it is tried again"
            self.suspend(now_ns)
        return too_often

    def imagine(self, row: F32) -> StepResult | None:
        """Output if ``row`` were the next one; None if it cannot be computed."""
        # A model that fails here is reported with the next real frame.
        with contextlib.suppress(*FOREIGN):
            step = None if self.backend is None else self.backend.imagine(row)
            if step is not None and step.finite:
                return step
        return None

    def suspend(self, now_ns: int) -> None:
        """Suspend the model from ``now_ns`` on, for longer each time unless it has played for long."""
        self._late_score = 0.0
        self._is_stale = True
        if now_ns - self._suspended_until_ns > _STABLE_NS:
            self._suspend_ns = _MIN_SUSPEND_NS
        self._suspended_until_ns = now_ns + self._suspend_ns
        self._suspend_ns = min(2 * self._suspend_ns, _MAX_SUSPEND_NS)

    def is_suspended(self, now_ns: int) -> bool:
        """Whether there is a model and it is suspended."""
        return self.backend is not None and now_ns < self._suspended_until_ns

    def prewarm(self, now_ns: int) -> None:
        """Compute a step and discard it; an error is reported and changes nothing else."""
        if self.backend is not None and not self.is_suspended(now_ns):
            try:
                self.backend.prewarm()
            except FOREIGN as error:
                self._counts["errors"] += 1
                self.error = (
                    f"the model cannot be warmed up, continuing: {type(error).__name__}: {one_line(error)}"
                )


def _close(backend: StepBackend | None) -> None:
    # Errors of a third-party backend do not matter any more.
    if backend is not None:
        with contextlib.suppress(*FOREIGN):
            backend.close()
