"""What a take shows and who performs it: the manifest's words, and which takes are the same once more."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyanticip.errors import FormatError

MANIFEST: Final = "MANIFEST.csv"
REPEATS: Final = "repeats.csv"

KINDS: Final = (
    "walking",
    "styled walk",
    "running",
    "gesture",
    "martial art",
    "dance, improvised",
    "dance, repeated",
    "idle",
    "other",
)
"""Kinds of movement, which are judged apart."""

SAME: Final = 0.35
"""Cost of aligning two takes, over the median distance of postures, below which they show the same."""

# The first whose expression is found in a take's words decides.
_RULES: Final = (
    ("idle", r"\bidle\b|(?<!to )\bstand$"),
    ("martial art", r"\b(karate|punch|strike|swordplay|fence|chop)\b"),
    ("dance, improvised", r"\b(dance|pirouette|arabesque)\b"),
    ("running", r"\b(run|jog)\b"),
    ("styled walk", r"\bwalk\b.*\b(back|backwards?|hop|leap|box|crouch|skip|uneven|exaggerated)\b"),
    ("styled walk", r"\b(back|backwards?|hop|leap|box|crouch|skip|exaggerated)\b.*\bwalk\b"),
    ("styled walk", r"\bside step\b|\bskipping\b|\bskip to stand\b|\bstand to skip\b"),
    ("walking", r"\b(walk|stride)\b"),
    ("gesture", r"\b(sway|swing arms|look around|hands up|pick up|pickup|lift box)\b"),
    ("gesture", r"\b(drink|laugh|wave|wash|mop|scoop)\b"),
)


@dataclass(frozen=True)
class Described:
    """What a manifest says of a take."""

    person: str
    """Whose it is; empty where it does not say."""
    kind: str


def kind_of(words: str) -> str:
    """The kind of a take that is described so; ``WalkTurnLeft90`` is read as four words."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])|_", " ", words).lower()
    return next((kind for kind, rule in _RULES if re.search(rule, apart)), "other")


def read_takes(place: Path) -> dict[str, Described]:
    """Takes, by their path without suffix, of a manifest or ``MANIFEST.csv`` in a folder or its ``cmu``.

    Empty where there is none: then all takes are of one kind.

    Raises:
        FormatError: a manifest without the column ``file``.
    """
    for file in (place, place / "cmu" / MANIFEST, place / MANIFEST):
        if file.is_file():
            return {
                _bare(row["file"]): Described(
                    re.sub(r"^cmu(?=\d+$)", "", row.get("person") or row.get("subject") or ""),
                    kind_of(f"{row.get('kind') or ''} {row.get('description') or ''}"),
                )
                for row in _rows(file, "file")
                if row.get("description") != "skeleton"
            }
    return {}


def of_take(source: str, described: Mapping[str, Described]) -> Described:
    """What is said of a take, by its path or, failing that, its name."""
    nobody = Described("", "other")
    return described.get(_bare(source)) or described.get(Path(source).stem) or nobody


def read_repeats(folder: Path) -> list[tuple[str, str]]:
    """Pairs of takes that show the same, paths in the folder without suffix, the likest first.

    Raises:
        FormatError: a table without the columns a, b and ratio, or a ratio that is no number.
    """
    file = folder / REPEATS
    if not file.is_file():
        return []
    try:
        found = [
            (float(row["ratio"]), _bare(row["a"]), _bare(row["b"])) for row in _rows(file, "a", "b", "ratio")
        ]
    except ValueError as error:
        raise FormatError(f"{file}: expected a number as ratio: {error}") from None
    return [(a, b) for ratio, a, b in sorted(found) if ratio < SAME]


def _bare(path: str) -> str:
    return Path(path).with_suffix("").as_posix()


def _rows(file: Path, *columns: str) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as text:
        rows = csv.DictReader(text)
        for column in columns:
            if column not in (rows.fieldnames or ()):
                raise FormatError(f"{file}: has no column {column!r}; expected {', '.join(columns)}")
        return list(rows)
