"""The jitter buffer: bundles leave at the grid's own pace, a little later than they could."""

from __future__ import annotations

from collections import deque
from typing import Literal

__all__ = ["FRAME_NS", "Playout"]

#: Nanoseconds between two frames of the grid.
FRAME_NS = 20_000_000

# Delays that the automatic buffer is chosen from: ten seconds; how many of them it covers; how often it is
# looked at; its bounds; and how fast it changes (nanoseconds a frame), so that the pace stays even.
_DELAYS, _COVERED, _LOOK = 500, 0.98, 25
_LONGEST_NS, _SPARE_NS = 100_000_000, 1_000_000
_SLEW_NS = 200_000


class Playout:
    """When each frame of the grid leaves: ``buffer_ms`` after it could have come at the earliest.

    ``buffer_ms`` is 0 to 100, or "auto": what covers 98 % of the delays of the last ten seconds. Depends on
    the frames' times and arrivals alone.
    """

    def __init__(self, buffer_ms: float | Literal["auto"]) -> None:
        self._auto = buffer_ms == "auto"
        self._buffer_ns = 0 if buffer_ms == "auto" else round(buffer_ms * 1e6)
        self._goal_ns = self._buffer_ns
        self._delays: deque[int] = deque(maxlen=_DELAYS)
        self._taken = 0

    @property
    def buffer_ms(self) -> float:
        """The buffer as it is now, milliseconds."""
        return self._buffer_ns / 1e6

    def release_ns(self, t_local_ns: int, t_arrival_ns: int) -> int:
        """When a frame leaves that belongs to ``t_local_ns`` and was complete at ``t_arrival_ns``."""
        if self._auto:
            self._delays.append(min(max(t_arrival_ns - t_local_ns, 0), _LONGEST_NS))
            self._taken += 1
            if self._taken % _LOOK == 0 or self._taken < _LOOK:
                ordered = sorted(self._delays)
                self._goal_ns = ordered[min(int(_COVERED * len(ordered)), len(ordered) - 1)] + _SPARE_NS
            step = self._goal_ns - self._buffer_ns
            if self._taken >= _LOOK:
                step = min(max(step, -_SLEW_NS), _SLEW_NS)
            self._buffer_ns += step
        return t_local_ns + self._buffer_ns
