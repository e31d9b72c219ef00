"""A set of prepared motion on disk: memory-mapped arrays and one JSON file that names what is in them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import open_file, read_json
from pyanticip.vocabulary import CANONICAL_JOINTS, FEATURES, RATE
from training.data.examples import Example, Piece, Split
from training.data.manifest import INDEX, check_whole
from training.teacher.kinematic_targets import TEACHER_VERSION

FORMAT: Final = "pyanticip-set"
VERSION: Final = 1
"""Counts the changes of the layout below."""


ARRAYS: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    "features.f32": ("<f4", (FEATURES,)),
    "params.f32": ("<f4", (8,)),
    "quats.f32": ("<f4", (len(CANONICAL_JOINTS), 4)),
    "root.f32": ("<f4", (3,)),
    "events.i32": ("<i4", ()),
}
"""File, type and shape of one row. All but the last have a row per frame."""

LABELS: Final = "bad.u8"
"""Array that only sets with bad stretches have: 1 for frames that are known to be wrong."""

KINDS: Final[dict[str, tuple[str, tuple[int, ...]]]] = {**ARRAYS, LABELS: ("<u1", ())}
"""Type and shape of one row of every array that a set may have."""

SPLITS: Final[tuple[Split, ...]] = ("train", "validation", "test")


@dataclass(frozen=True)
class ClipEntry:
    """One clip of a set: motion without a tracking jump at 50 Hz, rows ``start`` to ``start + frames``."""

    name: str
    subject: str
    split: Split
    start: int
    """First row in the arrays."""
    frames: int
    missing: tuple[str, ...]
    """Canonical joints that the source lacks."""
    source: str
    """File it was read from, relative to the folder of the takes; / between its parts."""
    part: int | None
    """Which stretch of the source between tracking jumps; None where there was no jump."""
    seconds: float
    """Where in the source it begins."""
    targets: Literal["teacher", "audio"]
    """Who says what the parameters are."""
    events: tuple[int, int, int]
    """First row in ``events.i32``; how many onsets are there, and how many phrases after them."""
    of: str = ""
    """The clip of which this is a variation."""
    words: str = ""
    """What it shows, as a manifest of the takes said when the set was built."""

    def __len__(self) -> int:
        return self.frames

    def record(self) -> dict[str, Any]:
        """As it stands in the JSON file."""
        found = dict(vars(self))
        found["missing"], found["events"] = list(self.missing), list(self.events)
        return {name: value for name, value in found.items() if name not in ("of", "words") or value}


def digest_of(index: Mapping[str, Any]) -> str:
    """sha256 of everything in the JSON file but the digest itself; that includes the arrays' own sums."""
    content = {key: value for key, value in index.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class MotionSet:
    """An open set. Its arrays are read-only memory maps: opening costs no memory, and many may share it.

    Made by :meth:`open`.

    Attributes:
        folder: where it is.
        index: the content of ``set.json``.
        clips: what is in it, in the order of the rows.
        features: (N, 279) float32, features, the seven scalars among them.
        params: (N, 8) float32, 0 to 1.
        quats: (N, 22, 4) float32, canonical local rotations w x y z.
        root: (N, 3) float32, metres.
        events: (E,) int32, frames of events relative to their clip.
        bad: (N,) uint8, 1 for frames that are known to be wrong; None where nobody knows.
    """

    def __init__(self, folder: Path, index: dict[str, Any], clips: tuple[ClipEntry, ...]) -> None:
        self.folder = folder
        self.index = index
        self.clips = clips
        self.features = self._map("features.f32")
        self.params = self._map("params.f32")
        self.quats = self._map("quats.f32")
        self.root = self._map("root.f32")
        self.events = self._map("events.i32")
        self.bad = self._map(LABELS) if LABELS in index["arrays"] else None

    @classmethod
    def open(cls, path: Path | str, *, verify: bool = False) -> "MotionSet":
        """Open the set in a folder.

        Args:
            path: the folder, or its ``set.json``.
            verify: also read all arrays and compare their sha256.

        Raises:
            FormatError: no set, an incomplete or damaged one, or one for other features or another teacher.
        """
        folder = Path(path)
        folder = folder.parent if folder.name == INDEX else folder
        index = read_index(folder)
        try:
            clips = tuple(_entry(found) for found in index["clips"])
            frames = int(index["frames"])
            names = [*ARRAYS, *(name for name in (LABELS,) if name in index["arrays"])]
            arrays = {name: int(index["arrays"][name]["rows"]) for name in names}
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{folder / INDEX}: lacks {error}; build the set again") from None
        ends = [0, *(clip.start + clip.frames for clip in clips)]
        if [clip.start for clip in clips] != ends[:-1] or ends[-1] != frames:
            raise FormatError(f"{folder / INDEX}: its clips do not cover its {frames} frames")
        for name, rows in arrays.items():
            expected = rows * row_bytes(name)
            file = folder / name
            size = file.stat().st_size if file.is_file() else -1
            if size != expected or (name != "events.i32" and rows != frames):
                have = "is missing" if size < 0 else f"has {size} bytes"
                raise FormatError(f"{file}: {have}, expected {expected}; build the set again")
            if verify and sha256_of(file) != index["arrays"][name]["sha256"]:
                raise FormatError(f"{file}: its content is not what was written; build the set again")
        return cls(folder, index, clips)

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        # To another process goes the folder, not the arrays.
        return MotionSet.open, (self.folder,)

    def _map(self, name: str) -> NDArray[Any]:
        kind, row = KINDS[name]
        rows = int(self.index["arrays"][name]["rows"])
        if rows == 0:  # an empty file cannot be mapped
            return np.zeros((0, *row), dtype=kind)
        return np.memmap(self.folder / name, dtype=kind, mode="r", shape=(rows, *row))

    def __len__(self) -> int:
        """The number of clips."""
        return len(self.clips)

    def __repr__(self) -> str:
        return f"MotionSet({str(self.folder)!r}, {len(self)} clips, {self.frames} frames)"

    @property
    def digest(self) -> str:
        """sha256 over everything in the set: the same digest, the same numbers."""
        return str(self.index["digest"])

    @property
    def frames(self) -> int:
        """N: frames of all clips together."""
        return int(self.index["frames"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What there was to say when it was built."""
        return tuple(self.index["warnings"])

    def indices(self, split: Split | None = None) -> list[int]:
        """Numbers of the clips of one side of the split; of all clips if not given."""
        if split is not None and split not in SPLITS:
            raise OptionError(f"split is one of {', '.join(SPLITS)}, given {split!r}")
        return [number for number, clip in enumerate(self.clips) if split in (None, clip.split)]

    def training(self, without: Sequence[str] = ()) -> list[int]:
        """Numbers of the training clips but those of some subjects.

        Raises:
            OptionError: one of them is no training subject, or nobody is left.
        """
        known = self.subjects("train")
        if unknown := sorted({*without} - {*known}):
            raise OptionError(
                f"{self.folder}: no training motion of subject {', '.join(unknown)}; "
                f"its training subjects are {', '.join(known) or 'nobody'}"
            )
        found = [number for number in self.indices("train") if self.clips[number].subject not in without]
        if without and not found:
            raise OptionError(f"{self.folder}: nobody is left to learn from without {', '.join(without)}")
        return found

    def subjects(self, split: Split | None = None) -> list[str]:
        """Who is in it, or on one side of its split."""
        return sorted({self.clips[number].subject for number in self.indices(split)})

    def mask(self, number: int) -> NDArray[np.bool_]:
        """(22,) joints that the source of a clip has."""
        missing = self.clips[number].missing
        return np.array([joint not in missing for joint in self.index["joints"]], dtype=np.bool_)

    def example(self, number: int) -> Example:
        """A clip as the training code takes it; its arrays are views into the maps."""
        clip = self.clips[number]
        rows = slice(clip.start, clip.start + clip.frames)
        first, onsets, phrases = clip.events
        events = np.asarray(self.events[first : first + onsets + phrases], dtype=np.int64)
        return Example(
            clip.name,
            clip.subject,
            np.asarray(self.quats[rows]),
            np.asarray(self.features[rows]),
            np.asarray(self.params[rows]),
            events[:onsets],
            events[onsets:],
            None if self.bad is None else np.asarray(self.bad[rows]).astype(np.bool_),
        )

    def examples(self, split: Split | None = None) -> list[Example]:
        """The clips of one side of the split, or all.

        Raises:
            FormatError: there is none on that side.
        """
        found = [self.example(number) for number in self.indices(split)]
        if not found:
            raise FormatError(self.nobody(split))
        return found

    def nobody(self, split: Split | None) -> str:
        """What to say where a side of the split is asked for and empty."""
        if split is None:
            return f"{self.folder}: the set holds no clip"
        everybody = self.subjects()
        who = f"its only subject is {everybody[0]}" if len(everybody) == 1 else f"{len(everybody)} subjects"
        return (
            f"{self.folder}: no {split} clip ({who}); the split goes by subject: "
            "build with takes of more subjects, or with --split-file"
        )

    def piece(self, number: int) -> Piece:
        """The motion of a clip alone, at 50 Hz."""
        clip = self.clips[number]
        rows = slice(clip.start, clip.start + clip.frames)
        return Piece(
            clip.name,
            clip.subject,
            np.asarray(self.quats[rows]),
            np.asarray(self.root[rows]),
            self.mask(number),
            RATE,
        )


def is_set(path: Path | str) -> bool:
    """Whether a folder holds a complete set, whatever its version."""
    return (Path(path) / INDEX).is_file()


def row_bytes(name: str) -> int:
    """Bytes of a row of one of ``KINDS``."""
    kind, row = KINDS[name]
    return int(np.dtype(kind).itemsize * np.prod(row, dtype=np.int64))


def sha256_of(path: Path) -> str:
    """sha256 of a file, read in blocks."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_index(folder: Path) -> dict[str, Any]:
    """The checked content of a set's JSON file."""
    from pyanticip._core import FEATURES_VERSION

    path = folder / INDEX
    if not path.exists():
        check_whole(folder)
        takes, out = ("DIR", folder) if not folder.is_dir() or not any(folder.iterdir()) else (folder, "SET")
        how = f"pyanticip train data build {quote(str(takes))} --out {quote(str(out))}"
        raise FormatError(f"{folder}: no set in it (no {INDEX}); make one: {how}")
    try:
        index = read_json(path)
    except FormatError as error:
        raise FormatError(f"{error}; build the set again") from None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise FormatError(f"{path}: is not the index of a set of motion")
    for what, ours, given in (
        ("the layout of version", VERSION, index.get("version")),
        ("features of version", FEATURES_VERSION, index.get("features_version")),
        ("targets of teacher", TEACHER_VERSION, index.get("teacher_version")),
        ("a rate of", RATE, index.get("rate")),
        ("joints", list(CANONICAL_JOINTS), index.get("joints")),
    ):
        if given != ours:
            raise FormatError(
                f"{path}: has {what} {given}, expected {ours}; build the set again: "
                f"pyanticip train data build TAKES --out {quote(str(folder))}"
            )
    try:
        untouched = index.get("digest") == digest_of(index)
    except (ValueError, RecursionError):  # NaN, lone surrogates, endless nesting: never ours
        untouched = False
    if not untouched:
        raise FormatError(f"{path}: was changed by hand or damaged; build the set again")
    return index


def _entry(found: Mapping[str, Any]) -> ClipEntry:
    first, onsets, phrases = (int(value) for value in found["events"])
    if found["split"] not in SPLITS or found["targets"] not in ("teacher", "audio"):
        raise ValueError(f"a split and targets that exist in clip {found['name']!r}")
    return ClipEntry(
        name=str(found["name"]),
        subject=str(found["subject"]),
        split=found["split"],
        start=int(found["start"]),
        frames=int(found["frames"]),
        missing=tuple(found["missing"]),
        source=str(found["source"]),
        part=None if found["part"] is None else int(found["part"]),
        seconds=float(found["seconds"]),
        targets=found["targets"],
        events=(first, onsets, phrases),
        of=str(found.get("of", "")),
        words=str(found.get("words", "")),
    )
