"""Files that a recording names: they lie where they lay then, or came along with it."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.untrusted import open_file

__all__ = ["file_of", "files_of", "places_of", "sum_of"]

# Commands of a file and its sum.
_OF_FILES = ("mapping", "memory", "model")

# Of these a renamed file is found by its sum.
_KINDS = (".memory", ".safetensors")


def files_of(
    name: str, arguments: tuple[object, ...], recording: Path, ran: object = None
) -> tuple[object, ...]:
    """The arguments of a recorded command, with the file where it lies now."""
    if name not in _OF_FILES or len(arguments) != 2 or not arguments[0]:
        return arguments
    file, sha256 = map(str, arguments)
    return file_of(file, sha256, recording, ran), sha256


def file_of(file: str, sha256: str, recording: Path, ran: object = None) -> str:
    """Where the very file lies that a recording names, by its sum: of a checkpoint, that of its weights.

    It is looked for in the places of :func:`places_of`; in ``mappings`` there too, where a project keeps
    every fit; and under any name beside the recording. Where it is in none of these: the first that is there
    under its name, or else ``file``.
    """
    places = places_of(file, recording, ran)
    there: list[Path] = []
    for place in places:
        for found in (place, *_fits(place)):
            told = sum_of(found)
            if told == sha256:
                return str(found)
            if told and found == place:
                there.append(place)
    renamed = (found for found in _like(file, recording) if sum_of(found) == sha256)
    return str(next(renamed, there[0] if there else file))


def places_of(file: str, recording: Path, ran: object = None) -> list[Path]:
    """Where a file may lie that a recording names: where it was, from here and from where the show ran (None:
    recordings from before that was told), the same way from the recording's folder, and beside the
    recording."""
    was, folder = Path(file), recording.parent
    then = [Path(ran) / was] if isinstance(ran, str) and ran else []
    return list(dict.fromkeys((was, *then, folder / was, folder / was.name)))


def _like(file: str, recording: Path) -> list[Path]:
    """The files of a memory's or a mapping's kind beside the recording."""
    with contextlib.suppress(OSError, ValueError):
        if (kind := Path(file).suffix) in _KINDS:
            return sorted(path for path in recording.parent.iterdir() if path.suffix == kind)
    return []


def _fits(mapping: Path) -> list[Path]:
    """The fits that the project of a mapping has kept, the newest first."""
    kept = mapping.parent / "mappings"
    with contextlib.suppress(OSError, ValueError):
        return sorted(kept.iterdir(), reverse=True)
    return []


def sum_of(path: Path) -> str:
    """SHA-256 in hexadecimal; empty where there is nothing to be read."""
    with (
        contextlib.suppress(OSError, ValueError),
        open_file(path / WEIGHTS if path.is_dir() else path) as file,
    ):
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""
