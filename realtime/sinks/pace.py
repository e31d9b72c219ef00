"""Rate limit for slow receivers."""

from __future__ import annotations

import time


class Pace:
    """Allows at most ``max_rate`` sends per second; None: no limit."""

    def __init__(self, max_rate: float | None) -> None:
        self._due_ns = -(1 << 62)
        self.limit(max_rate)

    def limit(self, max_rate: float | None) -> None:
        """Change the rate."""
        self._interval_ns = round(1e9 / max_rate) if max_rate else 0

    def is_due(self, now_ns: int | None = None) -> bool:
        """Whether a send is allowed at ``now_ns`` (default: the monotonic clock); if so, it is counted."""
        if not self._interval_ns:
            return True
        now = time.monotonic_ns() if now_ns is None else now_ns
        overdue_ns = now - self._due_ns
        if overdue_ns < 0:
            return False
        self._due_ns = (self._due_ns if overdue_ns < self._interval_ns else now) + self._interval_ns
        return True
