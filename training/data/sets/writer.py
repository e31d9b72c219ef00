"""Writes a set: arrays first, the index last, so that a set that opens is complete."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip._core import FEATURES_VERSION
from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.atomic import write_atomic
from pyanticip.system import try_lock
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE
from training.data.examples import Example
from training.data.manifest import INDEX
from training.data.sets.format import (
    ALL_ARRAYS,
    ARRAYS,
    FORMAT,
    LABELS,
    VERSION,
    ClipEntry,
    digest_of,
    row_bytes,
)
from training.teacher.kinematic_targets import TEACHER_VERSION

WORK: Final = ".work"
"""Work folder inside the set for finished takes and unfinished arrays; removed when the set is complete."""


def prepare_folder(out: Path) -> Path:
    """Make the folder of a set and its work folder; returns the work folder.

    Raises:
        OptionError: the folder holds something else.
    """
    ours = {*ALL_ARRAYS, INDEX, WORK}
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out}: is a file, expected a new folder or one that holds a set")
    if out.is_dir():
        others = sorted(entry.name for entry in out.iterdir() if entry.name not in ours)
        is_ours = (out / INDEX).is_file() or (out / WORK).is_dir()
        if others and not is_ours:
            raise OptionError(f"{out}: holds {others[0]} and no set; expected a new or empty folder")
    work = out / WORK
    work.mkdir(parents=True, exist_ok=True)
    return work


@contextmanager
def lock(work: Path) -> Iterator[None]:
    """Let only one process build a set; released when the process exits.

    Raises:
        OptionError: another process builds it.
    """
    with (work / "lock").open("a", encoding="utf-8") as file:
        if try_lock(file.fileno()) is False:
            raise OptionError(f"{work.parent}: another process is building this set")
        yield


class SetWriter:
    """Appends clips to new arrays beside the old ones; :meth:`finish` moves them into place.

    Only one clip is in memory at a time. Without ``finish`` (an error, Ctrl-C) the set is unchanged.

    Args:
        out: folder of the set.
        labels: whether every clip has labels of wrong frames.
    """

    def __init__(self, out: Path, *, labels: bool = False) -> None:
        self.out = out
        self.names = (*ARRAYS, *((LABELS,) if labels else ()))
        self._work = prepare_folder(out)
        self._files: dict[str, IO[bytes]] = {}
        self._sums = {name: hashlib.sha256() for name in self.names}
        self._rows = dict.fromkeys(self.names, 0)
        self.clips: list[ClipEntry] = []

    def __enter__(self) -> "SetWriter":
        for name in self.names:
            self._files[name] = (self._work / f"{name}.new").open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, file in self._files.items():
            file.close()
            with suppress(FileNotFoundError):
                (self._work / f"{name}.new").unlink()

    def _append(self, name: str, rows: NDArray[Any]) -> None:
        kind, row = ALL_ARRAYS[name]
        if rows.shape[1:] != row:
            raise FormatError(f"{name}: expected rows of shape {row}, got {rows.shape[1:]}")
        data = np.ascontiguousarray(rows, dtype=kind).tobytes()
        self._files[name].write(data)
        self._sums[name].update(data)
        self._rows[name] += len(rows)

    def append(self, entry: ClipEntry, example: Example, root: NDArray[np.float32]) -> None:
        """Append a clip and its root (T, 3), metres; the entry's row and event positions are filled in."""
        first = self._rows["events.i32"]
        start = self._rows["features.f32"]
        frames, onsets, phrases, bad = len(example.features), example.onsets, example.phrases, example.bad
        for name, rows in (
            ("features.f32", example.features),
            ("params.f32", example.params),
            ("quats.f32", example.quats),
            ("root.f32", root),
        ):
            if len(rows) != frames or not np.isfinite(rows).all():
                raise FormatError(f"{entry.name}: {name} has frames that are missing or not finite")
            self._append(name, rows)
        self._append("events.i32", np.concatenate([onsets, phrases]))
        if LABELS in self.names:
            if bad is None or len(bad) != frames:
                raise FormatError(f"{entry.name}: has no label of wrong frames for every frame")
            self._append(LABELS, bad)
        events = (first, len(onsets), len(phrases))
        self.clips.append(replace(entry, start=start, frames=frames, events=events))

    def finish(
        self,
        *,
        made_by: Mapping[str, Any],
        sources: Sequence[Mapping[str, Any]],
        refused: Sequence[Mapping[str, str]],
        warnings: Sequence[str],
    ) -> dict[str, Any]:
        """Move the arrays into place and write the index; returns the index."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        index: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "rate": RATE,
            "features_version": FEATURES_VERSION,
            "teacher_version": TEACHER_VERSION,
            "joints": list(CANONICAL_JOINTS),
            "frames": self._rows["features.f32"],
            "arrays": {
                name: {
                    "rows": self._rows[name],
                    "row_bytes": row_bytes(name),
                    "sha256": self._sums[name].hexdigest(),
                }
                for name in self.names
            },
            "made_by": dict(made_by),
            "clips": [clip.record() for clip in self.clips],
            "sources": [dict(source) for source in sources],
            "refused": [dict(line) for line in refused],
            "warnings": list(warnings),
        }
        index["digest"] = digest_of(index)
        # The old index goes first: arrays of one set are never opened with the index of another.
        with suppress(FileNotFoundError):
            (self.out / INDEX).unlink()
        for name in self.names:
            (self._work / f"{name}.new").replace(self.out / name)
        write_atomic(self.out / INDEX, (json.dumps(index, indent=1, ensure_ascii=True) + "\n").encode())
        return index
