"""Makes a set of augmented and corrupted copies of a set's training clips, as a recipe describes."""

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
from training.data.examples import SHORTEST, Example, Piece, example_from_piece, vary
from training.data.glitches import Glitches, glitch
from training.data.sets.builder import Step
from training.data.sets.format import ClipEntry, MotionSet, check_maker, is_set
from training.data.sets.prepare import (
    PREPARE_VERSION,
    Part,
    Result,
    found_record,
    read_parts,
    save_parts,
    work_file,
)
from training.data.sets.writer import SetWriter, lock, prepare_folder
from training.teacher.kinematics import MIRROR

VARY_VERSION: Final = 3
"""Version of the result of a recipe."""

PAN: Final = PARAMETERS.index("pan")

UPSAMPLING: Final = 3
"""Factor over the rate of a set at which movements are warped."""


class Recipe(Table):
    """How copies are made."""

    movement: Literal["varied", "simple", "none"] = "varied"
    """``varied``: everything that :func:`training.data.examples.vary` does; ``simple``: the three below;
    ``none``: the movement is not changed."""
    warp: Share = 1.0
    """Share of copies warped in time (simple)."""
    mirror: Share = 0.5
    """Share of copies with left and right exchanged (simple)."""
    yaw: Share = 1.0
    """Share of copies turned about the vertical (simple)."""
    slowly: Share = 0.0
    """Share of copies slowed to 0.4 to 0.8 of their speed (varied)."""
    corruption: Corruption = Corruption()
    # Not in the repr if None, so that cache paths of recipes without glitches do not change.
    glitches: Glitches | None = Field(default=None, repr=False)
    """Glitches; the set then has labels of the bad frames."""

    def record(self) -> dict[str, Any]:
        """The recipe as JSON values; integers stay integers, unlike in pydantic's own JSON."""
        dumped = self.model_dump(exclude={"glitches"} if self.glitches is None else None)
        values: dict[str, Any] = json.loads(json.dumps(dumped))
        return values


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from TOML: the fields of :class:`Recipe`, and tables ``[corruption]`` and ``[glitches]``.

    Raises:
        FormatError: the file is missing or not TOML, or a key or value is invalid.
    """
    tree = read_toml(path)
    try:
        return Recipe(**tree)
    except OptionError as error:
        raise FormatError(f"{path}: {error}") from None


def upsample(piece: Piece) -> Piece:
    """Upsample the piece to 150 Hz by cubic splines, so that warping its time loses no high frequencies.

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
    times = np.arange(UPSAMPLING * (len(quats) - 1) + 1) / UPSAMPLING
    turns = CubicSpline(frames, quats * signs[..., None])(times)
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    places = CubicSpline(frames, piece.root.astype(np.float64))(times)
    return replace(
        piece, quats=turns.astype(np.float32), root=places.astype(np.float32), rate=UPSAMPLING * RATE
    )


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
    """Open the set once per worker; the digest is a key, so that a rebuilt set is opened again."""
    motion_set = MotionSet.open(folder)
    return motion_set, motion_set.training(without)


def _make(task: _Task) -> Result:
    target = work_file(task.work, task.key)
    if found_record(target) is not None:
        return Result((str(task.number),), task.key, "found")
    parts = [part for part in (_copy(task, copy) for copy in range(task.copies)) if part is not None]
    save_parts(target, parts, {})
    return Result((str(task.number),), task.key, "made")


def _copy(task: _Task, copy: int) -> Part | None:
    """Make one copy of a clip; None if it is too short to train on."""
    base, training = _opened(task.folder, task.digest, task.without)
    clip = base.clips[task.number]
    rng = np.random.default_rng((task.seed, task.number, copy))
    partner = training[int(rng.integers(len(training)))]
    if clip.targets == "audio":
        piece, example = _vary_with_sound(base, task.number, task.recipe, rng)
    else:
        piece = _vary_movement(base, task.number, partner, task.recipe, rng)
        example = example_from_piece(piece)
    if len(piece.quats) < SHORTEST:
        return None
    corrupted = corrupt(piece.quats, piece.root, piece.mask, rng, task.recipe.corruption)
    features, bad = example.features, None
    if task.recipe.glitches is not None:
        glitched = glitch(corrupted.quats, corrupted.root, corrupted.mask, rng, task.recipe.glitches)
        corrupted, bad = replace(corrupted, quats=glitched.quats, root=glitched.root), glitched.bad
    if corrupted.troubles or clip.targets == "audio" or (bad is not None and bad.any()):
        features = motion_features(corrupted.quats, corrupted.root, corrupted.mask)
    missing = tuple(
        joint for joint, present in zip(CANONICAL_JOINTS, corrupted.mask, strict=True) if not present
    )
    example = replace(example, quats=corrupted.quats, features=features, bad=bad)
    return Part(copy, clip.seconds, missing, clip.targets, example, corrupted.root)


def _vary_movement(
    base: MotionSet, number: int, partner: int, recipe: Recipe, rng: np.random.Generator
) -> Piece:
    """Make a new movement, whose targets come from the teacher."""
    piece = base.piece(number)
    if recipe.movement == "none":
        return piece
    if recipe.movement == "varied":
        return vary(upsample(piece), rng, upsample(base.piece(partner)), recipe.slowly)
    warp, mirror, yaw = rng.random(3) < (recipe.warp, recipe.mirror, recipe.yaw)
    quats, root = piece.quats.astype(np.float64), piece.root.astype(np.float64)
    if warp:
        fine = upsample(piece)
        quats, root = change.time_warp(fine.quats, fine.root, fine.rate, rng)
    if mirror:
        quats, root = change.mirror(quats, root)
    if yaw:
        quats, root = change.yaw(quats, root, rng.uniform(-np.pi, np.pi))
    mask = piece.mask[list(MIRROR)] if mirror else piece.mask
    return replace(piece, quats=quats.astype(np.float32), root=root.astype(np.float32), mask=mask)


def _vary_with_sound(
    base: MotionSet, number: int, recipe: Recipe, rng: np.random.Generator
) -> tuple[Piece, Example]:
    """Vary a clip whose targets come from a sound: only mirrored and turned, so that time and strength stay.

    The pan of a mirrored movement is mirrored, too.
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
    """Make a set of copies of the training clips of a set; resumable, the same for any ``workers``.

    The teacher computes the targets of each new movement. Corruption comes after that and changes only the
    model's input (rotations, and features with the scalars, computed by the live code). Clips whose targets
    come from a sound are only mirrored, turned and corrupted.

    Args:
        base: the set.
        out: folder of the new set; if it holds a set made in exactly this way, that is opened.
        copies: copies of each clip.
        seed: seed of all random choices.
        recipe: augmentations; all by default.
        without: training subjects that are left out.
        workers: number of processes.
        on_progress: called after each clip.

    Raises:
        FormatError: ``base`` is not a set, or has no training clip.
        OptionError: an option is invalid, or ``out`` holds something else.
    """
    source = base if isinstance(base, MotionSet) else MotionSet.open(base)
    if copies < 1:
        raise OptionError(f"copies must be at least 1, got {copies}")
    target, used_recipe = Path(out), recipe or Recipe()
    if target.resolve() == source.folder.resolve():
        raise OptionError(f"{target}: is the set itself; expected another folder for its variations")
    check_maker(target, "augment", "its variations")
    numbers = source.training(without)
    if not numbers:
        raise FormatError(source.empty_message("train"))
    made_by = {
        "command": "augment",
        "version": VARY_VERSION,
        "of": source.digest,
        "copies": copies,
        "seed": seed,
        "recipe": used_recipe.record(),
        **({"without": sorted(without)} if without else {}),
    }
    if is_set(target):
        with suppress(FormatError):
            existing = MotionSet.open(target)
            if existing.index["made_by"] == made_by:
                return existing
    work = prepare_folder(target)
    with lock(work):
        keys = {number: _key(made_by, number) for number in numbers}
        tasks = (
            _Task(
                source.folder, work, n, copies, seed, used_recipe, key, source.digest, tuple(sorted(without))
            )
            for n, key in keys.items()
        )
        for done, result in enumerate(spread(_make, tasks, workers), start=1):
            if on_progress is not None:
                on_progress(Step(done, len(numbers), source.clips[int(result.paths[0])].name))
        with SetWriter(target, labels=used_recipe.glitches is not None) as writer:
            for number, key in keys.items():
                _append(writer, source.clips[number], read_parts(work_file(work, key))[0])
            if not writer.clips:
                raise FormatError(
                    f"{source.folder.name}: every variation is shorter than {SHORTEST / RATE} s; record"
                    " longer takes, or train without copies"
                )
            base_is_augmented = source.index["made_by"].get("command") == "augment"
            warnings = (
                [f"made of {source.folder.name}, which holds variations already"] if base_is_augmented else []
            )
            writer.finish(made_by=made_by, sources=source.index["sources"], refused=[], warnings=warnings)
    shutil.rmtree(work)
    return MotionSet.open(target)


def _key(made_by: dict[str, Any], number: int) -> str:
    content = json.dumps([PREPARE_VERSION, made_by, number], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _append(writer: SetWriter, clip: ClipEntry, parts: Iterator[Part]) -> None:
    for part in parts:
        entry = replace(clip, name=f"{clip.name}~{part.number}", missing=part.missing, of=clip.name)
        writer.append(entry, part.example, part.root)
