"""What goes from the pipeline to every sink, and what every sink can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyanticip.controls import Event

__all__ = ["ControlFrame", "Sink"]


@dataclass(slots=True)
class ControlFrame:
    """One frame of control: plain floats, ready to be sent.

    ``seq`` counts 50 Hz frames since the stream began and never goes back (-1: a status alone);
    ``seconds`` is the source's time since then; ``scalars`` are the seven, ``params`` the eight in 0..1;
    ``events`` are (name, strength 0..1, seconds ahead); ``status`` is given once a second.
    """

    seq: int
    seconds: float
    scalars: Sequence[float]
    params: Sequence[float]
    events: Sequence[Event] = ()
    status: tuple[str, ...] = ()


class Sink(Protocol):
    """A receiver of control frames. ``send`` never blocks and never raises; what fails is counted."""

    name: str

    def send(self, frame: ControlFrame) -> None:
        """Send one frame, or drop and count it."""
        ...

    def counters(self) -> dict[str, int]:
        """What happened so far: sent, dropped, refused, failed."""
        ...

    def close(self) -> None:
        """Give the resources back."""
        ...
