"""Which taught gestures are under way: told in every frame, and once when one is recognised and ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pyanticip.controls import Event
from pyanticip.teach.gestures import Gesture, spotter
from pyanticip.vocabulary import RATE

__all__ = ["Gestures", "UnderWay"]

UnderWay = tuple[str, float, float, float]
"""A gesture, how much of it is done (0..1), seconds until it ends, how likely it is (0..1)."""


class Gestures:
    """Spots gestures in the poses of a performer. Depends on these alone: a replay gives the same bits."""

    def __init__(self, gestures: Sequence[Gesture]) -> None:
        self.names = [gesture.name for gesture in gestures]
        self._spotter = spotter(gestures)
        self._now: list[tuple[float, float, float] | None] = [None] * len(gestures)
        self._told: dict[str, float] = {}

    def hear(self, poses: npt.NDArray[np.float32], *, reset: bool) -> None:
        """Take the frames (n, 22, 4) that a datagram completed, the newest last."""
        if reset:
            self._spotter.reset()
        for pose in poses:
            self._now = self._spotter.push(pose)

    def tell(self, away: int, *, heard: bool) -> tuple[list[UnderWay], list[Event]]:
        """What is under way ``away`` frames after the newest that was heard, and what changed.

        Where nobody is ``heard`` any more, or nothing is to be told, nothing is under way.
        """
        told = [
            (name, progress, max(seconds - away / RATE, 0.0), likely)
            for name, now in zip(self.names, self._now, strict=True)
            if heard and now is not None
            for progress, seconds, likely in [now]
        ]
        under_way = {name: progress for name, progress, *_ in told}
        events = self._left(under_way)
        events += [
            (f"gesture/{name}/enter", progress, seconds)
            for name, progress, seconds, _ in told
            if name not in self._told
        ]
        self._told = under_way
        return told, events

    def part(self) -> list[Event]:
        """What is left when these gestures are told no more."""
        events, self._told = self._left({}), {}
        return events

    def _left(self, under_way: dict[str, float]) -> list[Event]:
        return [(f"gesture/{name}/leave", p, 0.0) for name, p in self._told.items() if name not in under_way]
