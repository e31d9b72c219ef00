"""A build in shards: on any number of machines at once, each of its own takes, and then put together.

Every machine sees the same folder of takes. Shard ``i`` of ``n`` prepares every ``n``-th of them and writes
down what the whole set is to be: all takes, whose they are, on which side each subject is. Put together,
shards of one such plan give the bytes of a build on one machine; the takes are not needed any more.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pyanticip._core import FEATURES_VERSION
from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.atomic import write_atomic
from pyanticip.untrusted import read_json
from training.data.examples import Split
from training.data.manifest import SHARD
from training.data.sets.discover import Source
from training.data.sets.format import VERSION, digest_of
from training.data.sets.prepare import PREPARE_VERSION, Result
from training.data.sets.writer import WORK
from training.teacher.kinematic_targets import TEACHER_VERSION

MADE: Final = [VERSION, FEATURES_VERSION, TEACHER_VERSION, PREPARE_VERSION]


@dataclass(frozen=True)
class Whole:
    """What a set is to be, before any take is read."""

    made_by: dict[str, Any]
    """The options that decide what is in it."""
    sources: list[Source]
    sides: Mapping[str, Split]
    warnings: list[str]

    def plain(self) -> dict[str, Any]:
        """As values for JSON."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> "Whole":
        """Of :meth:`plain`."""
        sources = [Source(**{**source, "paths": tuple(source["paths"])}) for source in plain["sources"]]
        return cls(plain["made_by"], sources, plain["sides"], plain["warnings"])


def numbers(shard: str) -> tuple[int, int]:
    """``2/3`` as (2, 3).

    Raises:
        OptionError: no such share of a whole.
    """
    number, _, count = shard.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise OptionError(f"option shard: expected i/n with i from 1 to n, given {shard!r}")


def write_shard(out: Path, shard: tuple[int, int], whole: Whole, results: Mapping[str, Result]) -> str:
    """Say that a shard is finished, whose takes wait in its work folder; returns the digest of that."""
    index: dict[str, Any] = {
        "format": "pyanticip-shard",
        "made": MADE,
        "shard": list(shard),
        "whole": whole.plain(),
        "results": [asdict(result) for result in results.values()],
    }
    index["digest"] = digest_of(index)
    write_atomic(out / SHARD, (json.dumps(index, indent=1) + "\n").encode())
    return str(index["digest"])


def check_place(out: Path, shard: tuple[int, int]) -> None:
    """Refuse a folder that holds another finished shard; one that is damaged is none.

    Raises:
        OptionError: it does.
    """
    try:
        there = tuple(_read(out)["shard"])
    except FormatError:
        return
    if there != shard:
        (i, n), (number, count) = there, shard
        raise OptionError(f"{out}: holds shard {i}/{n}; expected another folder for shard {number}/{count}")


def read_shards(folders: Sequence[Path]) -> tuple[Whole, dict[str, Result], dict[str, Path]]:
    """What shards were to become, what became of every take, and in which work folder each waits.

    Raises:
        FormatError: a folder holds no finished shard, or a damaged one.
        OptionError: one is missing or there twice, or they are of different builds.
    """
    if not folders:
        raise OptionError("expected the folders of all shards, given none")
    indices = [_read(folder) for folder in folders]
    first, count = indices[0], indices[0]["shard"][1]
    for folder, index in zip(folders, indices, strict=True):
        if index["shard"][1] != count or index["whole"] != first["whole"]:
            raise OptionError(f"{folder}: is of another build than {folders[0]}: {_difference(first, index)}")
    have = [index["shard"][0] for index in indices]
    absent = [f"{number}/{count}" for number in range(1, count + 1) if number not in have]
    if absent:
        raise OptionError(f"shard {', '.join(absent)} is missing; expected the folders of all {count}")
    if len(have) > count:
        raise OptionError(f"expected {count} shards, given {len(have)}: one is there twice")
    results: dict[str, Result] = {}
    works: dict[str, Path] = {}
    for folder, index in zip(folders, indices, strict=True):
        for result in index["results"]:
            first_path = result["paths"][0]
            results[first_path] = Result(**{**result, "paths": tuple(result["paths"])})
            works[first_path] = folder / WORK
    return Whole.read(first["whole"]), results, works


def _read(folder: Path) -> dict[str, Any]:
    path = folder / SHARD
    if not path.is_file():
        raise FormatError(f"{folder}: no finished shard in it (no {SHARD}); build it again with --shard")
    index = read_json(path)
    if not isinstance(index, dict) or index.get("digest") != digest_of(index):
        raise FormatError(f"{path}: was changed by hand or damaged; build the shard again")
    if index["made"] != MADE:
        raise FormatError(f"{path}: was made by another version of pyanticip; build the shard again")
    return index


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What keeps two shards apart, in words."""
    if one["shard"][1] != other["shard"][1]:
        return f"{other['shard'][1]} shards, not {one['shard'][1]}"
    mine, theirs = one["whole"]["made_by"], other["whole"]["made_by"]
    for name, value in mine.items():
        if theirs.get(name) != value:
            return f"{name} is {theirs.get(name)!r}, not {value!r}"
    return "it saw other takes" if one["whole"]["sources"] != other["whole"]["sources"] else "another split"
