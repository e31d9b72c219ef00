"""What the pipeline asks of its parts: a recorder, a lesson, an observer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from realtime.front import FrontFrame

__all__ = ["Lesson", "Observer", "Tape"]

F32 = npt.NDArray[np.float32]


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
