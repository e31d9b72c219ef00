"""The sound of a take on the clock of its movement."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from pyanticip.vocabulary import RATE
from training.data.examples import Example
from training.teacher.sound import duration, hear

UNNOTICED: Final = 0.1
"""Seconds by which sound and movement may differ before it is said."""


class TakeSound:
    """The sound of a take, on the clock of its movement."""

    def __init__(self, path: Path, offset: float) -> None:
        self.path, self.offset = path, offset
        self.seconds = duration(path)

    def overlap(self, seconds: float, frames: int) -> tuple[int, int]:
        """First frame that has sound, and one past the last, of frames that begin ``seconds`` in."""
        begin = seconds + self.offset
        # A hair of room: 2.0 s of sound hold 100 frames, whatever the rounding.
        first = max(int(np.ceil(-begin * RATE - 1e-6)), 0)
        last = min(int(np.floor((self.seconds - begin) * RATE + 1e-6)), frames)
        return first, max(last, first)

    def taught(self, example: Example, seconds: float, notes: list[str]) -> Example:
        """The example with the sound's parameters and events; what it does not tell stays the teacher's."""
        found = hear(self.path, max(seconds + self.offset, 0.0), len(example.params))
        notes += [note for note in found.notes if note not in notes]
        params = np.where(np.isnan(found.params), example.params, found.params)
        return replace(example, params=params, onsets=found.onsets, phrases=found.phrases)

    def compare(self, movement: float) -> list[str]:
        """What there is to say where sound and movement are not of one length.

        Args:
            movement: how long it is, seconds.
        """
        at = f", offset {self.offset:g} s" if self.offset else ""
        begin, end = max(-self.offset, 0.0), min(self.seconds - self.offset, movement)
        lengths = f"sound of {self.seconds:.2f} s, movement of {movement:.2f} s{at}"
        if begin > UNNOTICED or movement - end > UNNOTICED:
            return [f"{lengths}: only the {max(end - begin, 0.0):.2f} s in common are used"]
        if self.seconds - self.offset - movement > UNNOTICED:
            return [f"{lengths}: the sound goes on after the movement; is the offset right?"]
        return []
