"""What the pipeline asks of who looks on: a recorder of takes, an observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pyanticip._core import FrontOutput

__all__ = ["ALONE_NS", "BEAT_TRUST", "Observer", "TakeRecorder", "lost_of"]

BEAT_TRUST = 0.5
"""Trust from which on the body keeps a beat that others go by."""

ALONE_NS = 2_000_000_000
"""Who played when a recording began is waited for so long, before anybody else is heard."""


def lost_of(counts: Mapping[str, int]) -> int | None:
    """How many of the sender's frames never came; None where they have no numbers that could tell."""
    knows = counts.get("numbered", 1) or not counts.get("frames")
    return counts.get("lost", 0) if knows else None


class TakeRecorder(Protocol):
    """Who takes down the frames of a performer; see :mod:`realtime.teaching.take_recorder`."""

    def frame(self, out: FrontOutput) -> None:
        """A frame that was played."""
        ...

    @property
    def state(self) -> str:
        """What the status says of it."""
        ...


#: Called after each live frame: datagram's arrival, return of the last send (both monotonic), the front's
#: frame number, nanoseconds per stage in the order of :data:`realtime.pipeline.STAGES`.
Observer = Callable[[int, int, int, tuple[int, ...]], None]
