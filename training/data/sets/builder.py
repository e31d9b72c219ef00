"""``pyanticip train data build``: a folder of takes becomes a set."""

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

from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.joints import read_joints
from pyanticip.motion.load import check_reading
from pyanticip.motion.units import check_rate, metres_per_unit
from pyanticip.motion.world import check_up
from pyanticip.vocabulary import RATE
from pyanticip.workers import spread
from training.data.examples import SHORTEST, Split
from training.data.manifest import SHARD
from training.data.sets.discover import Found, Source, discover, printable
from training.data.sets.format import SPLITS, ClipEntry, MotionSet, is_set
from training.data.sets.prepare import Options, Part, Result, Task, prepare, read_parts, work_file
from training.data.sets.shards import Whole, check_place, numbers, read_shards, write_shard
from training.data.sets.sounds import Sound, pair
from training.data.sets.splits import sides_of, split_warnings, strangers
from training.data.sets.writer import Lock, SetWriter, prepare_folder
from training.teacher.sound import available, warm

SCALAR_WINDOW: Final = 256
"""Frames that the scalars look back on."""


@dataclass(frozen=True)
class Step:
    """What happens during a build."""

    done: int
    total: int
    path: str
    error: str = ""
    """Why a file of the take cannot be used."""


@dataclass(frozen=True)
class BuildReport:
    """What a build did."""

    out: str
    digest: str
    clips: int
    frames: int
    takes: int
    subjects: dict[Split, list[str]]
    made: int
    """Takes that were computed now."""
    found: int
    """Takes that an interrupted build had finished."""
    kept: int
    """Takes that were in the set before and have not changed."""
    refused: list[dict[str, str]]
    warnings: list[str]
    seconds: float

    def plain(self) -> dict[str, Any]:
        """As values for JSON."""
        return asdict(self)


@dataclass
class _Kept:
    """The clips of an earlier set by source and by key."""

    old: MotionSet | None
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    clips: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, out: Path) -> "_Kept":
        if not is_set(out):
            return cls(None)
        try:
            kept = cls(MotionSet.open(out))
        except FormatError:  # of another version or damaged: made anew
            return cls(None)
        assert kept.old is not None
        kept.records = {str(record["path"]): record for record in kept.old.index["sources"]}
        for number, clip in enumerate(kept.old.clips):
            kept.clips.setdefault(clip.source, []).append(number)
        return kept

    def key(self, paths: tuple[str, ...]) -> str:
        """Key of what was made of a take, wherever it was read from."""
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
    """Make a set of all takes in a folder, or bring the set that is there up to date.

    The same folder and options give the same bytes, whatever the number of workers. An interrupted build
    goes on where it was: finished takes wait inside ``out``. Takes that a complete set there was made
    of, and that have not changed, are copied from it.

    Args:
        folder: of the takes.
        out: folder of the set: new, empty, or one of an earlier build.
        workers: processes.
        subject_from: rule that finds the subject of a take (:func:`training.data.sets.splits.subject_of`).
        split_file: TOML or CSV of subjects and their sides
            (:func:`training.data.sets.splits.read_split_file`).
        min_seconds: shorter stretches of motion are left out.
        rate: frames a second of all files, instead of what they say.
        units: unit of length of all files, instead of what their size says.
        up, rest, joints: how all files are to be read, instead of what their motion and their names say
            (:func:`pyanticip.load_motion`).
        skeleton: ASF of all AMC files.
        sound: ``auto``: takes with a sound beside them, or in the manifest, are taught by it; ``none``: the
            teacher teaches all.
        manifest: TOML or CSV of takes, their sounds and offsets (:func:`training.data.sets.sounds.pair`).
        shard: ``i/n``: prepare the i-th of n shares of the takes alone, for :func:`merge`.
        on_progress: called after each take.

    Raises:
        FormatError: no motion in the folder, none that can be read, or a bad split file.
        OptionError: options that make no sense or help no take, or a folder that holds something else.
    """
    began = time.perf_counter()
    source_dir, target = Path(folder), Path(out)
    if not 0.1 <= min_seconds < float("inf"):
        raise OptionError(f"min_seconds is at least 0.1, given {min_seconds}")
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
    found = discover(source_dir, target, subject_from)
    reading = {"rate": rate, "units": units, "up": up, "rest": rest, "joints": joints, "skeleton": skeleton}
    given = [name for name, value in reading.items() if value is not None]
    files = [source_dir / path for source in found.sources for path in source.paths]
    check_reading(files, given, rated=True, folder=source_dir)
    subjects, who = _subjects(found), None if split_file is None else Path(split_file)
    sides = sides_of(subjects, who)
    sounds = {}
    if sound == "auto":
        sounds = pair(source_dir, found, None if manifest is None else Path(manifest))
    if sounds:
        available()
        if workers > 1:
            warm()
    made_by = {"command": "build", **vars(options), "subject_from": subject_from, "sound": sound}
    whole = Whole(made_by, found.sources, sides, [*strangers(subjects, who), *found.warnings])
    if shard is not None:
        return _build_shard(source_dir, target, shard, whole, options, sounds, workers, on_progress)
    if (target / SHARD).exists():
        raise OptionError(f"{target}: holds a shard; expected another folder, or --shard")
    work = prepare_folder(target)
    with Lock(work):
        kept = _Kept.of(target)
        results = _prepare_all(source_dir, work, found.sources, options, sounds, kept, workers, on_progress)
        made, plan = _finish(target, work, whole, results, kept)
    return _report(out, made, plan, began)


def _build_shard(
    folder: Path,
    out: Path,
    shard: str,
    whole: Whole,
    options: Options,
    sounds: Mapping[str, Sound],
    workers: int,
    on_progress: Callable[[Step], None] | None,
) -> BuildReport:
    began = time.perf_counter()
    number, count = numbers(shard)
    if is_set(out):
        raise OptionError(f"{out}: holds a set; expected another folder for a shard")
    check_place(out, (number, count))
    mine = whole.sources[number - 1 :: count]
    work = prepare_folder(out)
    with Lock(work):
        (out / SHARD).unlink(missing_ok=True)
        results = _prepare_all(folder, work, mine, options, sounds, _Kept(None), workers, on_progress)
        digest = write_shard(out, (number, count), whole, results)
    states = Counter(result.state for result in results.values())
    frames = [_counted(work_file(work, each.key)) for each in results.values() if each.key]
    return BuildReport(
        out=str(out),
        digest=digest,
        clips=sum(len(each) for each in frames),
        frames=sum(map(sum, frames)),
        takes=len(frames),
        subjects={s: sorted({x.subject for x in mine if whole.sides[x.subject] == s}) for s in SPLITS},
        made=states["made"],
        found=states["found"],
        kept=0,
        refused=[_refusal(each) for each in results.values() if each.state == "refused"],
        warnings=[],
        seconds=time.perf_counter() - began,
    )


def _refusal(result: Result) -> dict[str, str]:
    return {"path": printable(result.paths[0]), "reason": result.error}


def _counted(path: Path) -> list[int]:
    parts, _ = read_parts(path)
    return [len(part.example) for part in parts]


def merge(shards: Sequence[Path | str], out: Path | str) -> BuildReport:
    """Put the shards of a build together: the bytes of a build on one machine.

    Args:
        shards: folders that ``build(..., shard="i/n")`` made, in any order; they stay as they are.
        out: folder of the set: new, or empty.

    Raises:
        FormatError: a folder holds no finished shard or a damaged one, or no take can be used.
        OptionError: a shard is missing, or they are of different builds.
    """
    began = time.perf_counter()
    target = Path(out)
    if (target / SHARD).exists():
        raise OptionError(f"{target}: holds a shard; expected another folder for the set")
    whole, results, works = read_shards([Path(shard) for shard in shards])
    work = prepare_folder(target)
    with Lock(work):
        made, plan = _finish(target, work, whole, results, _Kept(None), works)
    return _report(out, made, plan, began)


def _finish(
    target: Path,
    work: Path,
    whole: Whole,
    results: dict[str, Result],
    kept: _Kept,
    works: Mapping[str, Path] | None = None,
) -> "tuple[MotionSet, _Plan]":
    """The set of takes that are prepared, which wait in ``work`` or, each in its own, in ``works``."""
    try:
        plan = _Plan.of(whole, results, kept)
    except FormatError:
        # Nothing was finished that another build could go on from.
        shutil.rmtree(work)
        with suppress(OSError):  # of an earlier set: that stays
            target.rmdir()
        raise
    made = _assemble(target, works or {}, work, plan, whole, kept)
    shutil.rmtree(work)
    return made, plan


def _report(out: Path | str, made: MotionSet, plan: "_Plan", began: float) -> BuildReport:
    return BuildReport(
        out=str(out),
        digest=made.digest,
        clips=len(made),
        frames=made.frames,
        takes=len(plan.takes),
        subjects={split: made.subjects(split) for split in SPLITS},
        made=plan.states["made"],
        found=plan.states["found"],
        kept=plan.states["kept"],
        refused=plan.refused,
        warnings=list(made.warnings),
        seconds=time.perf_counter() - began,
    )


def _subjects(found: Found) -> dict[str, bool]:
    """Every subject, and whether all its takes have CMU names."""
    subjects: dict[str, bool] = {}
    for source in found.sources:
        subjects[source.subject] = subjects.get(source.subject, True) and source.cmu
    return subjects


def _prepare_all(
    folder: Path,
    work: Path,
    sources: Sequence[Source],
    options: Options,
    sounds: Mapping[str, Sound],
    kept: _Kept,
    workers: int,
    on_progress: Callable[[Step], None] | None,
) -> dict[str, Result]:
    tasks = (
        Task(folder, work, source.paths, options, sounds.get(source.paths[0]), kept.key(source.paths))
        for source in sources
    )
    results: dict[str, Result] = {}
    for result in spread(prepare, tasks, workers):
        results[result.paths[0]] = result
        if on_progress is not None:
            on_progress(Step(len(results), len(sources), printable(result.paths[0]), result.error))
    return results


@dataclass
class _Plan:
    """Which takes go into the set, in order, and what there is to say about the others."""

    takes: list[tuple[Source, Result]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("made", "found", "kept"), 0))

    @classmethod
    def of(cls, whole: Whole, results: dict[str, Result], kept: _Kept) -> "_Plan":
        plan = cls(warnings=[*whole.warnings])
        first_of: dict[str, str] = {}
        stems: dict[str, str] = {}
        # Of the same bytes under two names the second is found finished: that was no earlier build.
        new = {result.key for result in results.values() if result.state == "made"}
        for source in whole.sources:
            result = results[source.paths[0]]
            if result.state == "refused":
                plan.refused.append(_refusal(result))
                continue
            path = printable(str(result.record["path"]))
            if result.error:
                plan.warnings.append(f"{path}: read instead of another file of the take: {result.error}")
            if result.key in first_of:
                same = first_of[result.key]
                plan.warnings.append(f"{path}: the same motion as {same}; it is in the set once")
                continue
            first_of[result.key] = path
            plan.states["made" if result.state == "found" and result.key in new else result.state] += 1
            stem = str(PurePosixPath(path).with_suffix(""))
            if stems.setdefault(stem, path) != path:
                plan.warnings.append(f"{path}: there is another take of that name; both are in the set")
            plan.takes.append((source, result))
            plan.records.append(
                kept.records[str(result.record["path"])] if result.state == "kept" else result.record
            )
        if not plan.takes:
            why = f"; the first: {plan.refused[0]['reason']}" if plan.refused else ""
            raise FormatError(f"none of the {len(whole.sources)} takes can be used{why}")
        plan.warnings += [line for record in plan.records for line in record.get("warnings", [])]
        plan.warnings += _notes(plan.records)
        return plan

    def fingerprint(self, sides: Mapping[str, Split]) -> str:
        """sha256 of all that decides what will be written."""
        takes = [
            [source.name, source.subject, sides[source.subject], *filter(None, [source.words])]
            for source, _ in self.takes
        ]
        text = json.dumps([takes, self.records, self.refused, self.warnings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _assemble(
    out: Path, works: Mapping[str, Path], work: Path, plan: _Plan, whole: Whole, kept: _Kept
) -> MotionSet:
    """Write the set, or leave the one that is there where it would be the same."""
    sides = whole.sides
    made_by = whole.made_by | {"from": plan.fingerprint(sides)}
    if kept.old is not None and kept.old.index["made_by"] == made_by:
        return kept.old
    used: set[str] = {source.name for source, _ in plan.takes}
    with SetWriter(out) as writer:
        for source, result in plan.takes:
            path = str(result.record["path"])
            if result.state == "kept":
                parts = kept.parts(path)
            else:
                parts, _ = read_parts(work_file(works.get(source.paths[0], work), result.key))
            for part in parts:
                _append(writer, source, sides[source.subject], path, part, used)
        writer.finish(
            made_by=made_by,
            sources=plan.records,
            refused=plan.refused,
            warnings=plan.warnings + _warnings(writer.clips, plan.refused),
        )
    return MotionSet.open(out)


def _append(writer: SetWriter, source: Source, split: Split, path: str, part: Part, used: set[str]) -> None:
    name = source.name
    if part.number is not None:
        name = f"{source.name}/{part.number}"
        while name in used:  # there is a take of that very name
            name += "'"
        used.add(name)
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
    """What the readers had to mend or decide, one line for takes of which the same is said."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        for note in record.get("notes", []):
            groups.setdefault(re.sub(r"\d[\d.]*", "#", note), []).append(
                (printable(str(record["path"])), str(note))
            )
    lines = []
    for said in groups.values():
        (path, note), more = said[0], len(said) - 1
        lines.append(f"{path}: {note}" + (f"; the like of {more} more" if more else ""))
    return lines


def _warnings(clips: list[ClipEntry], refused: list[dict[str, str]]) -> list[str]:
    found = split_warnings({clip.subject: clip.split for clip in clips})
    if refused:
        found.append(f"{len(refused)} takes could not be used")
    short = sum(clip.frames < SCALAR_WINDOW for clip in clips)
    if short:
        found.append(
            f"{short} of {len(clips)} clips are shorter than {SCALAR_WINDOW / RATE:.2f} s, the window of the "
            "scalars, which then rest on fewer frames throughout"
        )
    return found


__all__ = ["BuildReport", "Step", "build", "merge"]
