"""The clips of a folder by side: who taught a model, and strangers to judge it on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console

from pyanticip.errors import FormatError, OptionError
from training.data.examples import Example, Piece, Split
from training.data.sets import MotionSet, is_set
from training.data.sets.splits import read_split_file
from training.evaluate.kinds import of_take, read_repeats, read_takes
from training.tasks.motion.data import base_set
from training.tasks.motion.options import MotionTrainOptions

PEOPLE: Final = Path(__file__).with_name("settings") / "people.csv"
"""The sides of the people in ``more/``."""

MORE: Final = "more"
"""Folder of takes of other makers, beside ``cmu``."""


@dataclass(frozen=True)
class Clip:
    """A clip with what is known of it."""

    example: Example
    """Its subject is the person, by one name in all folders."""
    piece: Piece
    """Its motion alone."""
    kind: str
    """One of ``KINDS``."""
    side: Split
    source: str
    """The file it is of, relative to the data, without suffix."""
    by_sound: bool = False
    """Whether its parameters are those of a sound beside it."""

    @property
    def name(self) -> str:
        """As it stands in reports."""
        return self.example.name

    @property
    def person(self) -> str:
        """Whose it is."""
        return self.example.subject


class Takes:
    """The clips of a set, or of a folder of takes: the CMU takes in ``cmu``, others in ``more``.

    Everybody is on the side that ``train motion`` puts them on; the people of ``more``, whom it does not
    know, on that of a table.

    Args:
        data: folder of either.
        cache: where folders of takes are built into sets; the user's cache folder by default.
        manifest: folder or file that says what the takes show; by default the ones in ``data``.
        quiet: no progress while a set is built.

    Raises:
        FormatError: no motion there, or no such manifest.
        OptionError: a person on two sides.
    """

    def __init__(
        self, data: Path, cache: Path | None = None, manifest: Path | None = None, *, quiet: bool = True
    ) -> None:
        if manifest is not None and not manifest.exists():
            raise FormatError(f"{manifest}: no such manifest")
        self.data = data
        several = not is_set(data) and (data / "cmu").is_dir() and (data / MORE).is_dir()
        folders = [(data, "cmu/"), (data / MORE, f"{MORE}/")] if several else [(data, "")]
        self.own = folders[0][1]
        sides = read_split_file(PEOPLE) if several else {}
        pairs = read_repeats(data)
        again = {take for pair in pairs for take in pair}
        console = None if quiet else Console(stderr=True)
        self.sets: list[MotionSet] = []
        self.clips: list[Clip] = []
        for folder, prefix in folders:
            options = MotionTrainOptions().but(data={"path": folder, "cache": cache or ""})
            found = base_set(options, console)
            self.sets.append(found)
            described = read_takes(manifest or folder)
            for number, entry in enumerate(found.clips):
                if entry.of:
                    continue
                said = of_take(entry.source, described)
                person = said.person or entry.subject
                source = f"{prefix}{Path(entry.source).with_suffix('').as_posix()}"
                side = entry.split if prefix != f"{MORE}/" else sides.get(person, "train")
                kind = said.kind
                if kind == "dance, improvised" and source in again:
                    kind = "dance, repeated"
                self.clips.append(
                    Clip(
                        replace(found.example(number), subject=person),
                        found.piece(number),
                        kind,
                        side,
                        source,
                        entry.targets == "audio",
                    )
                )
        check_people(self.clips)
        self.pairs = _twice(self.clips, pairs)

    @property
    def digest(self) -> str:
        """Of everything in the sets."""
        return "-".join(found.digest[:12] for found in self.sets)

    def taught(self) -> list[Clip]:
        """What ``train motion`` learns from: the training side of the first set."""
        return [clip for clip in self.clips if clip.side == "train" and clip.source.startswith(self.own)]

    def strangers(self, split: str, people: Sequence[str] = ()) -> list[Clip]:
        """The clips to judge: of one side, or of some people of any side.

        Raises:
            OptionError: nobody there.
            FormatError: no clip on that side.
        """
        if people:
            found = [clip for clip in self.clips if clip.person in people]
            missing = sorted(set(people) - {clip.person for clip in found})
            if missing:
                raise OptionError(f"{self.data}: no motion of subject {', '.join(missing)}")
            return found
        found = [clip for clip in self.clips if clip.side == split]
        if not found:
            raise FormatError(f"{self.data}: no {split} clip; expected a set with a side to judge on")
        return found


def check_people(clips: Iterable[Clip]) -> None:
    """Check that everybody is on one side, whatever folders their takes lie in.

    Raises:
        OptionError: somebody is on two.
    """
    sides: dict[str, Split] = {}
    for clip in clips:
        if sides.setdefault(clip.person, clip.side) != clip.side:
            raise OptionError(
                f"{clip.source}: subject {clip.person} is on two sides, {sides[clip.person]} and {clip.side}"
            )


def _twice(clips: Sequence[Clip], pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """For every take the one most like it that was there before; only of takes that are here."""
    here = {clip.source for clip in clips}
    found: dict[str, str] = {}
    for first, second in pairs:
        if {first, second} <= here:
            found.setdefault(second, first)
    return [(first, second) for second, first in found.items()]
