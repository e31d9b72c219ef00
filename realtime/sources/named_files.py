"""Finds the files that a recording names: at their recorded path, or next to the recording."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.untrusted import open_file

# Commands whose arguments are a file and its SHA-256.
_FILE_COMMANDS = ("mapping", "memory", "model")

# Suffixes of files that are found by their SHA-256 if they were renamed.
_RENAMABLE_SUFFIXES = (".memory", ".safetensors")


def resolve_arguments(
    name: str, arguments: tuple[object, ...], recording: Path, ran: object = None
) -> tuple[object, ...]:
    """The arguments of a recorded command, with the current path of its file."""
    if name not in _FILE_COMMANDS or len(arguments) != 2 or not arguments[0]:
        return arguments
    file, sha256 = map(str, arguments)
    return find_file(file, sha256, recording, ran), sha256


def find_file(file: str, sha256: str, recording: Path, ran: object = None) -> str:
    """The current path of a file that a recording names, found by its SHA-256 (a checkpoint's: its weights').

    It is looked for at the paths of :func:`candidate_paths`; in the folder ``mappings`` next to each, where a
    project keeps every fit; and under any name next to the recording. If it is in none of these: the first
    path that exists, or else ``file``.
    """
    existing: list[Path] = []
    for path in candidate_paths(file, recording, ran):
        for candidate in (path, *_kept_fits(path)):
            candidate_sha256 = file_sha256(candidate)
            if candidate_sha256 == sha256:
                return str(candidate)
            if candidate_sha256 and candidate == path:
                existing.append(path)
    renamed = (path for path in _same_suffix(file, recording) if file_sha256(path) == sha256)
    return str(next(renamed, existing[0] if existing else file))


def candidate_paths(file: str, recording: Path, ran: object = None) -> list[Path]:
    """Paths where a file that a recording names may be: the recorded path, relative to the working directory,
    to the directory ``ran`` that the show ran in (None: not recorded, in older recordings) and to the
    recording's folder; and its name next to the recording."""
    recorded, folder = Path(file), recording.parent
    from_show = [Path(ran) / recorded] if isinstance(ran, str) and ran else []
    return list(dict.fromkeys((recorded, *from_show, folder / recorded, folder / recorded.name)))


def _same_suffix(file: str, recording: Path) -> list[Path]:
    """The files next to the recording with the same suffix, if that is a memory's or a mapping's."""
    with contextlib.suppress(OSError, ValueError):
        if (suffix := Path(file).suffix) in _RENAMABLE_SUFFIXES:
            return sorted(path for path in recording.parent.iterdir() if path.suffix == suffix)
    return []


def _kept_fits(mapping: Path) -> list[Path]:
    """The fits that the mapping's project has kept, newest first."""
    folder = mapping.parent / "mappings"
    with contextlib.suppress(OSError, ValueError):
        return sorted(folder.iterdir(), reverse=True)
    return []


def file_sha256(path: Path) -> str:
    """SHA-256 in hexadecimal; empty if the file cannot be read."""
    with (
        contextlib.suppress(OSError, ValueError),
        open_file(path / WEIGHTS if path.is_dir() else path) as file,
    ):
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""
