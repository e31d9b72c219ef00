"""What kind of movement a take is: walking, running, dance, or something else."""

import csv
import re
from pathlib import Path
from typing import Final

from pyanticip.errors import FormatError

MANIFEST: Final = "MANIFEST.csv"

CATEGORIES: Final = ("walking", "running", "dance", "other")

# The first that a description names decides: "run, leap" is running, "static dance pose" is dance.
_WORDS: Final = (
    ("dance", r"dance|pirouette|arabesque"),
    ("running", r"run|jog"),
    ("walking", r"walk|stride"),
)


def category_of(description: str) -> str:
    """The category of a take by its description."""
    for category, words in _WORDS:
        if re.search(rf"\b({words})\b", description.lower()):
            return category
    return "other"


def read_categories(folder: Path) -> dict[str, str]:
    """Take name (``05_02``) to category, from a manifest, or from ``MANIFEST.csv`` in a folder or its ``cmu``
    folder.

    Empty where there is no manifest in the folder: then all takes are one group.

    Raises:
        FormatError: a manifest without the column ``file``.
    """
    for place in (folder, folder / "cmu" / MANIFEST, folder / MANIFEST):
        if place.is_file():
            with place.open(newline="", encoding="utf-8") as file:
                rows = csv.DictReader(file)
                if "file" not in (rows.fieldnames or ()):
                    raise FormatError(f"{place}: has no column 'file'; expected file and description")
                return {
                    Path(row["file"] or "").stem: category_of(row.get("description") or "")
                    for row in rows
                    if row.get("description") != "skeleton"
                }
    return {}


def group_of(name: str, categories: dict[str, str]) -> str:
    """The category of a piece (``06_13/16`` is of take ``06_13``); ``other`` where nothing is known."""
    return categories.get(Path(name.split("/")[0]).name, "other")
