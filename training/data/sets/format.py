"""On-disk format of a set of prepared motion: memory-mapped arrays and a JSON index."""

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
"""Version of the layout below."""


ARRAYS: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    "features.f32": ("<f4", (FEATURES,)),
    "params.f32": ("<f4", (8,)),
    "quats.f32": ("<f4", (len(CANONICAL_JOINTS), 4)),
    "root.f32": ("<f4", (3,)),
    "events.i32": ("<i4", ()),
}
"""Type and shape of one row of each array. All but the last have one row per frame."""

LABELS: Final = "bad.u8"
"""Array that only sets with glitches have: 1 for frames that are known to be wrong."""

ALL_ARRAYS: Final[dict[str, tuple[str, tuple[int, ...]]]] = {**ARRAYS, LABELS: ("<u1", ())}
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
    """Source file, relative to the folder of the takes, with / as separator."""
    part: int | None
    """Index of the stretch of the source between tracking jumps; None if there was no jump."""
    seconds: float
    """Start in the source, seconds."""
    targets: Literal["teacher", "audio"]
    """Where the targets come from: the teacher or a sound."""
    events: tuple[int, int, int]
    """First row in ``events.i32``, number of onsets there, and number of phrases after them."""
    of: str = ""
    """Name of the clip that this is a variation of; empty for an original."""
    words: str = ""
    """Description from the manifest of the takes, as of the build."""

    def __len__(self) -> int:
        return self.frames

    def record(self) -> dict[str, Any]:
        """The entry as it is stored in the index."""
        values = dict(vars(self))
        values["missing"], values["events"] = list(self.missing), list(self.events)
        return {name: value for name, value in values.items() if name not in ("of", "words") or value}


def digest_of(index: Mapping[str, Any]) -> str:
    """sha256 of the index without the digest itself; it includes the checksums of the arrays."""
    content = {key: value for key, value in index.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class MotionSet:
    """An open set. Its arrays are read-only memory maps, which processes share.

    Made by :meth:`open`.

    Attributes:
        folder: folder of the set.
        index: content of ``set.json``.
        clips: entries of the clips, in the order of the rows.
        features: (N, 279) float32, features, including the seven scalars.
        params: (N, 8) float32, 0 to 1.
        quats: (N, 22, 4) float32, canonical local rotations w x y z.
        root: (N, 3) float32, metres.
        events: (E,) int32, frames of events relative to their clip.
        bad: (N,) uint8, 1 for frames that are known to be wrong; None if not labelled.
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
            FormatError: no set, or one that is incomplete, damaged, or of other features or another teacher.
        """
        folder = Path(path)
        folder = folder.parent if folder.name == INDEX else folder
        index = read_index(folder)
        try:
            clips = tuple(_entry(record) for record in index["clips"])
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
        # Pickled as the folder: another process maps the arrays itself.
        return MotionSet.open, (self.folder,)

    def _map(self, name: str) -> NDArray[Any]:
        kind, row = ALL_ARRAYS[name]
        rows = int(self.index["arrays"][name]["rows"])
        if rows == 0:  # an empty file cannot be mapped
            return np.zeros((0, *row), dtype=kind)
        return np.memmap(self.folder / name, dtype=kind, mode="r", shape=(rows, *row))

    def __len__(self) -> int:
        """Number of clips."""
        return len(self.clips)

    def __repr__(self) -> str:
        return f"MotionSet({str(self.folder)!r}, {len(self)} clips, {self.frames} frames)"

    @property
    def digest(self) -> str:
        """sha256 over everything in the set."""
        return str(self.index["digest"])

    @property
    def frames(self) -> int:
        """N: total number of frames."""
        return int(self.index["frames"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the build."""
        return tuple(self.index["warnings"])

    def indices(self, split: Split | None = None) -> list[int]:
        """Indices of the clips of one split, or of all clips."""
        if split is not None and split not in SPLITS:
            raise OptionError(f"split is one of {', '.join(SPLITS)}, got {split!r}")
        return [number for number, clip in enumerate(self.clips) if split in (None, clip.split)]

    def training(self, without: Sequence[str] = ()) -> list[int]:
        """Indices of the training clips, without those of some subjects.

        Raises:
            OptionError: one of them is not a training subject, or no subject is left.
        """
        known = self.subjects("train")
        if unknown := sorted({*without} - {*known}):
            raise OptionError(
                f"{self.folder}: no training motion of subject {', '.join(unknown)}; "
                f"its training subjects are {', '.join(known) or 'nobody'}"
            )
        indices = [number for number in self.indices("train") if self.clips[number].subject not in without]
        if without and not indices:
            raise OptionError(f"{self.folder}: nobody is left to learn from without {', '.join(without)}")
        return indices

    def subjects(self, split: Split | None = None) -> list[str]:
        """Sorted subjects of the set, or of one split."""
        return sorted({self.clips[number].subject for number in self.indices(split)})

    def mask(self, number: int) -> NDArray[np.bool_]:
        """(22,) joints that the source of a clip has."""
        missing = self.clips[number].missing
        return np.array([joint not in missing for joint in self.index["joints"]], dtype=np.bool_)

    def example(self, number: int) -> Example:
        """A clip as an example; its arrays are views of the memory maps."""
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
        """The clips of one split, or all, as examples.

        Raises:
            FormatError: there is none.
        """
        examples = [self.example(number) for number in self.indices(split)]
        if not examples:
            raise FormatError(self.empty_message(split))
        return examples

    def empty_message(self, split: Split | None) -> str:
        """Error message for a split without clips."""
        if split is None:
            return f"{self.folder}: the set holds no clip"
        subjects = self.subjects()
        have = f"its only subject is {subjects[0]}" if len(subjects) == 1 else f"{len(subjects)} subjects"
        return (
            f"{self.folder}: no {split} clip ({have}); the split goes by subject: "
            "build with takes of more subjects, or with --split-file"
        )

    def piece(self, number: int) -> Piece:
        """The motion of a clip, at 50 Hz."""
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
    """Bytes per row of one of ``ALL_ARRAYS``."""
    kind, row = ALL_ARRAYS[name]
    return int(np.dtype(kind).itemsize * np.prod(row, dtype=np.int64))


def sha256_of(path: Path) -> str:
    """sha256 of a file, read in blocks."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_index(folder: Path) -> dict[str, Any]:
    """Read and check the index of a set.

    Raises:
        FormatError: there is none, it is damaged, or of another version.
    """
    from pyanticip._core import FEATURES_VERSION

    path = folder / INDEX
    if not path.exists():
        check_whole(folder)
        takes, out = (
            ("TAKES", folder) if not folder.is_dir() or not any(folder.iterdir()) else (folder, "SET")
        )
        how = f"pyanticip train data build {quote(str(takes))} --out {quote(str(out))}"
        raise FormatError(f"{folder}: no set in it (no {INDEX}); make one: {how}")
    try:
        index = read_json(path)
    except FormatError as error:
        raise FormatError(f"{error}; build the set again") from None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise FormatError(f"{path}: is not the index of a set of motion")
    for what, expected, actual in (
        ("the layout of version", VERSION, index.get("version")),
        ("features of version", FEATURES_VERSION, index.get("features_version")),
        ("targets of teacher", TEACHER_VERSION, index.get("teacher_version")),
        ("a rate of", RATE, index.get("rate")),
        ("joints", list(CANONICAL_JOINTS), index.get("joints")),
    ):
        if actual != expected:
            raise FormatError(
                f"{path}: has {what} {actual}, expected {expected}; build the set again: "
                f"pyanticip train data build TAKES --out {quote(str(folder))}"
            )
    try:
        is_intact = index.get("digest") == digest_of(index)
    except (ValueError, RecursionError):  # NaN, lone surrogates, deep nesting: never written by a build
        is_intact = False
    if not is_intact:
        raise FormatError(f"{path}: was changed by hand or damaged; build the set again")
    return index


def check_maker(out: Path, command: str, instead: str) -> None:
    """Refuse to replace a set that another command made; a damaged one, or one of another version, may be.

    Args:
        out: folder of the set to make; there may be none yet.
        command: ``made_by.command`` of the set to make.
        instead: what the folder is expected for, in the message.

    Raises:
        OptionError: it holds a set of another command.
    """
    try:
        maker = read_index(out)["made_by"]["command"] if is_set(out) else command
    except (FormatError, LookupError, TypeError):
        return
    if maker != command:
        raise OptionError(
            f"{out}: holds a set made by train data {maker}; expected another folder for {instead}"
        )


def _entry(record: Mapping[str, Any]) -> ClipEntry:
    first, onsets, phrases = (int(value) for value in record["events"])
    if record["split"] not in SPLITS or record["targets"] not in ("teacher", "audio"):
        raise ValueError(f"a split and targets that exist in clip {record['name']!r}")
    return ClipEntry(
        name=str(record["name"]),
        subject=str(record["subject"]),
        split=record["split"],
        start=int(record["start"]),
        frames=int(record["frames"]),
        missing=tuple(record["missing"]),
        source=str(record["source"]),
        part=None if record["part"] is None else int(record["part"]),
        seconds=float(record["seconds"]),
        targets=record["targets"],
        events=(first, onsets, phrases),
        of=str(record.get("of", "")),
        words=str(record.get("words", "")),
    )
