"""The folder of a show: the files that may be asked for by name, and no others."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pyanticip.errors import OptionError

__all__ = ["inside", "new_file"]


def inside(folder: Path, name: object, what: str) -> Path:
    """The file or folder of this name in the folder of the show, or in one within.

    Raises
    ------
    OptionError
        It is not there, or not in there: no ``..``, no absolute path, nothing hidden, no link that leads out.
    """
    text = str(name)
    way = Path(text)
    plain = text.isprintable() and not way.is_absolute() and way.parts
    if not plain or any(part.startswith(".") for part in way.parts):
        raise OptionError(f"{what}: expected a name in the folder of the show, got {text!r}")
    path, is_there = folder / way, False
    with contextlib.suppress(OSError, RuntimeError):
        # A link that leads out is as if it were not there.
        is_there = path.resolve(strict=True).is_relative_to(folder.resolve())
    if not is_there:
        raise OptionError(f"{what}: no {text!r} in {folder.absolute()}")
    return path


def new_file(folder: Path, name: object, suffix: str, what: str) -> Path:
    """Where a new file of this name goes in the folder of the show.

    Raises
    ------
    OptionError
        Not a plain name, or there is one already.
    """
    text = str(name)
    path = Path(text) if text.endswith(suffix) else Path(text + suffix)
    if not text.isprintable() or path.name != str(path) or path.name.startswith("."):
        raise OptionError(f"{what}: expected a plain file name, got {text!r}")
    found = folder / path
    if found.exists() or found.is_symlink():
        raise OptionError(f"{what}: {found} exists already; nothing is overwritten")
    return found
