"""What the pipeline asks of its parts: the Rust front-end, a lesson, an observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pyanticip._core import FrontOutput

__all__ = ["ALONE_NS", "BEAT_TRUST", "Front", "Lesson", "Observer", "lost_of"]

BEAT_TRUST = 0.5
"""Trust from which on the body keeps a beat that others go by."""

ALONE_NS = 2_000_000_000
"""Who played when a recording began is waited for so long, before anybody else is heard."""


def lost_of(counts: Mapping[str, int]) -> int | None:
    """How many of the sender's frames never came; None where they have no numbers that could tell."""
    knows = counts.get("numbered", 1) or not counts.get("frames")
    return counts.get("lost", 0) if knows else None


class Front(Protocol):
    """Datagrams in, frames of the 50 Hz grid out; counts what it had to drop."""

    def feed(self, datagram: bytes, t_arrival_ns: int, sender: str = "") -> FrontOutput | None:
        """One datagram of ``sender``; None when it completes no frame, or somebody else plays."""
        ...

    def imagine(self) -> FrontOutput | None:
        """The frame after the newest, before it is there: its body carried on; None where there is none."""
        ...

    def prewarm(self) -> None:
        """Bring into the caches what the next frame is likely to need; nothing changes."""
        ...

    def counters(self) -> dict[str, int]:
        """Everything counted, by name: packets, frames, lost, late, ignored ..."""
        ...

    def senders(self) -> list[tuple[str, bool, int, int]]:
        """Everybody heard of, the player first: name, whether it plays, good frames, last arrival in ns."""
        ...

    def listen_to(self, sender: str | None) -> bool:
        """Let only this sender play (None: whoever comes); True where it was heard of."""
        ...

    @property
    def timing(self) -> tuple[float | None, float, float]:
        """Frames a second (None at first), spread of the delays in ms, drift in ppm."""
        ...

    @property
    def refusal(self) -> str | None:
        """Why the player's body cannot be played, or None."""
        ...

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which canonical joints the source has, as far as known, (22,)."""
        ...

    @property
    def noise(self) -> npt.NDArray[np.float64] | None:
        """The jitter of each joint as learned so far, (22,) radians; None where nothing learns it."""
        ...

    @property
    def skeleton(self) -> list[str] | None:
        """The source's joint names; None before they are known."""
        ...


class Lesson(Protocol):
    """Something that learns from a performer; see :mod:`realtime.teaching`."""

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
