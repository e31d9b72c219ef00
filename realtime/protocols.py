"""Protocols of objects that follow the pipeline (take recorder, observer), and constants shared with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pyanticip._core import FrontOutput

BEAT_TRUST = 0.5
"""Minimum trust (0..1) at which the body's tempo is reported and used by others."""

CUE = "cue/"
"""What the names of cues begin with, among those of events."""

FIRST_SENDER_TIMEOUT_NS = 2_000_000_000
"""How long to wait for the sender that was playing when a recording began, before any other is accepted."""


def lost_frames(counts: Mapping[str, int]) -> int | None:
    """Number of the sender's frames that never arrived; None if its packets carry no sequence numbers."""
    is_numbered = counts.get("numbered", 1) or not counts.get("frames")
    return counts.get("lost", 0) if is_numbered else None


class TakeRecorder(Protocol):
    """Records a performer's frames for teaching; see :mod:`realtime.teaching.take_recorder`."""

    def add_frame(self, out: FrontOutput) -> None:
        """Called with each frame after it was played."""
        ...

    @property
    def state(self) -> str:
        """State as shown in `/anticip/status`."""
        ...


#: Called after each live frame with: arrival of the datagram and return of the last send (both monotonic
#: nanoseconds), frame number of the front end, nanoseconds per stage in the order of
#: :data:`realtime.pipeline.STAGES`.
Observer = Callable[[int, int, int, tuple[int, ...]], None]
