"""Paths in a rig, which in its file are relative to the file's folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_PERFORMER_PATHS = ("mapping", "teach", "memory", "source.joints", "source.skeleton")
_NEW_PATHS = ("record",)
_EXISTING_PATHS = (*_PERFORMER_PATHS, "record_spare", "model.checkpoint", "memory.file", "synth.samples")


def resolve_paths(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The tree of a rig file in ``folder`` with paths that are valid from the working folder.

    A path that exists relative to the working folder but not to ``folder`` is kept. ``~/`` is the
    home folder.
    """

    def change_existing(path: str) -> str:
        return _resolve(folder, path, Path(path))

    def change_new(path: str) -> str:
        return _resolve(folder, path, Path(path).parent)

    return _change_paths(tree, change_existing, change_new)


def relative_paths(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The tree of a rig that plays, with its paths as written in a file in ``folder``."""
    return _change_paths(
        tree, lambda path: _relative_path(folder, path), lambda path: _relative_path(folder, path)
    )


def _change_paths(
    tree: Mapping[str, Any], change_existing: Callable[[str], str], change_new: Callable[[str], str]
) -> dict[str, Any]:
    """The tree with changed paths of existing files and of files to be created."""
    changed = _change_keys(_change_keys(tree, _EXISTING_PATHS, change_existing), _NEW_PATHS, change_new)
    performers = changed.get("performer")
    if isinstance(performers, list) and all(isinstance(one, Mapping) for one in performers):
        changed["performer"] = [_change_keys(one, _PERFORMER_PATHS, change_existing) for one in performers]
    return changed


def _change_keys(
    tree: Mapping[str, Any], keys: Sequence[str], change: Callable[[str], str]
) -> dict[str, Any]:
    changed = dict(tree)
    for key in keys:
        name, _, rest = key.partition(".")
        value = changed.get(name)
        if rest and isinstance(value, Mapping):
            changed[name] = _change_keys(value, (rest,), change)
        elif not rest and isinstance(value, str) and value:
            changed[name] = change(value)
    return changed


def _resolve(folder: Path, path: str, required: Path) -> str:
    """A path from the working folder; ``required`` is the part of it that must exist."""
    if path.startswith("~/"):
        with contextlib.suppress(RuntimeError):  # there is no home folder
            return str(Path(path).expanduser())
    return path if not is_there(folder / required) and is_there(required) else str(folder / path)


def is_there(path: str | Path) -> bool:
    """Whether a path exists; False for text that cannot be a path."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        # For example a name with a zero byte, or one that is too long.
        return False


def _relative_path(folder: Path, path: str) -> str:
    full_path = Path(path)
    if full_path.is_absolute() and not full_path.is_relative_to(folder.absolute()):
        return path
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        # On another drive of Windows.
        return str(full_path.absolute())
