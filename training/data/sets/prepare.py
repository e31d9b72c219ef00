"""Prepares one take: from its file to rows of a set. Runs in worker processes; the result is a work file."""

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pyanticip._core import FEATURES_VERSION
from pyanticip.errors import FormatError, MotionError
from pyanticip.motion.asf import find_asf
from pyanticip.motion.atomic import write_atomic
from pyanticip.motion.joints import Joints
from pyanticip.motion.load import load_take
from pyanticip.untrusted import open_file
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE
from training.data.examples import SHORTEST, Example, Piece, at_rate, example_from_piece, steady_runs
from training.data.sets.discover import printable
from training.data.sets.format import sha256_of
from training.data.sets.sounds import Sound
from training.teacher.kinematic_targets import TEACHER_VERSION
from training.teacher.sound import AUDIO_VERSION, duration, targets_of

MAX_LENGTH_DIFFERENCE_S: Final = 0.1
"""Sound and movement may differ in length by this much without a warning."""


class TakeSound:
    """The sound of a take, aligned to its movement."""

    def __init__(self, path: Path, offset: float) -> None:
        self.path, self.offset = path, offset
        self.seconds = duration(path)

    def overlap(self, seconds: float, frames: int) -> tuple[int, int]:
        """First and end (exclusive) of the frames with sound, of ``frames`` frames from ``seconds`` on."""
        begin = seconds + self.offset
        # Tolerance for rounding: 2.0 s of sound hold 100 frames.
        first = max(int(np.ceil(-begin * RATE - 1e-6)), 0)
        last = min(int(np.floor((self.seconds - begin) * RATE + 1e-6)), frames)
        return first, max(last, first)

    def apply_targets(self, example: Example, seconds: float, notes: list[str]) -> Example:
        """Replace the example's targets by the sound's; parameters it does not provide stay the teacher's."""
        targets = targets_of(self.path, max(seconds + self.offset, 0.0), len(example.params))
        notes += [note for note in targets.notes if note not in notes]
        params = np.where(np.isnan(targets.params), example.params, targets.params)
        return replace(example, params=params, onsets=targets.onsets, phrases=targets.phrases)

    def compare(self, movement: float) -> list[str]:
        """Warn if sound and movement differ in length.

        Args:
            movement: length of the movement, seconds.
        """
        begin, end = max(-self.offset, 0.0), min(self.seconds - self.offset, movement)
        lengths = self.lengths(movement)
        if begin > MAX_LENGTH_DIFFERENCE_S or movement - end > MAX_LENGTH_DIFFERENCE_S:
            return [f"{lengths}: only the {max(end - begin, 0.0):.2f} s in common are used"]
        if self.seconds - self.offset - movement > MAX_LENGTH_DIFFERENCE_S:
            return [f"{lengths}: the sound goes on after the movement; is the offset right?"]
        return []

    def lengths(self, movement: float) -> str:
        """The lengths of sound and movement (seconds), and the offset, in words."""
        offset = f", offset {self.offset:g} s" if self.offset else ""
        return f"sound of {self.seconds:.2f} s, movement of {movement:.2f} s{offset}"


PREPARE_VERSION: Final = 3
"""Version of the preparation; results of another version are computed again."""


@dataclass(frozen=True)
class Options:
    """Options that are the same for all takes."""

    min_frames: int = SHORTEST
    """Minimum length of a clip, frames at 50 Hz."""
    rate: float | None = None
    """Frames per second of all files, overriding the files."""
    units: str | float | None = None
    """Unit of length of all files, overriding the guess from the body's size."""
    up: str | None = None
    """Up axis of all files, overriding the guess from the motion."""
    rest: int | None = None
    """Frame whose pose is the rest pose in all files, overriding the detection."""
    joints: Joints | None = None
    """Mapping of joint names in all files, overriding the built-in one."""
    skeleton: str | None = None
    """ASF of all AMC files, overriding the one beside them."""


@dataclass(frozen=True)
class Task:
    """One take to prepare."""

    folder: Path
    work: Path
    paths: tuple[str, ...]
    """Files it can be read from, relative to ``folder``, in order of preference."""
    options: Options
    sound: Sound | None = None
    previous_key: str = ""
    """Key of the take in the existing set; empty if it is not there."""


@dataclass(frozen=True)
class Result:
    """Outcome of a take: a key, or an error."""

    paths: tuple[str, ...]
    key: str = ""
    state: Literal["made", "found", "kept", "refused"] = "refused"
    """Made now, found in the work folder of an interrupted build, kept from the existing set, or unusable."""
    record: dict[str, Any] = field(default_factory=dict)
    """Its entry among the sources of the set."""
    error: str = ""
    """Why it was refused, or why the first of its files was not used."""


@dataclass(frozen=True)
class Part:
    """A clip of a take."""

    number: int | None
    """Index of the stretch between tracking jumps, None if there was no jump; or index of the copy."""
    seconds: float
    missing: tuple[str, ...]
    targets: Literal["teacher", "audio"]
    example: Example
    root: NDArray[np.float32]
    """(T, 3) metres."""


def work_file(work: Path, key: str) -> Path:
    """Path of the work file of a finished take."""
    return work / f"{key}.npz"


def save_parts(path: Path, parts: list[Part], record: dict[str, Any]) -> None:
    """Write the clips of a take to a work file, atomically."""
    meta = {
        "record": record,
        "parts": [
            {
                "number": part.number,
                "seconds": part.seconds,
                "missing": list(part.missing),
                "targets": part.targets,
                "frames": len(part.example),
                "events": [len(part.example.onsets), len(part.example.phrases)],
            }
            for part in parts
        ],
    }
    examples = [part.example for part in parts]
    bad = [each.bad for each in examples if each.bad is not None]
    buffer = io.BytesIO()
    np.savez(
        buffer,
        meta=np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8),
        features=_joined([each.features for each in examples]),
        params=_joined([each.params for each in examples]),
        quats=_joined([each.quats for each in examples]),
        root=_joined([part.root for part in parts]),
        events=_joined([times for each in examples for times in (each.onsets, each.phrases)]),
        # Without labels on every clip, the array is empty.
        bad=_joined(bad) if len(bad) == len(parts) else np.zeros(0, dtype=np.bool_),
    )
    write_atomic(path, buffer.getvalue())


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.float32)


def read_parts(path: Path) -> tuple[Iterator[Part], dict[str, Any]]:
    """Read a work file: the clips of a take, whose examples have no names, and its source record.

    Raises:
        FormatError: the file is damaged.
    """
    try:
        with open_file(path) as file, np.load(file) as saved:
            arrays = {name: saved[name] for name in saved.files}
        meta = json.loads(arrays["meta"].tobytes())
        return _parts(arrays, meta["parts"]), meta["record"]
    except Exception as error:  # damage shows as zip, zlib, JSON, KeyError and others
        raise FormatError(f"{path}: is damaged: {error}") from None


def found_record(path: Path) -> dict[str, Any] | None:
    """The source record of a work file of an earlier build; None if there is none, or a damaged one, which is
    removed."""
    try:
        return read_parts(path)[1] if path.is_file() else None
    except FormatError:
        path.unlink()
        return None


def _parts(arrays: dict[str, NDArray[Any]], metas: list[dict[str, Any]]) -> Iterator[Part]:
    row = event = 0
    for meta in metas:
        rows = slice(row, row + meta["frames"])
        onsets, phrases = meta["events"]
        events = arrays["events"][event : event + onsets + phrases]
        quats, features, params = (arrays[name][rows] for name in ("quats", "features", "params"))
        bad = arrays["bad"][rows] if len(arrays.get("bad", ())) else None
        example = Example("", "", quats, features, params, events[:onsets], events[onsets:], bad)
        missing = tuple(meta["missing"])
        yield Part(meta["number"], meta["seconds"], missing, meta["targets"], example, arrays["root"][rows])
        row, event = rows.stop, event + onsets + phrases


def prepare(task: Task) -> Result:
    """Read a take and store its clips in the work folder.

    Never raises for a bad file.

    Raises:
        OSError: the result cannot be stored; a full disk is not the fault of a take.
    """
    error = ""
    for path in task.paths:
        try:
            result, parts = _prepare(task, path)
        except MotionError as failure:
            reason = str(failure)
        except OSError as failure:
            reason = f"{task.folder / path}: cannot be read: {failure.strerror or failure}"
        except Exception as failure:  # one bad file among thousands must not end the build
            reason = f"{task.folder / path}: {type(failure).__name__}: {failure}"
        else:
            if parts:
                save_parts(work_file(task.work, result.key), parts, result.record)
            return replace(result, error=error)
        error = error or _relative(reason, task.folder)
    return Result(task.paths, error=error)


def _relative(line: str, folder: Path) -> str:
    """Strip the folder from the paths in a line: a set does not store where it was built."""
    return " ".join(printable(line.replace(f"{folder}/", "")).split())


def _prepare(task: Task, path: str) -> tuple[Result, list[Part]]:
    """Prepare one file; returns its result, and the clips to store if they are new."""
    file = task.folder / path
    record: dict[str, Any] = {"path": path, "sha256": sha256_of(file)}
    skeleton: Path | None = None
    if PurePosixPath(path).suffix.lower() == ".amc":
        override = task.options.skeleton
        skeleton = find_asf(file) if override is None else Path(override)
        is_inside = skeleton.is_relative_to(task.folder)
        record["skeleton"] = {
            "path": skeleton.relative_to(task.folder).as_posix() if is_inside else skeleton.name,
            "sha256": sha256_of(skeleton),
        }
    if task.sound is not None:
        record["sound"] = {
            "path": task.sound.path,
            "sha256": sha256_of(task.folder / task.sound.path),
            "offset": task.sound.offset,
        }
    key = _key(task.options, record)
    record["key"] = key
    target = work_file(task.work, key)
    if key == task.previous_key:
        return Result(task.paths, key, "kept", record), []
    if (saved := found_record(target)) is not None:
        # The work file may have been made from the same bytes under another name.
        return Result(task.paths, key, "found", {**saved, **record}), []
    parts, notes, warnings = _make(task, file, skeleton)
    record["warnings"] = [f"{printable(path)}: {_relative(line, task.folder)}" for line in warnings]
    record["notes"] = [_relative(note, task.folder) for note in notes]
    return Result(task.paths, key, "made", record), parts


def _key(options: Options, record: dict[str, Any]) -> str:
    """Key of a prepared take: a hash of its bytes and of everything that determines the result."""
    content = [
        PREPARE_VERSION,
        FEATURES_VERSION,
        TEACHER_VERSION,
        vars(options),
        record["sha256"],
        record.get("skeleton", {}).get("sha256"),
        [AUDIO_VERSION, record["sound"]["sha256"], record["sound"]["offset"]] if "sound" in record else None,
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def never_upright(hips: NDArray[np.floating]) -> bool:
    """Whether hips with rotations (T, 4) are within 60 degrees of upright in less than a tenth of the frames.

    Not even cartwheels look like this: the file's up axis is probably another.
    """
    up = 1.0 - 2.0 * (hips[:, 1].astype(np.float64) ** 2 + hips[:, 3].astype(np.float64) ** 2)
    return float((up > 0.5).mean()) < 0.1


def _make(task: Task, file: Path, skeleton: Path | None) -> tuple[list[Part], list[str], list[str]]:
    options = task.options
    clip = load_take(
        file,
        skeleton=skeleton,
        rate=options.rate,
        units=options.units,
        up=options.up,
        rest=options.rest,
        joints=options.joints,
    ).retarget("humanoid")
    rate = float(clip.rate)
    notes = list(clip.warnings)
    if never_upright(clip.quats[:, 0]):
        notes.append("the body lies down throughout, or hangs: is up in this file another axis?")
    mask = np.asarray(clip.mask, dtype=np.bool_)
    missing = tuple(joint for joint, present in zip(CANONICAL_JOINTS, mask, strict=True) if not present)
    runs = steady_runs(clip.quats, clip.root, rate)
    long_runs = [
        (n, run) for n, run in enumerate(runs) if (run[1] - run[0]) * RATE / rate >= options.min_frames
    ]
    cut = f"cut at {len(runs) - 1} tracking jump{'s' * (len(runs) > 2)}"
    if not long_runs:
        longest = max((stop - start for start, stop in runs), default=0) / rate
        length = f"{longest:.2f} s of motion" + (f", {cut}" if len(runs) > 1 else "")
        raise FormatError(f"{file}: {length}, expected at least {options.min_frames / RATE:.2f} s")
    if len(runs) > 1:
        lost = (len(clip) - sum(stop - start for _, (start, stop) in long_runs)) / rate
        notes.append(f"{cut}; {lost:.2f} s left out")
    sound = None if task.sound is None else TakeSound(task.folder / task.sound.path, task.sound.offset)
    parts = []
    longest = 0
    for number, (start, stop) in long_runs:
        piece = at_rate(Piece(clip.name, "", clip.quats[start:stop], clip.root[start:stop], mask, rate))
        seconds = start / rate
        if sound is not None:
            first, last = sound.overlap(seconds, len(piece.quats))
            longest = max(longest, last - first)
            if last - first < options.min_frames:
                continue
            piece = replace(piece, quats=piece.quats[first:last], root=piece.root[first:last])
            seconds += first / RATE
        example = example_from_piece(piece)
        if sound is not None:
            example = sound.apply_targets(example, seconds, notes)
        if not (np.isfinite(example.features).all() and np.isfinite(example.params).all()):
            raise FormatError(f"{file}: gives features or targets that are not finite")
        stretch = number if len(runs) > 1 else None
        targets: Literal["teacher", "audio"] = "teacher" if sound is None else "audio"
        parts.append(Part(stretch, round(seconds, 6), missing, targets, example, piece.root))
    if sound is None:
        return parts, notes, []
    movement = len(clip) / rate
    if not parts:
        common = f"{longest / RATE:.2f} s in common" + (f" at a stretch, {cut}" if len(runs) > 1 else "")
        least = f"expected at least {options.min_frames / RATE:.2f} s"
        raise FormatError(f"{file}: {sound.lengths(movement)}: {common}; {least}")
    return parts, notes, sound.compare(movement)
