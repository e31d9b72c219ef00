"""Files and folders that a rig names: in its file they are told relative to where that lies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["found_from", "is_there", "relative_to"]

_OF_ONE = ("mapping", "teach", "memory", "source.joints", "source.skeleton")
_NEW = ("record",)
_THERE = (*_OF_ONE, "record_spare", "model.checkpoint", "memory.file", "synth.samples")


def found_from(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The tree of a rig that lies in ``folder``, with the paths by which its files are found.

    What is not there, but where the program runs, is meant there.
    """

    def there(path: str) -> str:
        return _found(folder, path, Path(path))

    def new(path: str) -> str:
        return _found(folder, path, Path(path).parent)

    return _each(tree, there, new)


def relative_to(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The tree of a rig that plays, with the paths that its file says in ``folder``."""
    return _each(tree, lambda path: _relative(folder, path), lambda path: _relative(folder, path))


def _each(tree: Mapping[str, Any], there: Callable[[str], str], new: Callable[[str], str]) -> dict[str, Any]:
    """The tree with other paths of files that are there and of new ones."""
    found = _changed(_changed(tree, _THERE, there), _NEW, new)
    performers = found.get("performer")
    if isinstance(performers, list) and all(isinstance(one, Mapping) for one in performers):
        found["performer"] = [_changed(one, _OF_ONE, there) for one in performers]
    return found


def _changed(tree: Mapping[str, Any], keys: Sequence[str], change: Callable[[str], str]) -> dict[str, Any]:
    found = dict(tree)
    for key in keys:
        name, _, rest = key.partition(".")
        value = found.get(name)
        if rest and isinstance(value, Mapping):
            found[name] = _changed(value, (rest,), change)
        elif not rest and isinstance(value, str) and value:
            found[name] = change(value)
    return found


def _found(folder: Path, path: str, sought: Path) -> str:
    """A path from where the program runs; ``sought`` is what has to be there."""
    return path if not is_there(folder / sought) and is_there(sought) else str(folder / path)


def is_there(path: str | Path) -> bool:
    """Whether a file or folder of this name, which may be anybody's, is there."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        # No name that a file could have.
        return False


def _relative(folder: Path, path: str) -> str:
    whole = Path(path)
    if whole.is_absolute() and not whole.is_relative_to(folder.absolute()):
        return path
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        # Another drive of Windows.
        return str(whole.absolute())
