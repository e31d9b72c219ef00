"""Scales: which notes a parameter may choose from."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from pyanticip.errors import OptionError

__all__ = ["KEYS", "SCALES", "Scale"]

#: Pitch classes of the keys by name.
KEYS = {
    name: number
    for number, names in enumerate(
        ("C", "C# Db", "D", "D# Eb", "E", "F", "F# Gb", "G", "G# Ab", "A", "A# Bb", "B")
    )
    for name in names.split()
}

#: Semitones above the key.
SCALES: dict[str, tuple[int, ...]] = {
    "chromatic": tuple(range(12)),
    "major": (0, 2, 4, 5, 7, 9, 11),
    "minor": (0, 2, 3, 5, 7, 8, 10),
    "harmonic-minor": (0, 2, 3, 5, 7, 8, 11),
    "dorian": (0, 2, 3, 5, 7, 9, 10),
    "phrygian": (0, 1, 3, 5, 7, 8, 10),
    "lydian": (0, 2, 4, 6, 7, 9, 11),
    "mixolydian": (0, 2, 4, 5, 7, 9, 10),
    "locrian": (0, 1, 3, 5, 6, 8, 10),
    "pentatonic": (0, 2, 4, 7, 9),
    "minor-pentatonic": (0, 3, 5, 7, 10),
    "blues": (0, 3, 5, 6, 7, 10),
    "whole-tone": (0, 2, 4, 6, 8, 10),
}


class Scale:
    """The notes of a scale from ``low`` to ``high``: a value in 0..1 chooses the nearest.

    Raises
    ------
    OptionError
        None of the scale's notes lies there.
    """

    def __init__(self, low: int, high: int, key: int, steps: Sequence[int]) -> None:
        wanted = {(key + step) % 12 for step in steps}
        self.notes = [note for note in range(low, high + 1) if note % 12 in wanted]
        if not self.notes:
            raise OptionError(f"low, high: expected a note of the scale in between, got {low} to {high}")
        self._low, self._span = low, high - low

    def __call__(self, value: float) -> int:
        """The note for ``value``; between two that are as near it is the lower."""
        at = self._low + self._span * min(max(value, 0.0), 1.0)
        right = bisect.bisect_left(self.notes, at)
        near = self.notes[max(right - 1, 0) : right + 1]
        return min(near, key=lambda note: abs(note - at))
