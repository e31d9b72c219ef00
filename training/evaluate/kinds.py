"""What a take shows, by the manifest's words, and which takes are the same once more."""

import re
from pathlib import Path, PurePosixPath
from typing import Final

from pyanticip.errors import FormatError
from training.data.manifest import Manifests, rows

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


def kind_of(words: str) -> str:
    """The kind of a take that is described so; ``WalkTurnLeft90`` is read as four words."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])|_", " ", words).lower()
    return next((kind for kind, rule in _RULES if re.search(rule, apart)), "other")


def kind_of_take(source: str, manifests: Manifests) -> str:
    """The kind of a take by what is said of its path or, failing that, of its name."""
    file = PurePosixPath(source)
    return kind_of(manifests.of(source).words or manifests.of(file.name).words)


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
