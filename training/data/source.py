"""Whether a path holds motion to train on: a look before anything heavy is imported."""

import os
from itertools import chain
from pathlib import Path
from typing import Final

from pyanticip.errors import FormatError
from pyanticip.motion.load import SUFFIXES

INDEX: Final = "set.json"
"""What a complete set has."""

TOGETHER: Final = ("cmu", "more")
"""Folders that are one folder of takes where they lie beside each other, without what else lies there."""


def places(folder: Path) -> list[Path]:
    """Where the takes of a folder lie: in its ``cmu`` and ``more`` alone if it has both, else all over it."""
    found = [folder / name for name in TOGETHER]
    return found if all(place.is_dir() for place in found) else [folder]


def takes_folder(path: Path) -> Path:
    """The folder of takes that a path means: with ``cmu`` and ``more`` itself, with ``cmu`` alone that.

    Raises:
        FormatError: no folder.
    """
    folder = path / "cmu" if (path / "cmu").is_dir() and places(path) == [path] else path
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise FormatError(f"{folder}: {what}; expected a set, or a folder of takes")
    return folder


def no_motion(folder: Path) -> FormatError:
    """The error of a folder without takes."""
    return FormatError(
        f"{folder}: no motion in it; expected files .bvh, .amc with .asf, .c3d, .mvnx, .npz or .anticip"
    )


def check_motion(path: Path) -> None:
    """Check that a path is a set, or a folder with something in it that may be a take.

    Raises:
        FormatError: it is neither.
    """
    if (path / INDEX).is_file():
        return
    folder = takes_folder(path)
    for where, folders, names in chain.from_iterable(map(os.walk, places(folder))):
        # What is behind links is found when a set is built.
        if any(name.lower().endswith(SUFFIXES) for name in names) or any(
            Path(where, name).is_symlink() for name in folders
        ):
            return
    raise no_motion(folder)
