"""Who is trained on, who chooses and who is held out: always whole subjects."""

import csv
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_text, read_toml
from training.data.examples import Split
from training.data.sets.format import SPLITS

CMU_NAME: Final = re.compile(r"(\d{2,3})_(\d{2,3})(?:_poses|_stageii)?")
"""Stem of a CMU take, SUBJECT_TRIAL, also as AMASS calls it."""

SHARE: Final = 0.15
"""Share of the subjects that go to validation, and to test, where nobody says who."""

EVERYBODY_ELSE: Final = "*"

PEOPLE: Final = Path(__file__).parents[1] / "people.csv"
"""Table of :func:`known_people`."""


def subject_of(path: str, folder_name: str, rule: str = "auto") -> str:
    """Who performs in a file.

    Args:
        path: relative to the folder of the takes, / between its parts.
        folder_name: what that folder is called; the subject of a file that lies in it directly.
        rule: ``auto`` (the first part of a CMU name, else the folder), ``folder`` (the whole path of it),
            ``top`` (the first folder of the path), ``file`` (each file is somebody else), or a regular
            expression that is searched in the path; its first group, or the whole match, is the subject.

    Raises:
        OptionError: the expression is none, or is not found in the path.
    """
    file = PurePosixPath(path)
    if rule == "auto":
        cmu = CMU_NAME.fullmatch(file.stem)
        if cmu:
            return cmu[1]
        rule = "folder"
    if rule in ("folder", "top"):
        parts = file.parent.parts
        return "/".join(parts if rule == "folder" else parts[:1]) or folder_name
    if rule == "file":
        return str(file.with_suffix(""))
    try:
        found = re.search(rule, path)
    except re.error as error:
        raise OptionError(f"--subject-from {rule!r} is no regular expression: {error}") from None
    if found is None:
        raise OptionError(f"--subject-from {rule!r} is not found in {path!r}")
    subject = found[1] if found.re.groups else found[0]
    if not subject:
        raise OptionError(f"--subject-from {rule!r} finds nothing but an empty name in {path!r}")
    return str(subject)


def composed(text: str) -> str:
    """The same text with accents on their letters: names of files from macOS may have them apart."""
    return unicodedata.normalize("NFC", text)


def _where(subject: str) -> bytes:
    return hashlib.sha256(f"subject {subject}".encode()).digest()


def hashed_split(subjects: Iterable[str]) -> dict[str, Split]:
    """A side for each subject by the hash of its name: the same everywhere, whatever else is in the set.

    15 % are for validation and 15 % for test. Of two subjects or more one is for validation in any case, of
    three or more one for test; then a few more takes may move a subject to another side.
    """
    order = sorted(set(subjects), key=_where)
    share = [int.from_bytes(_where(subject)[:8]) / 2**64 for subject in order]
    validation = sum(value < SHARE for value in share)
    test = sum(SHARE <= value < 2 * SHARE for value in share)
    if len(order) >= 2:
        validation = max(validation, 1)
    if len(order) >= 3:
        test = max(test, 1)
    while validation + test >= len(order) > 0 and validation + test > 0:
        if test >= validation:
            test -= 1
        else:
            validation -= 1
    sides: dict[str, Split] = {}
    for number, subject in enumerate(order):
        held_out = "test" if number < validation + test else "train"
        sides[subject] = "validation" if number < validation else held_out  # type: ignore[assignment]
    return sides


@cache
def known_people() -> Mapping[str, Split]:
    """The sides of those whom the packaged model is trained, chosen or tested on, by a table.

    Subjects of CMU whom it does not name are trained on.
    """
    return read_split_file(PEOPLE)


def default_split(subjects: Mapping[str, bool]) -> dict[str, Split]:
    """A side for each subject where nobody says who.

    Args:
        subjects: of each, whether its takes have CMU names. These and the people of
            :func:`known_people` are on their sides of docs/held_out.md as soon as one is there to train on
            and one to validate on; everybody else follows :func:`hashed_split`.
    """
    # A folder called 07 is not CMU's.
    table = known_people()
    known = {who: table[who] for who, cmu in subjects.items() if who in table and (cmu or not who.isdigit())}
    sides: dict[str, Split] = {who: "train" for who, cmu in subjects.items() if cmu}
    sides |= known
    if not {"train", "validation"} <= {*sides.values()}:
        # Whom the shipped model is chosen or tested on is never trained on.
        sides = {who: side for who, side in known.items() if side != "train"}
    return sides | hashed_split(who for who in subjects if who not in sides)


def read_split_file(path: Path) -> dict[str, Split]:
    """Sides of subjects from a file; ``*`` stands for everybody else.

    TOML: ``train = ["anna", "*"]``, ``validation = ["ben"]``, ``test = [...]``, or ``anna = "train"``; both
    may stand in a table ``[split]``. CSV: a line ``subject,split`` each, with or without that heading.

    Raises:
        FormatError: not such a file: file, line or key, and what was expected.
    """
    if not path.exists():
        raise FormatError(f"{path}: no such file; expected subjects and their sides (TOML or CSV)")
    sides = _from_csv(path) if path.suffix.lower() == ".csv" else _from_toml(path)
    if not sides:
        raise FormatError(f"{path}: names no subject")
    return sides


def _side(path: Path, where: str, subject: str, side: object, sides: dict[str, Split]) -> None:
    subject = composed(subject)
    known = next((split for split in SPLITS if split == side), None)
    if known is None:
        raise FormatError(f"{path}: {where}: expected {', '.join(SPLITS)}, given {side!r}")
    if sides.setdefault(subject, known) != known:
        raise FormatError(f"{path}: {where}: subject {subject!r} is both {sides[subject]} and {known}")


def _from_toml(path: Path) -> dict[str, Split]:
    tree = read_toml(path)
    table = tree.get("split", tree)
    if not isinstance(table, dict):
        raise FormatError(f"{path}: split: expected a table, given {table!r}")
    sides: dict[str, Split] = {}
    for key, value in table.items():
        if isinstance(value, list):
            for subject in value:
                _side(path, f"key {key!r}", str(subject), key, sides)
        else:
            _side(path, f"subject {key!r}", key, value, sides)
    return sides


def _from_csv(path: Path) -> dict[str, Split]:
    sides: dict[str, Split] = {}
    try:
        rows = list(csv.reader(read_text(path).splitlines()))
    except csv.Error as error:
        raise FormatError(f"{path}: {error}") from None
    for number, row in enumerate(rows, start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#") or (number == 1 and cells[:2] == ["subject", "split"]):
            continue
        if len(cells) != 2:
            raise FormatError(f"{path}: line {number}: expected subject,split, given {','.join(row)[:60]!r}")
        _side(path, f"line {number}", cells[0], cells[1], sides)
    return sides


def sides_of(subjects: Mapping[str, bool], split_file: Path | None = None) -> dict[str, Split]:
    """The side of every subject, by a file or by default.

    Raises:
        FormatError: a bad file, or one that leaves a subject out.
    """
    if split_file is None:
        return default_split(subjects)
    given = read_split_file(split_file)
    left = sorted(subject for subject in subjects if subject not in given)
    if left and EVERYBODY_ELSE not in given:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        raise FormatError(
            f"{split_file}: says nothing of {', '.join(left[:5])}{more}; expected every subject, or '*'"
        )
    return {subject: given.get(subject, given.get(EVERYBODY_ELSE, "train")) for subject in subjects}


def strangers(subjects: Mapping[str, bool], split_file: Path | None) -> list[str]:
    """A warning about subjects of a file of whom there is no take: names that may be misspelt."""
    if split_file is None:
        return []
    absent = sorted(set(read_split_file(split_file)) - {*subjects, EVERYBODY_ELSE})
    if not absent:
        return []
    more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
    known = sorted(subjects)
    rest = f" and {len(known) - 12} more" if len(known) > 12 else ""
    return [
        f"the split names {', '.join(absent[:5])}{more}, of whom there is no take; the subjects here are "
        f"{', '.join(known[:12])}{rest}"
    ]


def split_warnings(sides: Mapping[str, Split]) -> list[str]:
    """What training or judging will lack."""
    if len(sides) == 1:
        return [
            f"one subject only ({next(iter(sides))}, {next(iter(sides.values()))}): nobody is held out, "
            "so neither training nor evaluation can say how it does on others"
        ]
    needs = {
        "train": "nothing can be trained; say who trains with --split-file",
        "validation": "training cannot choose",
        "test": "no last test",
    }
    lines = [f"no {side} subject: {what}" for side, what in needs.items() if side not in sides.values()]
    alike: dict[str, list[str]] = {}
    for name in sorted(sides):
        alike.setdefault(name.casefold(), []).append(name)
    for names in alike.values():
        if len({sides[name] for name in names}) > 1:
            who = ", ".join(f"{name} ({sides[name]})" for name in names)
            lines.append(f"subjects that differ in case alone are on different sides: {who}; one person?")
    return lines
