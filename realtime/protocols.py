"""What the pipeline asks of its parts: the Rust front-end, a recorder, a lesson, an observer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["BEAT_TRUST", "Front", "FrontFrame", "Lesson", "Observer", "Tape"]

BEAT_TRUST = 0.5
"""Trust from which on the body keeps a beat that others go by."""

F32 = npt.NDArray[np.float32]


class FrontFrame(Protocol):
    """What the Rust front-end gives when a datagram completes a frame of the 50 Hz grid."""

    @property
    def features(self) -> F32:
        """Rows (n, 279), oldest first; more than one after a gap."""
        ...

    @property
    def reset(self) -> bool:
        """Whether the first row begins the stream anew."""
        ...

    @property
    def seq(self) -> int:
        """Grid index of the newest row since the stream began."""
        ...

    @property
    def t_source_ns(self) -> int:
        """The source's time of the newest row."""
        ...

    @property
    def t_local_ns(self) -> int:
        """The local time at which it could have come at the earliest."""
        ...

    @property
    def expected_ns(self) -> int:
        """The local time at which the next frame is expected."""
        ...

    @property
    def late_ns(self) -> int:
        """The local time from which on the next frame is late."""
        ...

    @property
    def patience_ns(self) -> int:
        """How late a datagram may be."""
        ...

    @property
    def scalars(self) -> npt.NDArray[np.float64]:
        """The seven scalars of the newest row."""
        ...

    @property
    def poses(self) -> F32:
        """Canonical local rotations of each row, (n, 22, 4)."""
        ...

    @property
    def root(self) -> F32:
        """Position of the hips (3,)."""
        ...

    @property
    def activity(self) -> float:
        """0 while the body stands still, 1 while it moves."""
        ...

    @property
    def tempo(self) -> tuple[float, float, float]:
        """The beat that the body keeps: beats a minute, phase 0..1, trust 0..1."""
        ...

    @property
    def limbs(self) -> list[float]:
        """Of each of the four limbs: speed, height, strength of a stroke, 0..1 each; 12 numbers."""
        ...

    @property
    def valid(self) -> bool:
        """False while too much of the window is missing."""
        ...

    @property
    def stages_ns(self) -> tuple[int, int, int]:
        """Cost of decoding, of resampling, of scalars and features."""
        ...


class Front(Protocol):
    """Datagrams in, frames of the 50 Hz grid out; counts what it had to drop."""

    def feed(self, datagram: bytes, t_arrival_ns: int, sender: str = "") -> FrontFrame | None:
        """One datagram of ``sender``; None when it completes no frame, or somebody else plays."""
        ...

    def imagine(self) -> FrontFrame | None:
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


class Tape(Protocol):
    """A recorder; see :mod:`realtime.recording.recorder`. Its calls never block."""

    def raw(self, t_ns: int, source: str, datagram: bytes) -> None:
        """A datagram as it came."""
        ...

    def control(self, t_ns: int, name: str, arguments: Sequence[object]) -> None:
        """A command that was obeyed."""
        ...

    def frame(self, t_ns: int, seq: int, t_source_ns: int, quats: F32, root: F32) -> None:
        """The pose of a frame."""
        ...

    def output(
        self,
        t_ns: int,
        seq: int,
        params: npt.ArrayLike,
        scalars: npt.ArrayLike,
        events: Sequence[tuple[str, float, float]],
        field: Sequence[float] = (),
        plan: Sequence[tuple[int, float]] = (),
    ) -> None:
        """What was sent."""
        ...


class Lesson(Protocol):
    """Something that learns from a performer; see :mod:`realtime.teaching`."""

    def frame(self, out: FrontFrame) -> None:
        """A frame that was played."""
        ...

    @property
    def state(self) -> str:
        """What the status says of it."""
        ...


#: Called after each live frame: datagram's arrival, return of the last send (both monotonic), the front's
#: frame number, nanoseconds per stage in the order of :data:`realtime.pipeline.STAGES`.
Observer = Callable[[int, int, int, tuple[int, ...]], None]
