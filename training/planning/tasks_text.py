"""Files of RocStories, CommonGen and ELI5, as their authors publish them: prompts, words and references."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import FormatError, OptionError


@dataclass(frozen=True)
class Item:
    """One thing to write: what the model is given, the words that must occur, and what others wrote."""

    prompt: str
    concepts: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


def read_items(task: str, path: Path, limit: int | None = None) -> list[Item]:
    """The items of a file.

    Args:
        task: one of :data:`TASKS`.
        path: ``rocstories``: CSV with ``sentence1`` to ``sentence5``; ``commongen``: JSON lines with
            ``concept_set`` (``a#b#c``) and ``scene``, or ``concepts`` and ``target``; ``eli5``: JSON lines
            with ``title`` (or ``question`` or ``input``) and ``answers`` (or ``output``).
        limit: only the first so many.

    Raises:
        OptionError: an unknown task.
        FormatError: a file that is not such a one; the message says where.
    """
    if task not in TASKS:
        raise OptionError(f"task: expected one of {', '.join(TASKS)}, given {task!r}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not UTF-8 at byte {error.start}") from None
    rows, item = TASKS[task]
    found: list[Item] = []
    for where, row in rows(text, path):
        if limit is not None and len(found) >= limit:
            break
        try:
            found.append(item(row))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"misses {error}" if isinstance(error, KeyError) else str(error)
            raise FormatError(f"{where}: not an item of {task}: {what}") from None
    if not found:
        raise FormatError(f"{path}: no items of {task}")
    return found


def _json_lines(text: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise FormatError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise FormatError(f"{path}:{number}: expected an object, given {type(row).__name__}")
        yield f"{path}:{number}", row


def _csv_rows(text: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text))
    for row in reader:
        yield f"{path}:{reader.line_num}", row


def _story(row: Mapping[str, Any]) -> Item:
    first, *rest = (_words(row[f"sentence{n}"], f"sentence{n}") for n in range(1, 6))
    return Item(first, references=(" ".join(rest),))


def _concepts(row: Mapping[str, Any]) -> Item:
    if "concept_set" in row:
        concepts, scenes = row["concept_set"].split("#"), row.get("scene", [])
    else:
        concepts, scenes = row["concepts"], [row["target"]] if row.get("target") else []
    found = tuple(_words(each, "concept") for each in concepts)
    return Item(f"{', '.join(found)}:", found, tuple(_words(each, "scene") for each in scenes))


def _question(row: Mapping[str, Any]) -> Item:
    question = next((row[name] for name in ("title", "question", "input") if row.get(name)), None)
    if question is None:
        raise KeyError("title")
    if "answers" in row:
        answers = row["answers"]
        answers = answers["text"] if isinstance(answers, dict) else answers
    else:
        answers = [each["answer"] for each in row["output"] if each.get("answer")]
    return Item(_words(question, "question"), references=tuple(_words(each, "answer") for each in answers))


def _words(given: Any, what: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"{what}: expected text, given {given!r}")
    return given.strip()


Rows = Callable[[str, Path], Iterator[tuple[str, Mapping[str, Any]]]]

TASKS: Final[dict[str, tuple[Rows, Callable[[Mapping[str, Any]], Item]]]] = {
    "rocstories": (_csv_rows, _story),
    "commongen": (_json_lines, _concepts),
    "eli5": (_json_lines, _question),
}
"""How the file of each task is read."""
