"""A sink that remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from realtime.sinks.base import ControlFrame, Extra


@dataclass
class Ear:
    """What it was sent, and the names of what was announced besides the eight."""

    name: str = "ear"
    frames: list[ControlFrame] = field(default_factory=list)
    statuses: list[tuple[str, ...]] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    closed: bool = False

    def announce(self, extras: Sequence[Extra]) -> None:
        self.extras = [extra.name for extra in extras]

    def send(self, frame: ControlFrame) -> None:
        if frame.seq < 0:
            self.statuses.append(frame.status)
        else:
            self.frames.append(frame)

    def counters(self) -> dict[str, int]:
        return {"sent": len(self.frames)}

    def close(self) -> None:
        self.closed = True
