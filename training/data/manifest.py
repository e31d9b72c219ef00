"""Folders of takes, and the tables in them: manifests (performer, description) and repeated takes."""

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
"""Index file of a complete set."""

SHARD: Final = "shard.json"
"""Index file of a finished shard of a set."""

MANIFEST: Final = "MANIFEST.csv"

TAKE_FOLDERS: Final = ("cmu", "more")
"""Subfolders that, where each has a manifest, hold all takes of a folder; anything beside them is ignored."""


def take_folders(folder: Path) -> list[Path]:
    """Folders to search for takes: ``cmu`` and ``more`` if both have a manifest, else the folder itself."""
    subfolders = [folder / name for name in TAKE_FOLDERS]
    return subfolders if all((path / MANIFEST).is_file() for path in subfolders) else [folder]


def takes_folder(path: Path) -> Path:
    """Return the path if it is a folder.

    Raises:
        FormatError: it is not a folder.
    """
    if not path.is_dir():
        what = "is a file" if path.exists() else "no such folder"
        raise FormatError(f"{path}: {what}; expected a set, or a folder of takes")
    return path


def no_motion(folder: Path) -> FormatError:
    """The error for a folder without takes."""
    return FormatError(
        f"{folder}: no motion in it; expected files .bvh, .amc with .asf, .c3d, .mvnx, .npz or .anticip"
    )


def check_whole(folder: Path) -> None:
    """Refuse a single shard where a set is expected.

    Raises:
        FormatError: the folder holds a shard.
    """
    if (folder / SHARD).is_file():
        raise FormatError(
            f"{folder}: is one shard of a set; put all of them together with: "
            "pyanticip train data merge SHARD... --out SET"
        )


def check_motion(path: Path) -> None:
    """Check that a path is a set, or a folder that may contain takes.

    Raises:
        FormatError: it is neither.
    """
    if (path / INDEX).is_file():
        return
    check_whole(path)
    folder = takes_folder(path)
    for where, folders, names in chain.from_iterable(map(os.walk, take_folders(folder))):
        # Links may lead to takes; they are only followed when a set is built.
        if any(name.lower().endswith(SUFFIXES) for name in names) or any(
            Path(where, name).is_symlink() for name in folders
        ):
            return
    raise no_motion(folder)


@dataclass(frozen=True)
class TakeDescription:
    """Manifest entry of a take; fields that are not given are empty."""

    person: str = ""
    """Performer, by the same name in all folders: subject 14 of CMU, ``cmu14``, is ``14``."""
    words: str = ""
    """Description of the movement."""


class Manifests:
    """Manifest entries of the takes in a folder.

    A manifest is a CSV table with the column ``file``, a path relative to the table whose suffix is ignored,
    and any of ``person`` or ``subject``, ``kind`` and ``description``. Tables are read when first needed.

    Args:
        path: a folder that, like its subfolders, may have a ``MANIFEST.csv``; or a single table.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path
        self._tables: dict[PurePosixPath, dict[str, TakeDescription]] = {}
        if path.is_file():
            self._folder, self._tables = path.parent, {PurePosixPath(): _read(path)}

    def of(self, path: str) -> TakeDescription:
        """Entry of a take in the nearest manifest above it that names it; empty if there is none.

        Args:
            path: relative to the folder, with / as separator.

        Raises:
            FormatError: a table cannot be read, or has no column ``file``.
        """
        file = PurePosixPath(path)
        for above in file.parents:
            if above not in self._tables:
                table = self._folder / above / MANIFEST
                self._tables[above] = _read(table) if table.is_file() else {}
            if entry := self._tables[above].get(path_key(str(file.relative_to(above)))):
                return entry
        return TakeDescription()

    def words(self, path: str) -> str:
        """Description of a take by its path or, failing that, by its file name; raises as :meth:`of`."""
        return self.of(path).words or self.of(PurePosixPath(path).name).words


def rows(file: Path, *columns: str) -> list[dict[str, str]]:
    """Read the rows of a CSV table with at least these columns; missing cells are empty.

    Raises:
        FormatError: the file cannot be read, or lacks a column.
    """
    try:
        table = csv.DictReader(io.StringIO(read_text(file), newline=""), restval="")
        content = list(table)
    except csv.Error as error:
        raise FormatError(f"{file}: cannot be read: {reason(error)}") from None
    for column in columns:
        if column not in (table.fieldnames or ()):
            raise FormatError(f"{file}: has no column {column!r}; expected {', '.join(columns)}")
    return content


REPEATS: Final = "repeats.csv"

MAX_REPEAT_RATIO: Final = 0.35
"""Takes whose alignment cost, over the median distance of postures, is below this repeat each other."""


def read_repeats(folder: Path) -> list[tuple[str, str, str]]:
    """Read the pairs of takes that repeat each other, most similar first: person and both relative paths.

    Raises:
        FormatError: the table is missing or lacks a column person, a, b or ratio, or a ratio is not a number.
    """
    file = folder / REPEATS
    table = rows(file, "person", "a", "b", "ratio")
    try:
        pairs = [(float(row["ratio"]), row["person"], row["a"], row["b"]) for row in table]
    except ValueError as error:
        raise FormatError(f"{file}: expected a number as ratio: {error}") from None
    return [(person, a, b) for ratio, person, a, b in sorted(pairs) if ratio < MAX_REPEAT_RATIO]


def _read(file: Path) -> dict[str, TakeDescription]:
    return {
        path_key(row["file"]): TakeDescription(
            re.sub(r"^cmu(?=\d+$)", "", normalize("NFC", row.get("person") or row.get("subject") or "")),
            f"{row.get('kind', '')} {row.get('description', '')}".strip(),
        )
        for row in rows(file, "file")
        if row.get("description") != "skeleton"
    }


def path_key(path: str) -> str:
    """A path without suffix in Unicode form NFC: macOS stores accents as separate code points (NFD)."""
    file = PurePosixPath(path)
    return normalize("NFC", str(file.with_suffix("") if file.name else file))
