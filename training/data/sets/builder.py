"""``pyanticip train data build``: make a set of a folder of takes."""

import hashlib
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from pyanticip.errors import FormatError, OptionError, counted
from pyanticip.motion.joints import read_joints
from pyanticip.motion.load import check_reading
from pyanticip.motion.units import check_rate, metres_per_unit
from pyanticip.motion.world import check_up
from pyanticip.vocabulary import RATE
from pyanticip.workers import spread
from training.data.examples import SHORTEST, Split
from training.data.manifest import SHARD
from training.data.sets.discover import Source, discover, printable
from training.data.sets.format import SPLITS, ClipEntry, MotionSet, check_maker, is_set
from training.data.sets.prepare import Options, Part, Result, Task, prepare, read_parts, work_file
from training.data.sets.shards import (
    BuildPlan,
    check_shard_folder,
    parse_shard,
    read_shards,
    subjects_of,
    write_shard,
)
from training.data.sets.sounds import Sound, pair
from training.data.sets.splits import absent_subjects, sides_of, split_warnings
from training.data.sets.writer import SetWriter, lock, prepare_folder
from training.teacher.sound import check_available, warm_up

SCALAR_WINDOW: Final = 256
"""Window of the scalars, frames."""


@dataclass(frozen=True)
class Step:
    """Progress of a build after one take."""

    done: int
    total: int
    path: str
    error: str = ""
    """Why a file of the take cannot be used; empty if all is well."""


@dataclass(frozen=True)
class BuildReport:
    """Outcome of a build."""

    out: str
    digest: str
    clips: int
    frames: int
    takes: int
    subjects: dict[Split, list[str]]
    made: int
    """Takes that were computed in this build."""
    found: int
    """Takes that an interrupted build had already finished."""
    kept: int
    """Takes copied unchanged from the existing set."""
    refused: list[dict[str, str]]
    warnings: list[str]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


@dataclass
class _PreviousSet:
    """The existing set in the target folder, if any, with its takes by path."""

    old: MotionSet | None
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    clips: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, out: Path) -> "_PreviousSet":
        if not is_set(out):
            return cls(None)
        try:
            previous = cls(MotionSet.open(out))
        except FormatError:  # another version, or damaged: built again
            return cls(None)
        assert previous.old is not None
        previous.records = {str(record["path"]): record for record in previous.old.index["sources"]}
        for number, clip in enumerate(previous.old.clips):
            previous.clips.setdefault(clip.source, []).append(number)
        return previous

    def key(self, paths: tuple[str, ...]) -> str:
        """Key of a take in the set, whichever of its files it was read from; empty if it is not there."""
        return next((str(self.records[path].get("key", "")) for path in paths if path in self.records), "")

    def parts(self, source: str) -> Iterator[Part]:
        assert self.old is not None
        for number in self.clips[source]:
            clip, example = self.old.clips[number], self.old.example(number)
            root = self.old.piece(number).root
            yield Part(clip.part, clip.seconds, clip.missing, clip.targets, example, root)


def build(
    folder: Path | str,
    out: Path | str,
    *,
    workers: int = 1,
    subject_from: str = "auto",
    split_file: Path | str | None = None,
    min_seconds: float = SHORTEST / RATE,
    rate: float | None = None,
    units: str | float | None = None,
    up: str | None = None,
    rest: int | None = None,
    joints: Path | str | None = None,
    skeleton: Path | str | None = None,
    sound: Literal["auto", "none"] = "auto",
    manifest: Path | str | None = None,
    shard: str | None = None,
    on_progress: Callable[[Step], None] | None = None,
) -> BuildReport:
    """Build a set of all takes in a folder, or bring an existing set up to date.

    The same folder and options give the same bytes, whatever the number of workers. An interrupted build
    resumes: finished takes are stored inside ``out``. Unchanged takes are copied from an existing set.

    Args:
        folder: folder of the takes.
        out: folder of the set: new, empty, or from an earlier build.
        workers: number of processes.
        subject_from: rule that finds the subject of a take (:func:`training.data.sets.splits.subject_of`).
        split_file: TOML or CSV of subjects and their splits
            (:func:`training.data.sets.splits.read_split_file`).
        min_seconds: shorter stretches of motion are left out.
        rate: frames per second of all files, overriding the files.
        units: unit of length of all files, overriding the guess from the body's size.
        up, rest, joints: overrides for reading all files, as in :func:`pyanticip.load_motion`.
        skeleton: ASF of all AMC files.
        sound: ``auto``: a sound beside a take, or in the manifest, provides its targets; ``none``: the
            teacher provides all targets.
        manifest: TOML or CSV of takes, their sounds and offsets (:func:`training.data.sets.sounds.pair`).
        shard: ``i/n``: prepare only the i-th of n shares of the takes, for :func:`merge`.
        on_progress: called after each take.

    Raises:
        FormatError: the folder has no readable motion, or the split file is invalid.
        OptionError: an option is invalid or applies to no take, or ``out`` holds something else.
    """
    start_time = time.perf_counter()
    source_dir, target = Path(folder), Path(out)
    if not 0.1 <= min_seconds < float("inf"):
        raise OptionError(f"min_seconds is at least 0.1, got {min_seconds}")
    if units is not None:
        metres_per_unit(units, 1.0)
    if rate is not None:
        check_rate(rate)
    if sound not in ("auto", "none") or (sound == "none" and manifest is not None):
        raise OptionError("sound is auto, or none without a manifest")
    options = Options(
        max(round(min_seconds * RATE), 1),
        rate,
        units,
        None if up is None else check_up(up),
        rest,
        None if joints is None else read_joints(joints),
        None if skeleton is None else str(skeleton),
    )
    discovery = discover(source_dir, target, subject_from)
    reading = {"rate": rate, "units": units, "up": up, "rest": rest, "joints": joints, "skeleton": skeleton}
    overrides = [name for name, value in reading.items() if value is not None]
    files = [source_dir / path for source in discovery.sources for path in source.paths]
    check_reading(files, overrides, rate_for_recordings=True, folder=source_dir)
    subjects, split_path = subjects_of(discovery.sources), None if split_file is None else Path(split_file)
    sides = None if split_path is None else sides_of(subjects, split_path)
    sounds = {}
    if sound == "auto":
        sounds = pair(source_dir, discovery, None if manifest is None else Path(manifest))
    if sounds:
        check_available()
        if workers > 1:
            warm_up()
    made_by = {"command": "build", **vars(options), "subject_from": subject_from, "sound": sound}
    warnings = [*absent_subjects(subjects, split_path), *discovery.warnings]
    plan = BuildPlan(made_by, discovery.sources, sides, warnings, sounds)
    if shard is not None:
        return _build_shard(source_dir, target, shard, plan, options, workers, on_progress)
    if (target / SHARD).exists():
        raise OptionError(f"{target}: holds a shard; expected another folder, or --shard")
    check_maker(target, "build", "the takes")
    work = prepare_folder(target)
    with lock(work):
        previous = _PreviousSet.of(target)
        results = _prepare_all(
            source_dir, work, discovery.sources, options, sounds, previous, workers, on_progress
        )
        motion_set, content = _finish(target, work, plan, results, previous)
    return _report(out, motion_set, content, start_time)


def _build_shard(
    folder: Path,
    out: Path,
    shard: str,
    plan: BuildPlan,
    options: Options,
    workers: int,
    on_progress: Callable[[Step], None] | None,
) -> BuildReport:
    start_time = time.perf_counter()
    index, count = parse_shard(shard)
    if is_set(out):
        raise OptionError(f"{out}: holds a set; expected another folder for a shard")
    check_shard_folder(out, (index, count))
    sources = plan.sources[index - 1 :: count]
    work = prepare_folder(out)
    with lock(work):
        (out / SHARD).unlink(missing_ok=True)
        results = _prepare_all(
            folder, work, sources, options, plan.sounds, _PreviousSet(None), workers, on_progress
        )
        digest = write_shard(out, (index, count), plan, results)
    states = Counter(result.state for result in results.values())
    frames = [_frame_counts(work_file(work, each.key)) for each in results.values() if each.key]
    sides = plan.sides_of(plan.sources)  # unless takes of other shards cannot be used
    return BuildReport(
        out=str(out),
        digest=digest,
        clips=sum(map(len, frames)),
        frames=sum(map(sum, frames)),
        takes=len(frames),
        subjects={s: sorted({x.subject for x in sources if sides[x.subject] == s}) for s in SPLITS},
        made=states["made"],
        found=states["found"],
        kept=0,
        refused=[_refusal(each) for each in results.values() if each.state == "refused"],
        warnings=[],
        seconds=time.perf_counter() - start_time,
    )


def _refusal(result: Result) -> dict[str, str]:
    return {"path": printable(result.paths[0]), "reason": result.error}


def _frame_counts(path: Path) -> list[int]:
    parts, _ = read_parts(path)
    return [len(part.example) for part in parts]


def merge(shards: Sequence[Path | str], out: Path | str) -> BuildReport:
    """Merge the shards of a build; gives the same bytes as a build on one machine.

    Args:
        shards: folders made by ``build(..., shard="i/n")``, in any order; they are not changed.
        out: folder of the set: new, or empty.

    Raises:
        FormatError: a folder holds no finished shard or a damaged one, or no take can be used.
        OptionError: a shard is missing, or the shards are from different builds.
    """
    start_time = time.perf_counter()
    target = Path(out)
    if (target / SHARD).exists():
        raise OptionError(f"{target}: holds a shard; expected another folder for the set")
    check_maker(target, "build", "the takes")
    plan, results, works = read_shards([Path(shard) for shard in shards])
    work = prepare_folder(target)
    with lock(work):
        motion_set, content = _finish(target, work, plan, results, _PreviousSet(None), works)
    return _report(out, motion_set, content, start_time)


def _finish(
    target: Path,
    work: Path,
    plan: BuildPlan,
    results: dict[str, Result],
    previous: _PreviousSet,
    works: Mapping[str, Path] | None = None,
) -> "tuple[MotionSet, _Content]":
    """Assemble the set from prepared takes, stored in ``work`` or in the folders of ``works``."""
    try:
        content = _Content.of(plan, results, previous)
    except FormatError:
        # No finished take that a later build could reuse.
        shutil.rmtree(work)
        with suppress(OSError):  # not empty: an earlier set stays
            target.rmdir()
        raise
    motion_set = _assemble(target, works or {}, work, content, plan, previous)
    shutil.rmtree(work)
    return motion_set, content


def _report(out: Path | str, motion_set: MotionSet, content: "_Content", start_time: float) -> BuildReport:
    return BuildReport(
        out=str(out),
        digest=motion_set.digest,
        clips=len(motion_set),
        frames=motion_set.frames,
        takes=len(content.takes),
        subjects={split: motion_set.subjects(split) for split in SPLITS},
        made=content.states["made"],
        found=content.states["found"],
        kept=content.states["kept"],
        refused=content.refused,
        warnings=list(motion_set.warnings),
        seconds=time.perf_counter() - start_time,
    )


def _prepare_all(
    folder: Path,
    work: Path,
    sources: Sequence[Source],
    options: Options,
    sounds: Mapping[str, Sound],
    previous: _PreviousSet,
    workers: int,
    on_progress: Callable[[Step], None] | None,
) -> dict[str, Result]:
    tasks = (
        Task(folder, work, source.paths, options, sounds.get(source.paths[0]), previous.key(source.paths))
        for source in sources
    )
    results: dict[str, Result] = {}
    for result in spread(prepare, tasks, workers):
        results[result.paths[0]] = result
        if on_progress is not None:
            on_progress(Step(len(results), len(sources), printable(result.paths[0]), result.error))
    return results


@dataclass
class _Content:
    """The takes that go into the set, in order, and what is reported about the others."""

    takes: list[tuple[Source, Result]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("made", "found", "kept"), 0))

    @classmethod
    def of(cls, plan: BuildPlan, results: dict[str, Result], previous: _PreviousSet) -> "_Content":
        content = cls(warnings=[*plan.warnings])
        first_of: dict[str, str] = {}
        stems: dict[str, str] = {}
        # The same bytes under two names: the second counts as "found", though no earlier build made it.
        new = {result.key for result in results.values() if result.state == "made"}
        for source in plan.sources:
            result = results[source.paths[0]]
            if result.state == "refused":
                content.refused.append(_refusal(result))
                continue
            path = printable(str(result.record["path"]))
            if result.error:
                content.warnings.append(f"{path}: read instead of another file of the take: {result.error}")
            if result.key in first_of:
                first = first_of[result.key]
                content.warnings.append(f"{path}: the same motion as {first}; it is in the set once")
                continue
            first_of[result.key] = path
            content.states["made" if result.state == "found" and result.key in new else result.state] += 1
            stem = str(PurePosixPath(path).with_suffix(""))
            if stems.setdefault(stem, path) != path:
                content.warnings.append(f"{path}: there is another take of that name; both are in the set")
            content.takes.append((source, result))
            content.records.append(
                previous.records[str(result.record["path"])] if result.state == "kept" else result.record
            )
        if not content.takes:
            why = f"; the first: {content.refused[0]['reason']}" if content.refused else ""
            raise FormatError(f"none of the {len(plan.sources)} takes can be used{why}")
        content.warnings += [line for record in content.records for line in record.get("warnings", [])]
        content.warnings += _notes(content.records)
        return content

    def fingerprint(self, sides: Mapping[str, Split]) -> str:
        """sha256 of everything that determines the bytes of the set."""
        takes = [
            [source.name, source.subject, sides[source.subject], *filter(None, [source.words])]
            for source, _ in self.takes
        ]
        text = json.dumps([takes, self.records, self.refused, self.warnings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _assemble(
    out: Path,
    works: Mapping[str, Path],
    work: Path,
    content: _Content,
    plan: BuildPlan,
    previous: _PreviousSet,
) -> MotionSet:
    """Write the set, or keep the existing one if it would be the same."""
    sides = plan.sides_of(source for source, _ in content.takes)
    made_by = plan.made_by | {"from": content.fingerprint(sides)}
    if previous.old is not None and previous.old.index["made_by"] == made_by:
        return previous.old
    used_names: set[str] = {source.name for source, _ in content.takes}
    with SetWriter(out) as writer:
        for source, result in content.takes:
            path = str(result.record["path"])
            if result.state == "kept":
                parts = previous.parts(path)
            else:
                parts, _ = read_parts(work_file(works.get(source.paths[0], work), result.key))
            for part in parts:
                _append(writer, source, sides[source.subject], path, part, used_names)
        writer.finish(
            made_by=made_by,
            sources=content.records,
            refused=content.refused,
            warnings=content.warnings + _warnings(writer.clips, content.refused),
        )
    return MotionSet.open(out)


def _append(
    writer: SetWriter, source: Source, split: Split, path: str, part: Part, used_names: set[str]
) -> None:
    name = source.name
    if part.number is not None:
        name = f"{source.name}/{part.number}"
        while name in used_names:  # another take has this name
            name += "'"
        used_names.add(name)
    entry = ClipEntry(
        name=name,
        subject=source.subject,
        split=split,
        start=0,
        frames=0,
        missing=part.missing,
        source=path,
        part=part.number,
        seconds=part.seconds,
        targets=part.targets,
        events=(0, 0, 0),
        words=source.words,
    )
    writer.append(entry, part.example, part.root)


def _notes(records: list[dict[str, Any]]) -> list[str]:
    """Notes of the readers, one line for all takes with the same note; numbers in it may differ."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        for note in record.get("notes", []):
            groups.setdefault(re.sub(r"\d[\d.]*", "#", note), []).append(
                (printable(str(record["path"])), str(note))
            )
    lines = []
    for group in groups.values():
        (path, note), more = group[0], len(group) - 1
        lines.append(f"{path}: {note}" + (f"; and {more} more like it" if more else ""))
    return lines


def _warnings(clips: list[ClipEntry], refused: list[dict[str, str]]) -> list[str]:
    lines = split_warnings({clip.subject: clip.split for clip in clips})
    if refused:
        lines.append(f"{counted(len(refused), 'take')} could not be used")
    short = sum(clip.frames < SCALAR_WINDOW for clip in clips)
    if short:
        lines.append(
            f"{short} of {len(clips)} clips are shorter than {SCALAR_WINDOW / RATE:.2f} s, the window of the "
            "scalars, which then rest on fewer frames throughout"
        )
    return lines


__all__ = ["BuildReport", "Step", "build", "merge"]
