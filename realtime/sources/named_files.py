"""Files that a recording names: they lie where they lay then, or came along with it."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.untrusted import open_file

__all__ = ["file_of", "files_of"]

# Commands of a file and its sum.
_OF_FILES = ("mapping", "memory", "model")


def files_of(name: str, arguments: tuple[object, ...], recording: Path) -> tuple[object, ...]:
    """The arguments of a recorded command, with the file where it lies now."""
    if name not in _OF_FILES or len(arguments) != 2 or not arguments[0]:
        return arguments
    file, sha256 = map(str, arguments)
    return file_of(file, sha256, recording), sha256


def file_of(file: str, sha256: str, recording: Path) -> str:
    """Where the very file lies that a recording names, by its sum: of a checkpoint, that of its weights.

    It is looked for where it was, the same way from the recording's folder, and beside the recording; in
    ``mappings`` there too, where a project keeps every fit. Where it is in none of these: the first that is
    there under its name, or else ``file``.
    """
    was, folder = Path(file), recording.parent
    places = list(dict.fromkeys((was, folder / was, folder / was.name)))
    there: list[Path] = []
    for place in places:
        for found in (place, *_fits(place)):
            told = _sum(found)
            if told == sha256:
                return str(found)
            if told and found == place:
                there.append(place)
    return str(there[0]) if there else file


def _fits(mapping: Path) -> list[Path]:
    """The fits that the project of a mapping has kept, the newest first."""
    kept = mapping.parent / "mappings"
    with contextlib.suppress(OSError, ValueError):
        return sorted(kept.iterdir(), reverse=True)
    return []


def _sum(path: Path) -> str:
    """SHA-256 in hexadecimal; empty where there is nothing to be read."""
    with (
        contextlib.suppress(OSError, ValueError),
        open_file(path / WEIGHTS if path.is_dir() else path) as file,
    ):
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""
