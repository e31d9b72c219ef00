"""Which label of each class is shown: decided without flutter, and told once when it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyanticip.controls import Event
from pyanticip.teach.labels import NONE

__all__ = ["Labels"]

# A label enters when it is so likely for so many frames, and leaves when it is less likely than that.
_ENTER, _LEAVE, _FRAMES = 0.6, 0.4, 3

Told = tuple[str, str, float]


class Labels:
    """Decides for each of the classes from how likely its labels are, the last of which is none of them.

    ``at`` says where a class's labels begin among the values.
    """

    def __init__(self, classes: Mapping[str, Sequence[str]], at: Mapping[str, int]) -> None:
        self._classes = [(name, tuple(labels), at[name]) for name, labels in classes.items()]
        self._shown = dict.fromkeys(classes, NONE)
        # For how many frames another label has been likely, and which.
        self._waiting: dict[str, tuple[str, int]] = {}

    def step(self, values: Sequence[float]) -> tuple[list[Told], list[Event]]:
        """Of a frame: class, label and how likely it is; and what was entered and left, as events."""
        told: list[Told] = []
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
            told.append((name, shown, now))
        return told, events

    def part(self) -> list[Event]:
        """What is left when these classes are told no more."""
        left = [(name, shown) for name, shown in self._shown.items() if shown != NONE]
        self._shown = dict.fromkeys(self._shown, NONE)
        return [(f"class/{name}/leave:{shown}", 0.0, 0.0) for name, shown in left]
