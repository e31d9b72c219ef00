"""What is judged: clips of people held out, from a set or from a folder of takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError, OptionError
from training.data import Example, Split, at_rate, load_split, plain, split_of
from training.evaluation.categories import group_of, read_categories
from training.sets import MotionSet, is_set
from training.teacher import EDGE

SIDES: Final[dict[str, tuple[Split, ...]]] = {
    "validation": ("validation",),
    "test": ("test",),
    "held-out": ("validation", "test"),
}
"""What ``--split`` may name."""

EVERY: Final[tuple[Split, ...]] = ("train", "validation", "test")


@dataclass(frozen=True)
class Held:
    """A clip to judge."""

    example: Example
    root: NDArray[np.float32]
    """(T, 3) metres."""
    mask: NDArray[np.bool_]
    """(22,) joints that its source has."""
    group: str
    """Its category."""


class Source:
    """A set, or a folder of CMU takes, to judge on.

    Args:
        data: folder of either.
        cache: where a folder's retargeted motion is kept.
        manifest: folder or file that says what the takes show; by default the one in ``data``.
    """

    def __init__(self, data: Path, cache: Path | None = None, manifest: Path | None = None) -> None:
        self.data, self.cache = data, cache
        self.set = MotionSet.open(data) if is_set(data) else None
        if manifest is not None and not manifest.exists():
            raise FormatError(f"{manifest}: no such manifest")
        self.categories = read_categories(manifest or data)

    def described(self) -> dict[str, Any]:
        """What it is, for a report."""
        if self.set is not None:
            return {"kind": "set", "digest": self.set.digest}
        return {"kind": "takes"}

    def load(self, side: Split) -> list[Held]:
        """The clips of one side of the split, variations left out.

        Raises:
            FormatError: there is none.
        """
        if self.set is None:
            found = []
            for piece in map(at_rate, load_split(self.data, side, self.cache)):
                found.append(self._held(plain(piece), piece.root, piece.mask))
            return found
        numbers = [n for n in self.set.indices(side) if not self.set.clips[n].of]
        if not numbers:
            raise FormatError(self.set.nobody(side))
        return [self._held(self.set.example(n), self.set.piece(n).root, self.set.mask(n)) for n in numbers]

    def _held(self, example: Example, root: NDArray[np.float32], mask: NDArray[np.bool_]) -> Held:
        return Held(example, root, mask, group_of(example.name, self.categories))

    def subjects(self, names: Sequence[str]) -> list[Held]:
        """All clips of some subjects, whatever side they are on.

        Raises:
            OptionError: one of them has none.
        """
        if self.set is None:
            sides = [side for side in EVERY if any(split_of(name) == side for name in names)]
        else:
            sides = [side for side in EVERY if set(names) & set(self.set.subjects(side))]
        found = [held for side in sides for held in self.load(side) if held.example.subject in names]
        missing = sorted(set(names) - {held.example.subject for held in found})
        if missing:
            raise OptionError(f"{self.data}: no motion of subject {', '.join(missing)}")
        return found

    def judged(self, split: str, names: Sequence[str] = ()) -> list[Held]:
        """The clips to judge: of some subjects, or of a split, long enough to be judged.

        Raises:
            OptionError: no such split or subject.
            FormatError: no clip there, or all too short.
        """
        if split not in SIDES:
            raise OptionError(f"split is one of {', '.join(SIDES)}, given {split!r}")
        found = self.subjects(names) if names else [h for side in SIDES[split] for h in self.load(side)]
        least = 2 * EDGE + 21
        if not any(len(held.example) >= least for held in found):
            longest = max(len(held.example) for held in found)
            raise FormatError(
                f"{self.data}: clips are too short to judge: the longest has {longest} frames, "
                f"expected at least {least}"
            )
        return found
