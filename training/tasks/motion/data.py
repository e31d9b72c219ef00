"""Training and validation data of a run, from a set or a folder of takes."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from pyanticip.errors import DeviceError, FormatError, OptionError, counted, reason, suggestion
from pyanticip.system import cores, try_lock
from pyanticip.vocabulary import RATE
from pyanticip.workers import needs_guard
from training.data.batches import HORIZONS
from training.data.corrupt import Corruption
from training.data.examples import SHORTEST, Example
from training.data.glitches import Glitches
from training.data.manifest import takes_folder
from training.data.sets import MotionSet, Recipe, augment, build, is_set, read_recipe
from training.data.sets.progress import build_progress
from training.tasks.motion.options import MotionTrainOptions

PREDICTED_FROM: Final = 2
"""Index of the first horizon in the validation score: 100 ms."""

FLAT: Final = 1e-4
"""Standard deviation below which a feature counts as constant; it is then normalised with 1."""

MIN_CHANGE: Final = 0.01
"""Floor on the change of a parameter that errors are compared with."""


_UNCORRUPTED: Final = Corruption(noise=0.0, drop=0.0, freeze=0.0, loss=0.0)
RECIPES: Final = {
    "clean": Recipe(corruption=_UNCORRUPTED),
    "trembling": Recipe(corruption=_UNCORRUPTED.model_copy(update={"tremble": 0.12})),
    "corrupted": Recipe(),
    "poor_suits": Recipe(
        slowly=0.15,
        corruption=Corruption(noise=0.03, drop=0.09, freeze=0.02, loss=0.03, slow=0.05, tremble=0.12),
    ),
    "glitched": Recipe(corruption=_UNCORRUPTED, glitches=Glitches()),
}
"""Built-in values of ``data.recipe``; any other is a file."""


@dataclass(frozen=True)
class TrainingData:
    """Training and validation examples; too short ones are left out with a warning.

    Raises:
        OptionError: no training or no validation clip is long enough, or a subject is on both sides.
        FormatError: a value is not finite; the message names clip and frame.
    """

    source: str
    """Name in messages."""
    train: Sequence[Example]
    """Examples that windows are drawn from: the training clips and their augmented copies."""
    originals: Sequence[Example]
    """The training clips without copies."""
    validation: Sequence[Example]
    digest: str
    """Digest of everything above."""
    test_subjects: tuple[str, ...] = ()
    """Subjects of the test split, only recorded."""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sides = {}
        warnings = list(self.warnings)
        for side, examples in (("training", self.originals), ("validation", self.validation)):
            long = long_enough(self.source, side, examples)
            if len(long) < len(examples):
                warnings.append(
                    f"{self.source}: {len(examples) - len(long)} of {len(examples)} {side} clips are shorter "
                    f"than {SHORTEST} frames ({SHORTEST / RATE:g} s) and are left out"
                )
            sides[side] = long
        check_sides(
            self.source, *({e.subject for e in side} for side in sides.values()), test=self.test_subjects
        )
        for example in (*sides["training"], *sides["validation"]):
            check_finite(self.source, example.name, features=example.features, params=example.params)
        object.__setattr__(self, "originals", sides["training"])
        object.__setattr__(self, "validation", sides["validation"])
        object.__setattr__(self, "train", [e for e in self.train if len(e) >= SHORTEST])
        object.__setattr__(self, "warnings", tuple(warnings))

    @property
    def frames(self) -> int:
        """Number of frames of the training clips, without copies."""
        return sum(map(len, self.originals))


def long_enough(source: str, side: str, examples: Sequence[Example]) -> list[Example]:
    """The clips that are long enough to train on.

    Raises:
        OptionError: there is none among them.
    """
    long = [example for example in examples if len(example) >= SHORTEST]
    if not long and examples:
        raise OptionError(
            f"{source}: none of its {len(examples)} {side} clips is as long as {SHORTEST} "
            f"frames ({SHORTEST / RATE:g} s), which the shortest context needs; record longer takes"
        )
    return long


def check_sides(
    source: str, training: AbstractSet[str], validation: AbstractSet[str], *, test: Iterable[str] = ()
) -> None:
    """Check that training and validation have different subjects.

    Args:
        source: name of the data in messages.
        training: subjects of the training clips.
        validation: subjects of the validation clips.
        test: subjects of the test clips.

    Raises:
        OptionError: there is only one subject, a side is empty, or a subject is on both sides.
    """
    subjects = training | validation | set(test)
    if len(subjects) == 1:
        raise OptionError(
            f"{source}: holds one subject only ({min(subjects)}); training needs another one to validate "
            "on: add a subject, or build the set with a --subject-from or --split-file that makes two"
        )
    if not training or not validation:
        side = "validation" if training else "training"
        raise OptionError(
            f"{source}: no {side} subject among {', '.join(sorted(subjects)) or 'nobody'}; build the set "
            "with a split that has one"
        )
    if training & validation:
        raise OptionError(
            f"{source}: subject {min(training & validation)} is on both sides, training and validation"
        )


def check_finite(source: str, clip: str, **columns: NDArray[np.float32]) -> None:
    """Check arrays (T, ...) of a clip.

    Raises:
        FormatError: a value is not finite; the message names clip, array and frame.
    """
    for name, rows in columns.items():
        # A sum is finite only if all its terms are: cheaper than an array of flags.
        if not np.isfinite(rows.sum(dtype=np.float64)):
            frame = int(np.flatnonzero(~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1))[0])
            raise FormatError(f"{source}: clip {clip}: {name} of frame {frame} are not finite")


def statistics(examples: Iterable[Example]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation (279,) of the features, in one pass; a constant column gets deviation 1."""
    count, mean, square = 0, np.zeros(1), np.zeros(1)
    for example in examples:
        rows = np.asarray(example.features, dtype=np.float64)
        # Combines means and squares of two parts (Chan, Golub and LeVeque).
        delta, total = rows.mean(axis=0) - mean, count + len(rows)
        square = square + ((rows - rows.mean(axis=0)) ** 2).sum(axis=0) + delta**2 * count * len(rows) / total
        mean, count = mean + delta * len(rows) / total, total
    std = np.sqrt(square / max(count, 1))
    return mean.astype(np.float32), np.where(std > FLAT, std, 1.0).astype(np.float32)


def change_scale(examples: Iterable[Example]) -> NDArray[np.float64]:
    """Mean change of each parameter within each horizon (8, 5): mean |y(t + h) - y(t)|, h at least 100 ms.

    Errors are weighted by its inverse, so that parameters that change little are learned as precisely.
    """
    steps = [max(horizon, HORIZONS[PREDICTED_FROM]) for horizon in HORIZONS]
    sums, counts = np.zeros((8, len(steps))), np.zeros(len(steps))
    for example in examples:
        rows = np.asarray(example.params, dtype=np.float64)
        for i, h in enumerate(steps):
            sums[:, i] += np.abs(rows[h:] - rows[:-h]).sum(axis=0)
            counts[i] += len(rows) - h
    return sums / counts


def error_weights(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights (8, 5) of the parameters' errors, with mean 1, from their changes ``scale``."""
    weights = 1.0 / (scale + MIN_CHANGE)
    return np.asarray(weights / weights.mean(), dtype=np.float64)


def training_data(
    options: MotionTrainOptions,
    console: Console | None = None,
    *,
    base: MotionSet | None = None,
    without: Sequence[str] = (),
) -> TrainingData:
    """The data of a run: a set and a set of augmented copies, both memory-mapped.

    A folder of takes is first built into a set in the cache folder, and copies are made there; unchanged
    results of earlier runs are reused.

    Args:
        options: ``data.path`` and which copies to make.
        console: for progress.
        base: the set, if it is already open.
        without: training subjects to validate on instead of the validation split; they are not trained on.

    Raises:
        OptionError: no path, a name in ``without`` that is not a training subject, or unusable data; see
            :class:`TrainingData`.
        FormatError: there is no motion, or a damaged set.
    """
    data = options.data
    recipe = recipe_of(data.recipe)
    quiet = console or Console(quiet=True)
    workers = data.build_workers or cores()
    base = base or base_set(options, quiet)
    train, digest = base.training(without), "-".join((base.digest, *without))
    originals = [base.example(number) for number in train]
    validation = [n for n in base.indices("train") if base.clips[n].subject in without]
    validation = validation if without else base.indices("validation")
    # Checked before copies are made, which takes a while.
    test = base.subjects("test")
    sides = ({base.clips[number].subject for number in side} for side in (train, validation))
    check_sides(data.path, *sides, test=test)
    long_enough(data.path, "training", originals)
    copies: list[Example] = []
    if data.copies:
        inputs: tuple[object, ...] = (base.digest, data.copies, data.copies_seed, recipe)
        if recipe.glitches is not None:  # recipes without glitches keep their old cache keys
            inputs = (*inputs, recipe.glitches)
        if without:
            inputs = (*inputs, sorted(without))
        key = hashlib.sha256(repr(inputs).encode()).hexdigest()
        cache = cache_folder(options)
        out = cache / f"copies-{key[:16]}"
        with (
            _cache_lock(cache, quiet),
            build_progress(
                f"{counted(data.copies, 'varied copy', 'varied copies')} of each clip", quiet
            ) as say,
        ):
            copies_set = augment(
                base,
                out,
                copies=data.copies,
                seed=data.copies_seed,
                recipe=recipe,
                without=without,
                workers=workers,
                on_progress=say,
            )
        copies, digest = copies_set.examples(), f"{digest}+{copies_set.digest}"
    return TrainingData(
        source=data.path,
        train=[*originals, *copies],
        originals=originals,
        validation=[base.example(number) for number in validation],
        digest=digest,
        test_subjects=tuple(test),
        warnings=base.warnings,
    )


def recipe_of(name: str) -> Recipe:
    """The recipe of copies with a built-in name or from a file.

    Raises:
        OptionError: neither a name nor a file.
        FormatError: the file is not a valid recipe.
    """
    if name.endswith(".toml") and not Path(name).exists():
        raise OptionError(f"option data.recipe: {name}: no such file; paths are relative to where it runs")
    if name not in RECIPES and not Path(name).exists():
        raise OptionError(
            f"option data.recipe: expected {', '.join(RECIPES)} or a TOML file, got {name!r}"
            f"{suggestion(name, tuple(RECIPES))}"
        )
    return RECIPES.get(name) or read_recipe(Path(name))


def base_set(options: MotionTrainOptions, console: Console | None = None) -> MotionSet:
    """Open the set at ``data.path``, or build one of the takes there; see :func:`training_data`."""
    data = options.data
    if not data.path:
        raise OptionError("option data.path: a set or a folder of takes is needed; give it with --data")
    path = Path(data.path)
    if not is_set(path):
        workers = data.build_workers or cores()
        path = _built(path, cache_folder(options), workers, console or Console(quiet=True))
    return MotionSet.open(path)


def _built(folder: Path, cache: Path, workers: int, console: Console) -> Path:
    """Build or update the set of a folder of takes in the cache; returns its folder."""
    folder = takes_folder(folder)
    key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    out = cache / f"set-{folder.resolve().name}-{key}"
    with _cache_lock(cache, console), build_progress(f"a set of the takes in {folder}", console) as say:
        report = build(folder, out, workers=workers, on_progress=say)
    console.print(f"{out}: {report.clips} clips, {report.frames} frames")
    return out


@contextmanager
def _cache_lock(cache: Path, console: Console) -> Iterator[None]:
    """Lock the cache folder: only one run at a time builds in it, others wait."""
    needs_guard()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "lock").open("a", encoding="utf-8")
    except OSError as error:
        raise DeviceError(f"{cache}: cannot be written ({reason(error)}); --cache names another") from None
    with lock as file:
        if try_lock(file.fileno()) is False:
            console.print(f"another run builds in {cache}; waiting for it ...")
            while try_lock(file.fileno()) is False:
                time.sleep(0.1)
        yield


def cache_folder(options: MotionTrainOptions) -> Path:
    """Folder of built sets: ``data.cache``, else the user's cache folder."""
    if options.data.cache:
        return Path(options.data.cache)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "pyanticip"
