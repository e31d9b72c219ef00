"""A set of varied copies of the training clips of another, as a recipe says; one clip at a time in memory."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field
from scipy.interpolate import CubicSpline

from pyanticip._core import motion_features
from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_toml
from pyanticip.vocabulary import CANONICAL_JOINTS, PARAMETERS, RATE
from pyanticip.workers import spread
from training.data import augment as change
from training.data.corrupt import Corruption, Share, Table, corrupt
from training.data.examples import SHORTEST, Example, Piece, plain, vary
from training.data.glitches import Glitches, glitch
from training.data.sets.builder import Step
from training.data.sets.format import ClipEntry, MotionSet, is_set
from training.data.sets.prepare import PREPARE_VERSION, Part, Result, read_parts, save_parts, work_file
from training.data.sets.writer import Lock, SetWriter, prepare_folder
from training.teacher.kinematics import MIRROR

VARY_VERSION: Final = 3
"""Counts the changes of what the same recipe makes."""

PAN: Final = PARAMETERS.index("pan")

FINER: Final = 3
"""Times the rate of a set at which movements are changed."""


class Recipe(Table):
    """How copies are made."""

    movement: Literal["varied", "simple", "none"] = "varied"
    """``varied``: everything that :func:`training.data.examples.vary` does; ``simple``: the three below;
    ``none``: the movement stays."""
    warp: Share = 1.0
    """Share that is warped in time (simple)."""
    mirror: Share = 0.5
    """Share with left and right exchanged (simple)."""
    yaw: Share = 1.0
    """Share that is turned about the vertical (simple)."""
    slowly: Share = 0.0
    """Share that is done at 0.4 to 0.8 of its speed (varied)."""
    corruption: Corruption = Corruption()
    # Without any, copies lie in the cache where they did before there were glitches.
    glitches: Glitches | None = Field(default=None, repr=False)
    """Bad stretches, and a set that says which frames they are."""

    def record(self) -> dict[str, Any]:
        """As plain values; numbers as they were given, which pydantic's own JSON has as floats."""
        told = self.model_dump(exclude={"glitches"} if self.glitches is None else None)
        found: dict[str, Any] = json.loads(json.dumps(told))
        return found


def read_recipe(path: Path) -> Recipe:
    """A recipe from TOML: the fields of :class:`Recipe`, a table ``[corruption]``, and ``[glitches]`` for bad
    stretches.

    Raises:
        FormatError: no such file, not TOML, a key that does not exist, or a value that makes no sense.
    """
    tree = read_toml(path)
    try:
        return Recipe(**tree)
    except OptionError as error:
        raise FormatError(f"{path}: {error}") from None


def finer(piece: Piece) -> Piece:
    """The piece at 150 Hz by cubic splines, so that a change of speed does not cut corners at 50 Hz.

    Slerp between frames at 50 Hz loses up to 1 - cos(pi f / 50) of a frequency f: 2 % at 3 Hz, 19 % at 10 Hz.
    """
    if piece.rate != RATE or len(piece.quats) < 4:
        return piece
    quats = piece.quats.astype(np.float64)
    dots = (quats[1:] * quats[:-1]).sum(axis=-1)
    signs = np.cumprod(
        np.concatenate([np.ones((1, quats.shape[1])), np.where(dots < 0.0, -1.0, 1.0)]), axis=0
    )
    frames = np.arange(len(quats))
    where = np.arange(FINER * (len(quats) - 1) + 1) / FINER
    turns = CubicSpline(frames, quats * signs[..., None])(where)
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    places = CubicSpline(frames, piece.root.astype(np.float64))(where)
    return replace(piece, quats=turns.astype(np.float32), root=places.astype(np.float32), rate=FINER * RATE)


@dataclass(frozen=True)
class _Task:
    folder: Path
    work: Path
    number: int
    copies: int
    seed: int
    recipe: Recipe
    key: str
    digest: str
    without: tuple[str, ...]


@lru_cache(maxsize=1)
def _opened(folder: Path, digest: str, without: tuple[str, ...]) -> tuple[MotionSet, list[int]]:
    """The set in a worker, once; the digest is there so that a set built anew is opened anew."""
    found = MotionSet.open(folder)
    return found, found.training(without)


def _make(task: _Task) -> Result:
    target = work_file(task.work, task.key)
    if target.is_file():
        try:
            read_parts(target)
        except FormatError:
            target.unlink()
        else:
            return Result((str(task.number),), task.key, "found")
    parts = [part for part in (_copy(task, copy) for copy in range(task.copies)) if part is not None]
    save_parts(target, parts, {})
    return Result((str(task.number),), task.key, "made")


def _copy(task: _Task, copy: int) -> Part | None:
    """One variation, or None where it became too short to teach anything."""
    base, training = _opened(task.folder, task.digest, task.without)
    clip = base.clips[task.number]
    rng = np.random.default_rng((task.seed, task.number, copy))
    partner = training[int(rng.integers(len(training)))]
    if clip.targets == "audio":
        piece, example = _in_time(base, task.number, task.recipe, rng)
    else:
        piece = _moved(base, task.number, partner, task.recipe, rng)
        example = plain(piece)
    if len(piece.quats) < SHORTEST:
        return None
    seen = corrupt(piece.quats, piece.root, piece.mask, rng, task.recipe.corruption)
    features, bad = example.features, None
    if task.recipe.glitches is not None:
        found = glitch(seen.quats, seen.root, seen.mask, rng, task.recipe.glitches)
        seen, bad = replace(seen, quats=found.quats, root=found.root), found.bad
    if seen.troubles or clip.targets == "audio" or (bad is not None and bad.any()):
        features = motion_features(seen.quats, seen.root, seen.mask)
    missing = tuple(joint for joint, there in zip(CANONICAL_JOINTS, seen.mask, strict=True) if not there)
    example = replace(example, quats=seen.quats, features=features, bad=bad)
    return Part(copy, clip.seconds, missing, clip.targets, example, seen.root)


def _moved(base: MotionSet, number: int, partner: int, recipe: Recipe, rng: np.random.Generator) -> Piece:
    """Another movement, of which the teacher is asked."""
    piece = base.piece(number)
    if recipe.movement == "none":
        return piece
    if recipe.movement == "varied":
        return vary(finer(piece), rng, finer(base.piece(partner)), recipe.slowly)
    warp, mirror, yaw = rng.random(3) < (recipe.warp, recipe.mirror, recipe.yaw)
    quats, root = piece.quats.astype(np.float64), piece.root.astype(np.float64)
    if warp:
        fine = finer(piece)
        quats, root = change.time_warp(fine.quats, fine.root, fine.rate, rng)
    if mirror:
        quats, root = change.mirror(quats, root)
    if yaw:
        quats, root = change.yaw(quats, root, rng.uniform(-np.pi, np.pi))
    mask = piece.mask[list(MIRROR)] if mirror else piece.mask
    return replace(piece, quats=quats.astype(np.float32), root=root.astype(np.float32), mask=mask)


def _in_time(base: MotionSet, number: int, recipe: Recipe, rng: np.random.Generator) -> tuple[Piece, Example]:
    """What may be done where the targets come from a sound: its time and its strength stay.

    A mirrored movement has its sound on the other side.
    """
    piece, example = base.piece(number), base.example(number)
    if recipe.movement == "none":
        return piece, example
    simple = recipe.movement == "simple"
    mirror, yaw = rng.random(2) < ((recipe.mirror, recipe.yaw) if simple else (0.5, 1.0))
    quats, root, params = piece.quats.astype(np.float64), piece.root.astype(np.float64), example.params
    if mirror:
        quats, root = change.mirror(quats, root)
        params = params.copy()
        params[:, PAN] = 1.0 - params[:, PAN]
    if yaw:
        quats, root = change.yaw(quats, root, rng.uniform(-np.pi, np.pi))
    mask = piece.mask[list(MIRROR)] if mirror else piece.mask
    piece = replace(piece, quats=quats.astype(np.float32), root=root.astype(np.float32), mask=mask)
    return piece, replace(example, params=params)


def augment(
    base: MotionSet | Path | str,
    out: Path | str,
    *,
    copies: int,
    seed: int = 0,
    recipe: Recipe | None = None,
    without: Sequence[str] = (),
    workers: int = 1,
    on_progress: Callable[[Step], None] | None = None,
) -> MotionSet:
    """Make a set of variations of the training clips of a set; resumable, the same for any ``workers``.

    The teacher is asked about each new movement. Corruption comes after that: it changes what the model
    sees (rotations, and features with the scalars, computed anew by the live code), not what is taught. Clips
    whose targets come from a sound are only mirrored, turned and corrupted.

    Args:
        base: the set.
        out: folder of the new one; a set that is there and was made in this very way is opened.
        copies: variations of each clip.
        seed: of every random choice.
        recipe: what is done; everything by default.
        without: training subjects of whom nothing is used.
        workers: processes.
        on_progress: called after each clip.

    Raises:
        FormatError: no set, or no training clip in it.
        OptionError: options that make no sense, or a folder that holds something else.
    """
    source = base if isinstance(base, MotionSet) else MotionSet.open(base)
    if copies < 1:
        raise OptionError(f"copies must be at least 1, given {copies}")
    target, how = Path(out), recipe or Recipe()
    if target.resolve() == source.folder.resolve():
        raise OptionError(f"{target}: is the set itself; expected another folder for its variations")
    numbers = source.training(without)
    if not numbers:
        raise FormatError(source.nobody("train"))
    made_by = {
        "command": "augment",
        "version": VARY_VERSION,
        "of": source.digest,
        "copies": copies,
        "seed": seed,
        "recipe": how.record(),
        **({"without": sorted(without)} if without else {}),
    }
    if is_set(target):
        with suppress(FormatError):
            there = MotionSet.open(target)
            if there.index["made_by"] == made_by:
                return there
    work = prepare_folder(target)
    with Lock(work):
        keys = {number: _key(made_by, number) for number in numbers}
        tasks = (
            _Task(source.folder, work, n, copies, seed, how, key, source.digest, tuple(sorted(without)))
            for n, key in keys.items()
        )
        for done, result in enumerate(spread(_make, tasks, workers), start=1):
            if on_progress is not None:
                on_progress(Step(done, len(numbers), source.clips[int(result.paths[0])].name))
        with SetWriter(target, labels=how.glitches is not None) as writer:
            for number, key in keys.items():
                _append(writer, source.clips[number], read_parts(work_file(work, key))[0])
            if not writer.clips:
                raise FormatError(
                    f"{source.folder.name}: every variation is shorter than {SHORTEST / RATE} s; record"
                    " longer takes, or train without copies"
                )
            again = source.index["made_by"].get("command") == "augment"
            warnings = [f"made of {source.folder.name}, which holds variations already"] if again else []
            writer.finish(made_by=made_by, sources=source.index["sources"], refused=[], warnings=warnings)
    shutil.rmtree(work)
    return MotionSet.open(target)


def _key(made_by: dict[str, Any], number: int) -> str:
    what = json.dumps([PREPARE_VERSION, made_by, number], sort_keys=True)
    return hashlib.sha256(what.encode()).hexdigest()[:32]


def _append(writer: SetWriter, clip: ClipEntry, parts: Iterator[Part]) -> None:
    for part in parts:
        entry = replace(clip, name=f"{clip.name}~{part.number}", missing=part.missing, of=clip.name)
        writer.append(entry, part.example, part.root)
