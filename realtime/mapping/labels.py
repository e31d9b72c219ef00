"""Which label of each class is shown, decided without flutter, and which taught gestures are under way: told
once when that changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pyanticip.controls import Event
from pyanticip.teach.gestures import Gesture, spotter
from pyanticip.teach.labels import NONE
from pyanticip.vocabulary import RATE

__all__ = ["Gestures", "Labels", "UnderWay"]

# A label enters when it is so likely for so many frames, and leaves when it is less likely than that.
_ENTER, _LEAVE, _FRAMES = 0.6, 0.4, 3

LabelValue = tuple[str, str, float]


class Labels:
    """Decides for each of the classes from how likely its labels are, the last of which is none of them.

    ``at`` says where a class's labels begin among the values.
    """

    def __init__(self, classes: Mapping[str, Sequence[str]], at: Mapping[str, int]) -> None:
        self._classes = [(name, tuple(labels), at[name]) for name, labels in classes.items()]
        self._shown = dict.fromkeys(classes, NONE)
        # For how many frames another label has been likely, and which.
        self._waiting: dict[str, tuple[str, int]] = {}

    def step(self, values: Sequence[float]) -> tuple[list[LabelValue], list[Event]]:
        """Of a frame: class, label and how likely it is; and what was entered and left, as events."""
        shown_labels: list[LabelValue] = []
        events: list[Event] = []
        for name, labels, at in self._classes:
            likely = values[at : at + len(labels)]
            shown = self._shown[name]
            best = labels[max(range(len(labels)), key=likely.__getitem__)]
            now = likely[labels.index(shown)]
            goal = shown
            if best != shown and likely[labels.index(best)] >= _ENTER:
                goal = best
            elif shown != NONE and now < _LEAVE:
                goal = NONE
            waits, frames = self._waiting.get(name, (shown, 0))
            frames = frames + 1 if goal == waits else 1
            self._waiting[name] = goal, frames
            if goal != shown and frames >= _FRAMES:
                if shown != NONE:
                    events.append((f"class/{name}/leave:{shown}", now, 0.0))
                shown = self._shown[name] = goal
                now = likely[labels.index(shown)]
                if shown != NONE:
                    events.append((f"class/{name}/enter:{shown}", now, 0.0))
            shown_labels.append((name, shown, now))
        return shown_labels, events

    def part(self) -> list[Event]:
        """What is left when these classes are told no more."""
        left = [(name, shown) for name, shown in self._shown.items() if shown != NONE]
        self._shown = dict.fromkeys(self._shown, NONE)
        return [(f"class/{name}/leave:{shown}", 0.0, 0.0) for name, shown in left]


UnderWay = tuple[str, float, float, float]
"""A gesture, how much of it is done (0..1), seconds until it ends, how likely it is (0..1)."""


class Gestures:
    """Spots gestures in the poses of a performer. Depends on these alone: a replay gives the same bits."""

    def __init__(self, gestures: Sequence[Gesture]) -> None:
        self.names = [gesture.name for gesture in gestures]
        self._spotter = spotter(gestures)
        self._now: list[tuple[float, float, float] | None] = [None] * len(gestures)
        self._last: dict[str, float] = {}

    def hear(self, poses: npt.NDArray[np.float32], *, reset: bool) -> None:
        """Take the frames (n, 22, 4) that a datagram completed, the newest last."""
        if reset:
            self._spotter.reset()
        for pose in poses:
            self._now = self._spotter.push(pose)

    def tell(self, away: int, *, playing: bool) -> tuple[list[UnderWay], list[Event]]:
        """What is under way ``away`` frames after the newest that was heard, and what changed.

        Where nobody is ``playing`` any more, or nothing is to be told, nothing is under way.
        """
        found = [
            (name, progress, max(seconds - away / RATE, 0.0), likely)
            for name, now in zip(self.names, self._now, strict=True)
            if playing and now is not None
            for progress, seconds, likely in [now]
        ]
        under_way = {name: progress for name, progress, *_ in found}
        events = self._left(under_way)
        events += [
            (f"gesture/{name}/enter", progress, seconds)
            for name, progress, seconds, _ in found
            if name not in self._last
        ]
        self._last = under_way
        return found, events

    def part(self) -> list[Event]:
        """What is left when these gestures are told no more."""
        events, self._last = self._left({}), {}
        return events

    def _left(self, under_way: dict[str, float]) -> list[Event]:
        return [(f"gesture/{name}/leave", p, 0.0) for name, p in self._last.items() if name not in under_way]
