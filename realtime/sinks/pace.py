"""How often a slow receiver is sent something."""

from __future__ import annotations

import time

__all__ = ["Pace"]


class Pace:
    """At most ``max_rate`` a second; None: whatever comes."""

    def __init__(self, max_rate: float | None) -> None:
        self._due_ns = -(1 << 62)
        self.limit(max_rate)

    def limit(self, max_rate: float | None) -> None:
        """Another rate from now on."""
        self._interval_ns = round(1e9 / max_rate) if max_rate else 0

    def is_due(self, now_ns: int | None = None) -> bool:
        """Whether something may be sent now, by the clock where none is said, which counts as sent then."""
        if not self._interval_ns:
            return True
        now = time.monotonic_ns() if now_ns is None else now_ns
        late = now - self._due_ns
        if late < 0:
            return False
        self._due_ns = (self._due_ns if late < self._interval_ns else now) + self._interval_ns
        return True
