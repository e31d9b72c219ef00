"""Where takes lie, and what tables beside them say: who performs, what they show, and which are repeats."""

import csv
import io
import os
import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Final
from unicodedata import normalize

from pyanticip.errors import FormatError, reason
from pyanticip.motion.load import SUFFIXES
from pyanticip.untrusted import read_text

INDEX: Final = "set.json"
"""What a complete set has."""

SHARD: Final = "shard.json"
"""What a finished shard of one says of itself."""

MANIFEST: Final = "MANIFEST.csv"

TOGETHER: Final = ("cmu", "more")
"""Folders that are one folder of takes where each has a manifest, without what else lies beside them."""


def take_folders(folder: Path) -> list[Path]:
    """Where the takes of a folder lie: in its ``cmu`` and ``more`` if both have a manifest, else all over."""
    found = [folder / name for name in TOGETHER]
    return found if all((place / MANIFEST).is_file() for place in found) else [folder]


def takes_folder(path: Path) -> Path:
    """The path of a folder of takes.

    Raises:
        FormatError: no folder.
    """
    if not path.is_dir():
        what = "is a file" if path.exists() else "no such folder"
        raise FormatError(f"{path}: {what}; expected a set, or a folder of takes")
    return path


def no_motion(folder: Path) -> FormatError:
    """The error of a folder without takes."""
    return FormatError(
        f"{folder}: no motion in it; expected files .bvh, .amc with .asf, .c3d, .mvnx, .npz or .anticip"
    )


def check_whole(folder: Path) -> None:
    """Refuse one shard in the place of a set.

    Raises:
        FormatError: it is one.
    """
    if (folder / SHARD).is_file():
        raise FormatError(
            f"{folder}: is one shard of a set; put all of them together with: "
            "pyanticip train data merge SHARD... --out SET"
        )


def check_motion(path: Path) -> None:
    """Check that a path is a set, or a folder with something in it that may be a take.

    Raises:
        FormatError: it is neither.
    """
    if (path / INDEX).is_file():
        return
    check_whole(path)
    folder = takes_folder(path)
    for where, folders, names in chain.from_iterable(map(os.walk, take_folders(folder))):
        # What is behind links is found when a set is built.
        if any(name.lower().endswith(SUFFIXES) for name in names) or any(
            Path(where, name).is_symlink() for name in folders
        ):
            return
    raise no_motion(folder)


@dataclass(frozen=True)
class Described:
    """What is said of a take; empty what is not."""

    person: str = ""
    """Whose it is, by one name in all folders: subject 14 of CMU, ``cmu14``, is ``14``."""
    words: str = ""
    """What it shows."""


class Manifests:
    """What the manifests of a folder say of the takes in it.

    Tables of CSV with the column ``file``, a path relative to the table whose suffix does not count, and any
    of ``person`` or ``subject``, ``kind`` and ``description``. One is read when a take below is asked for.

    Args:
        place: the folder, any folder of which may have a ``MANIFEST.csv``; or one table by itself.
    """

    def __init__(self, place: Path) -> None:
        self._folder = place
        self._tables: dict[PurePosixPath, dict[str, Described]] = {}
        if place.is_file():
            self._folder, self._tables = place.parent, {PurePosixPath(): _read(place)}

    def of(self, path: str) -> Described:
        """What the nearest table above a take that names it says of it.

        Args:
            path: relative to the folder, / between its parts.

        Raises:
            FormatError: a table that cannot be read, or has no column ``file``.
        """
        file = PurePosixPath(path)
        for above in file.parents:
            if above not in self._tables:
                table = self._folder / above / MANIFEST
                self._tables[above] = _read(table) if table.is_file() else {}
            if said := self._tables[above].get(bare(str(file.relative_to(above)))):
                return said
        return Described()

    def words(self, path: str) -> str:
        """What is said to be shown by a take's path or, failing that, by its name; raises as :meth:`of`."""
        return self.of(path).words or self.of(PurePosixPath(path).name).words


def rows(file: Path, *columns: str) -> list[dict[str, str]]:
    """The rows of a table that has at least these columns; cells that are not there are empty.

    Raises:
        FormatError: it cannot be read, or lacks a column.
    """
    try:
        table = csv.DictReader(io.StringIO(read_text(file), newline=""), restval="")
        found = list(table)
    except csv.Error as error:
        raise FormatError(f"{file}: cannot be read: {reason(error)}") from None
    for column in columns:
        if column not in (table.fieldnames or ()):
            raise FormatError(f"{file}: has no column {column!r}; expected {', '.join(columns)}")
    return found


REPEATS: Final = "repeats.csv"

SAME: Final = 0.35
"""Cost of aligning two takes, over the median distance of postures, below which they show the same."""


def read_repeats(folder: Path) -> list[tuple[str, str, str]]:
    """Pairs of takes that show the same: whose, and both paths in the folder; the likest first.

    Raises:
        FormatError: no such table, one without the columns person, a, b and ratio, or a ratio that is
            no number.
    """
    file = folder / REPEATS
    table = rows(file, "person", "a", "b", "ratio")
    try:
        found = [(float(row["ratio"]), row["person"], row["a"], row["b"]) for row in table]
    except ValueError as error:
        raise FormatError(f"{file}: expected a number as ratio: {error}") from None
    return [(person, a, b) for ratio, person, a, b in sorted(found) if ratio < SAME]


def _read(file: Path) -> dict[str, Described]:
    return {
        bare(row["file"]): Described(
            re.sub(r"^cmu(?=\d+$)", "", normalize("NFC", row.get("person") or row.get("subject") or "")),
            f"{row.get('kind', '')} {row.get('description', '')}".strip(),
        )
        for row in rows(file, "file")
        if row.get("description") != "skeleton"
    }


def bare(path: str) -> str:
    """A path without its suffix, accents on their letters: names of files from macOS may have them apart."""
    file = PurePosixPath(path)
    return normalize("NFC", str(file.with_suffix("") if file.name else file))
