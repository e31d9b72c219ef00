"""Splits into training, validation and test, always by whole subjects."""

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
"""File stem of a CMU take, SUBJECT_TRIAL, with the suffixes of AMASS."""

SHARE: Final = 0.15
"""Default share of the subjects for validation, and for test."""

EVERYBODY_ELSE: Final = "*"

PEOPLE: Final = Path(__file__).parents[1] / "people.csv"
"""Table of :func:`known_people`."""


def subject_of(path: str, folder_name: str, rule: str = "auto") -> str:
    """The subject of a file.

    Args:
        path: relative to the folder of the takes, with / as separator.
        folder_name: name of that folder; the subject of a file directly in it.
        rule: ``auto`` (the first part of a CMU name, else the folder), ``folder`` (the folder's whole path),
            ``top`` (the first folder of the path), ``file`` (each file is a subject), or a regular expression
            that is searched in the path; its first group, or the whole match, is the subject.

    Raises:
        OptionError: the expression is invalid, or is not found in the path.
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
        match = re.search(rule, path)
    except re.error as error:
        raise OptionError(f"--subject-from {rule!r} is not a regular expression: {error}") from None
    if match is None:
        raise OptionError(f"--subject-from {rule!r} is not found in {path!r}")
    subject = match[1] if match.re.groups else match[0]
    if not subject:
        raise OptionError(f"--subject-from {rule!r} finds nothing but an empty name in {path!r}")
    return str(subject)


def nfc(text: str) -> str:
    """Text in Unicode form NFC: macOS stores accents in file names as separate code points (NFD)."""
    return unicodedata.normalize("NFC", text)


def _hash(subject: str) -> bytes:
    return hashlib.sha256(f"subject {subject}".encode()).digest()


def hashed_split(subjects: Iterable[str]) -> dict[str, Split]:
    """Assign a split to each subject by the hash of its name, so that it is the same in every set.

    15 % go to validation and 15 % to test. With two or more subjects at least one is for validation, with
    three or more at least one for test; in such small sets a new subject may change the split of another.
    """
    order = sorted(set(subjects), key=_hash)
    share = [int.from_bytes(_hash(subject)[:8]) / 2**64 for subject in order]
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
    """Splits of the people that the packaged model is trained, validated or tested on, from ``PEOPLE``.

    Subjects of CMU that are not in the table are for training.
    """
    return read_split_file(PEOPLE)


def default_split(subjects: Mapping[str, bool]) -> dict[str, Split]:
    """Assign a split to each subject when there is no split file.

    Args:
        subjects: whether all takes of a subject have CMU names, by subject. These subjects and those of
            :func:`known_people` follow docs/held_out.md if that leaves one to train and one to validate
            on; all others follow :func:`hashed_split`.
    """
    # A folder named 07 is not necessarily CMU's subject 07.
    table = known_people()
    known = {
        name: table[name] for name, cmu in subjects.items() if name in table and (cmu or not name.isdigit())
    }
    sides: dict[str, Split] = {name: "train" for name, cmu in subjects.items() if cmu}
    sides |= known
    if not {"train", "validation"} <= {*sides.values()}:
        # Validation and test subjects of the packaged model are never used for training.
        sides = {name: side for name, side in known.items() if side != "train"}
    return sides | hashed_split(name for name in subjects if name not in sides)


def read_split_file(path: Path) -> dict[str, Split]:
    """Read the splits of subjects from a file; ``*`` stands for all others.

    TOML: ``train = ["anna", "*"]``, ``validation = ["ben"]``, ``test = [...]``, or ``anna = "train"``, either
    optionally in a table ``[split]``. CSV: lines ``subject,split``, with or without that heading.

    Raises:
        FormatError: the file is missing or invalid; the message has the line or key and what was expected.
    """
    if not path.exists():
        raise FormatError(f"{path}: no such file; expected subjects and their sides (TOML or CSV)")
    sides = _from_csv(path) if path.suffix.lower() == ".csv" else _from_toml(path)
    if not sides:
        raise FormatError(f"{path}: names no subject")
    return sides


def _side(path: Path, where: str, subject: str, side: object, sides: dict[str, Split]) -> None:
    subject = nfc(subject)
    split = next((name for name in SPLITS if name == side), None)
    if split is None:
        raise FormatError(f"{path}: {where}: expected {', '.join(SPLITS)}, got {side!r}")
    if sides.setdefault(subject, split) != split:
        raise FormatError(f"{path}: {where}: subject {subject!r} is both {sides[subject]} and {split}")


def _from_toml(path: Path) -> dict[str, Split]:
    tree = read_toml(path)
    table = tree.get("split", tree)
    if not isinstance(table, dict):
        raise FormatError(f"{path}: split: expected a table, got {table!r}")
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
            raise FormatError(f"{path}: line {number}: expected subject,split, got {','.join(row)[:60]!r}")
        _side(path, f"line {number}", cells[0], cells[1], sides)
    return sides


def sides_of(subjects: Iterable[str], split_file: Path) -> dict[str, Split]:
    """The split of every subject, from a file.

    Raises:
        FormatError: the file is invalid, or leaves a subject out.
    """
    sides = read_split_file(split_file)
    omitted = sorted(subject for subject in subjects if subject not in sides)
    if omitted and EVERYBODY_ELSE not in sides:
        more = f" and {len(omitted) - 5} more" if len(omitted) > 5 else ""
        raise FormatError(
            f"{split_file}: says nothing of {', '.join(omitted[:5])}{more}; expected every subject, or '*'"
        )
    return {subject: sides.get(subject, sides.get(EVERYBODY_ELSE, "train")) for subject in subjects}


def absent_subjects(subjects: Mapping[str, bool], split_file: Path | None) -> list[str]:
    """Warn about subjects in the split file without any take: their names may be misspelt."""
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
    """Warn about splits that training or evaluation will lack."""
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
    by_case: dict[str, list[str]] = {}
    for name in sorted(sides):
        by_case.setdefault(name.casefold(), []).append(name)
    for names in by_case.values():
        if len({sides[name] for name in names}) > 1:
            which = ", ".join(f"{name} ({sides[name]})" for name in names)
            lines.append(f"subjects that differ in case alone are on different sides: {which}; one person?")
    return lines
