"""Sharded builds: machines prepare shares of the takes in parallel, and the shards are merged into a set.

Every machine sees the same folder of takes. Shard ``i`` of ``n`` prepares every ``n``-th take and stores the
plan of the whole set: all takes, their subjects, and the split of each subject if a file gives it. Merged,
shards of one plan give the same bytes as a build on one machine; the takes are not needed for that.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
from training.data.sets.sounds import Sound
from training.data.sets.splits import default_split
from training.data.sets.writer import WORK
from training.teacher.kinematic_targets import TEACHER_VERSION

VERSIONS: Final = [VERSION, FEATURES_VERSION, TEACHER_VERSION, PREPARE_VERSION]


@dataclass(frozen=True)
class BuildPlan:
    """Plan of a set, made before any take is read."""

    made_by: dict[str, Any]
    """The options that determine its content."""
    sources: list[Source]
    sides: Mapping[str, Split] | None
    """The split of every subject from a file; None: the default of those who have a usable take."""
    warnings: list[str]
    sounds: Mapping[str, Sound] = field(default_factory=dict)
    """The sound of each take that has one, by the take's first file."""

    def sides_of(self, sources: Iterable[Source]) -> Mapping[str, Split]:
        """The split of every subject of these takes."""
        return default_split(subjects_of(sources)) if self.sides is None else self.sides

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values; without sounds as in versions that did not keep them."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values if self.sounds else {name: v for name, v in values.items() if name != "sounds"}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "BuildPlan":
        """Inverse of :meth:`to_dict`."""
        sources = [Source(**{**source, "paths": tuple(source["paths"])}) for source in data["sources"]]
        return cls(data["made_by"], sources, data["sides"], data["warnings"])


def subjects_of(sources: Iterable[Source]) -> dict[str, bool]:
    """Every subject, and whether all of its takes have CMU names."""
    subjects: dict[str, bool] = {}
    for source in sources:
        subjects[source.subject] = subjects.get(source.subject, True) and source.cmu
    return subjects


def parse_shard(shard: str) -> tuple[int, int]:
    """Parse ``2/3`` to (2, 3).

    Raises:
        OptionError: not of the form i/n with i from 1 to n.
    """
    number, _, count = shard.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise OptionError(f"option shard: expected i/n with i from 1 to n, got {shard!r}")


def write_shard(out: Path, shard: tuple[int, int], plan: BuildPlan, results: Mapping[str, Result]) -> str:
    """Write the index of a finished shard, whose takes are in its work folder; returns its digest."""
    index: dict[str, Any] = {
        "format": "pyanticip-shard",
        "made": VERSIONS,
        "shard": list(shard),
        "whole": plan.to_dict(),
        "results": [asdict(result) for result in results.values()],
    }
    index["digest"] = digest_of(index)
    write_atomic(out / SHARD, (json.dumps(index, indent=1) + "\n").encode())
    return str(index["digest"])


def check_shard_folder(out: Path, shard: tuple[int, int]) -> None:
    """Refuse a folder that holds another finished shard; a damaged one may be overwritten.

    Raises:
        OptionError: it holds another shard.
    """
    try:
        present = tuple(_read(out)["shard"])
    except FormatError:
        return
    if present != shard:
        (i, n), (number, count) = present, shard
        raise OptionError(f"{out}: holds shard {i}/{n}; expected another folder for shard {number}/{count}")


def read_shards(folders: Sequence[Path]) -> tuple[BuildPlan, dict[str, Result], dict[str, Path]]:
    """Read all shards of a build: the plan, the result of every take, and the work folder it is in.

    Raises:
        FormatError: a folder holds no finished shard, or a damaged one.
        OptionError: a shard is missing or given twice, or the shards are from different builds.
    """
    if not folders:
        raise OptionError("expected the folders of all shards, got none")
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
        raise OptionError(f"expected {count} shards, got {len(have)}: one appears twice")
    results: dict[str, Result] = {}
    works: dict[str, Path] = {}
    for folder, index in zip(folders, indices, strict=True):
        for result in index["results"]:
            first_path = result["paths"][0]
            results[first_path] = Result(**{**result, "paths": tuple(result["paths"])})
            works[first_path] = folder / WORK
    return BuildPlan.read(first["whole"]), results, works


def _read(folder: Path) -> dict[str, Any]:
    path = folder / SHARD
    if not path.is_file():
        raise FormatError(f"{folder}: no finished shard in it (no {SHARD}); build it again with --shard")
    index = read_json(path)
    if not isinstance(index, dict) or index.get("digest") != digest_of(index):
        raise FormatError(f"{path}: was changed by hand or damaged; build the shard again")
    if index["made"] != VERSIONS:
        raise FormatError(f"{path}: was made by another version of pyanticip; build the shard again")
    return index


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe how the builds of two shards differ."""
    if one["shard"][1] != other["shard"][1]:
        return f"{other['shard'][1]} shards, not {one['shard'][1]}"
    mine, theirs = one["whole"]["made_by"], other["whole"]["made_by"]
    for name, value in mine.items():
        if theirs.get(name) != value:
            return f"{name} is {theirs.get(name)!r}, not {value!r}"
    for name, what in (("sources", "it saw other takes"), ("sounds", "it saw other sounds or offsets")):
        if one["whole"].get(name) != other["whole"].get(name):
            return what
    return "another split"
