"""The clips of a folder by side: who taught a model, and strangers to judge it on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pyanticip.errors import FormatError, OptionError
from training.data.examples import Example, Piece, Split
from training.data.manifest import Manifests, bare
from training.data.source import takes_folder
from training.evaluate.kinds import REPEATS, kind_of_take, read_repeats
from training.tasks.motion.data import base_set
from training.tasks.motion.options import MotionTrainOptions


@dataclass(frozen=True)
class Clip:
    """A clip with what is known of it."""

    example: Example
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
    """The clips of a set, or of a folder of takes.

    Everybody is on the side that ``train motion`` puts them on.

    Args:
        data: folder of either.
        cache: where folders of takes are built into sets; the user's cache folder by default.
        manifest: folder or file that says what the takes show; by default the ones in ``data``.
        quiet: no progress while a set is built.

    Raises:
        FormatError: no motion there, or no such manifest.
    """

    def __init__(
        self, data: Path, cache: Path | None = None, manifest: Path | None = None, *, quiet: bool = True
    ) -> None:
        if manifest is not None and not manifest.exists():
            raise FormatError(f"{manifest}: no such manifest")
        self.data = data
        options = MotionTrainOptions().but(data={"path": data, "cache": cache or ""})
        found = base_set(options, None if quiet else Console(stderr=True))
        self.digest = found.digest
        manifests = Manifests(manifest or takes_folder(data))
        alike = read_repeats(data) if (data / REPEATS).is_file() else []
        pairs = [(bare(a), bare(b)) for _, a, b in alike]
        again = {take for pair in pairs for take in pair}
        self.clips: list[Clip] = []
        for number, entry in enumerate(found.clips):
            if entry.of:
                continue
            source, kind = bare(entry.source), kind_of_take(entry.source, manifests)
            if kind == "dance, improvised" and source in again:
                kind = "dance, repeated"
            what = found.example(number), found.piece(number), kind, entry.split, source
            self.clips.append(Clip(*what, by_sound=entry.targets == "audio"))
        self.pairs = _twice(self.clips, pairs)

    def taught(self) -> list[Clip]:
        """What ``train motion`` learns from."""
        return [clip for clip in self.clips if clip.side == "train"]

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


def _twice(clips: Sequence[Clip], pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """For every take the one most like it that was there before; only of takes that are here."""
    here = {clip.source for clip in clips}
    found: dict[str, str] = {}
    for first, second in pairs:
        if {first, second} <= here:
            found.setdefault(second, first)
    return [(first, second) for second, first in found.items()]
