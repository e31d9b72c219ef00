"""A sink that stores what it is sent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from realtime.clock import OfflineClock
from realtime.pipeline import Pipeline
from realtime.rig import Rig
from realtime.sinks.base import ControlFrame, Extra
from realtime.sources.replay import Datagram, play_offline
from realtime.stage import assemble


@dataclass
class Ear:
    """Stores frames, and the names of outputs announced besides the eight parameters."""

    name: str = "ear"
    frames: list[ControlFrame] = field(default_factory=list)
    statuses: list[tuple[str, ...]] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    closed: bool = False
    trouble: str = ""

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


def listen(rig: Rig, sent: Iterable[tuple[int, bytes]]) -> tuple[Ear, Pipeline]:
    """The frames that a show of timed msgpack datagrams sends."""
    ear, clock = Ear(), OfflineClock()
    pipeline = assemble(rig, clock, kind="msgpack", sinks=[ear])  # type: ignore[list-item]
    play_offline((Datagram(*pair) for pair in sent), clock, pipeline.feed)
    return ear, pipeline
