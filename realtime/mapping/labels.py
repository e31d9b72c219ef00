"""Decides which label of each class is shown, with hysteresis, and which taught gestures are active; changes
are reported once, as events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pyanticip.controls import Event
from pyanticip.teach.gestures import Gesture, make_spotter
from pyanticip.teach.labels import NONE
from pyanticip.vocabulary import RATE

# A label is entered at this probability and left below the lower one, each for a number of frames.
_ENTER_PROBABILITY, _LEAVE_PROBABILITY = 0.6, 0.4
_MIN_FRAMES = 3

LabelValue = tuple[str, str, float]


class Labels:
    """Decides the shown label of each class from the probabilities of its labels; the last label is "none".

    ``offsets`` gives the index of each class's first label among the values.
    """

    def __init__(self, classes: Mapping[str, Sequence[str]], offsets: Mapping[str, int]) -> None:
        self._classes = [(name, tuple(labels), offsets[name]) for name, labels in classes.items()]
        self._shown = dict.fromkeys(classes, NONE)
        # For each class the label to change to, and for how many frames it has been that.
        self._pending: dict[str, tuple[str, int]] = {}

    def step(self, values: Sequence[float]) -> tuple[list[LabelValue], list[Event]]:
        """Process a frame: returns (class, label, probability) for each class, and enter and leave events."""
        shown_labels: list[LabelValue] = []
        events: list[Event] = []
        for name, labels, offset in self._classes:
            probabilities = values[offset : offset + len(labels)]
            shown = self._shown[name]
            likeliest = labels[max(range(len(labels)), key=probabilities.__getitem__)]
            current = probabilities[labels.index(shown)]
            target = shown
            if likeliest != shown and probabilities[labels.index(likeliest)] >= _ENTER_PROBABILITY:
                target = likeliest
            elif shown != NONE and current < _LEAVE_PROBABILITY:
                target = NONE
            pending, frames = self._pending.get(name, (shown, 0))
            frames = frames + 1 if target == pending else 1
            self._pending[name] = target, frames
            if target != shown and frames >= _MIN_FRAMES:
                if shown != NONE:
                    events.append((f"class/{name}/leave:{shown}", current, 0.0))
                shown = self._shown[name] = target
                current = probabilities[labels.index(shown)]
                if shown != NONE:
                    events.append((f"class/{name}/enter:{shown}", current, 0.0))
            shown_labels.append((name, shown, current))
        return shown_labels, events

    def leave_all(self) -> list[Event]:
        """Show no label any more; returns the leave events."""
        shown_labels = [(name, shown) for name, shown in self._shown.items() if shown != NONE]
        self._shown = dict.fromkeys(self._shown, NONE)
        return [(f"class/{name}/leave:{shown}", 0.0, 0.0) for name, shown in shown_labels]


ActiveGesture = tuple[str, float, float, float]
"""A gesture: name, progress (0..1), seconds until it ends, probability (0..1)."""


class Gestures:
    """Spots gestures in a performer's poses, and depends on these only, so that replays are bit-identical."""

    def __init__(self, gestures: Sequence[Gesture]) -> None:
        self.names = [gesture.name for gesture in gestures]
        self._spotter = make_spotter(gestures)
        self._current: list[tuple[float, float, float] | None] = [None] * len(gestures)
        self._last: dict[str, float] = {}

    def push(self, poses: npt.NDArray[np.float32], *, reset: bool) -> None:
        """Process the poses (n, 22, 4) that a datagram completed, the newest last."""
        if reset:
            self._spotter.reset()
        for pose in poses:
            self._current = self._spotter.push(pose)

    def report(self, missing: int, *, playing: bool) -> tuple[list[ActiveGesture], list[Event]]:
        """The gestures active ``missing`` frames after the newest pose, and enter and leave events.

        Unless ``playing``, none is active.
        """
        active = [
            (name, progress, max(seconds - missing / RATE, 0.0), probabilities)
            for name, current in zip(self.names, self._current, strict=True)
            if playing and current is not None
            for progress, seconds, probabilities in [current]
        ]
        active_progress = {name: progress for name, progress, *_ in active}
        events = self._leave_events(active_progress)
        events += [
            (f"gesture/{name}/enter", progress, seconds)
            for name, progress, seconds, _ in active
            if name not in self._last
        ]
        self._last = active_progress
        return active, events

    def leave_all(self) -> list[Event]:
        """Make no gesture active any more; returns the leave events."""
        events, self._last = self._leave_events({}), {}
        return events

    def _leave_events(self, active_progress: dict[str, float]) -> list[Event]:
        return [
            (f"gesture/{name}/leave", p, 0.0) for name, p in self._last.items() if name not in active_progress
        ]
