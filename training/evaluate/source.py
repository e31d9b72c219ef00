"""What is judged: clips of people held out, from a set or from a folder of takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from pyanticip.errors import FormatError, OptionError
from training.data.examples import Example, Split
from training.evaluate.categories import group_of, read_categories
from training.tasks.motion.data import base_set
from training.tasks.motion.options import MotionTrainOptions
from training.teacher.handmade import EDGE

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
    by_sound: bool = False
    """Whether its parameters and events are those of a sound beside it."""


class Source:
    """A set, or a folder of takes, to judge on: who is on which side is what it is for ``train motion``.

    Args:
        data: folder of either.
        cache: where a folder of takes is built into a set; the user's cache folder by default.
        manifest: folder or file that says what the takes show; by default the one in ``data``.
        quiet: no progress while a set is built.
    """

    def __init__(
        self, data: Path, cache: Path | None = None, manifest: Path | None = None, *, quiet: bool = True
    ) -> None:
        if manifest is not None and not manifest.exists():
            raise FormatError(f"{manifest}: no such manifest")
        options = MotionTrainOptions().but(data={"path": data, "cache": cache or ""})
        self.data = data
        self.set = base_set(options, None if quiet else Console(stderr=True))
        self.categories = read_categories(manifest or data)

    def described(self) -> dict[str, Any]:
        """What it is, for a report."""
        return {"kind": "set", "digest": self.set.digest}

    def load(self, side: Split) -> list[Held]:
        """The clips of one side of the split, variations left out.

        Raises:
            FormatError: there is none.
        """
        numbers = [n for n in self.set.indices(side) if not self.set.clips[n].of]
        if not numbers:
            raise FormatError(self.set.nobody(side))
        return [
            Held(
                self.set.example(n),
                self.set.piece(n).root,
                self.set.mask(n),
                group_of(Path(self.set.clips[n].source).stem, self.categories),
                self.set.clips[n].targets == "audio",
            )
            for n in numbers
        ]

    def subjects(self, names: Sequence[str]) -> list[Held]:
        """All clips of some subjects, whatever side they are on.

        Raises:
            OptionError: one of them has none.
        """
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
