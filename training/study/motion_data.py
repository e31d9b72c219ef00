"""The motion that all runs of a study learn from and are judged on, and what costs nothing to predict."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import EVENT_BINS, EVENTS, SCALAR_COLUMNS
from training.data.batches import event_targets
from training.data.examples import Example, Split
from training.data.sets.pool import needs_guard
from training.tasks.motion.baselines import RIVALS_FILE, Rivals, predict
from training.tasks.motion.data import TrainingData, base_set, cache_folder, training_data
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.scores import Said, measure
from training.tasks.motion.validation import in_memory

SPLITS: Final[tuple[Split, ...]] = ("validation", "test")
"""The sides that are judged; nothing is chosen on the second."""

COPY_SEED: Final = 0
"""Of the varied copies: they are the same for every seed of a study, as a file is."""


@dataclass(frozen=True)
class MotionData:
    """Everything that runs share."""

    training: TrainingData
    """The training subjects' clips and their varied copies; the validation subjects' clips."""
    held_out: dict[Split, list[Example]]
    digest: str
    """SHA-256 of all features and targets."""
    reference: dict[str, Any]
    """By split and subject, as :func:`training.study.motion_scores.judge` has it for a model: ``error`` of
    the held causal twin, ``event_nll`` of a constant rate and ``scalar_error`` of the training mean."""
    roots: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    """(T, 3) metres, by the name of a clip that is no copy."""


@lru_cache(maxsize=1)
def load(data: Path, copies: int, cache: Path | None = None, recipe: str = "clean") -> MotionData:
    """Read a set, or a folder of takes.

    Args:
        data: a set made by ``train data build``, or a folder of takes.
        copies: varied copies of every clip.
        cache: folder for what is made on the way.
        recipe: how copies are made, as ``data.recipe`` has it.

    Raises:
        FormatError: no usable motion of a side of the split.
        OptionError: motion that nothing can be learned from.
    """
    options = MotionTrainOptions().but(
        data={
            "path": data,
            "copies": copies,
            "copies_seed": COPY_SEED,
            "recipe": recipe,
            "cache": cache or "",
            "build_workers": 1,
        }
    )
    with _in_turn(cache_folder(options)):
        training = training_data(options)
        base = base_set(options)
        test = base.examples("test")
    held_out: dict[Split, list[Example]] = {
        "validation": [in_memory(example) for example in training.validation],
        "test": [in_memory(example) for example in test],
    }
    everything = [*training.train, *(example for clips in held_out.values() for example in clips)]
    roots = {clip.name: np.array(base.piece(number).root) for number, clip in enumerate(base.clips)}
    found = reference(training.bare, held_out)
    return MotionData(training, held_out, digest(everything), found, roots)


@contextmanager
def _in_turn(folder: Path) -> Iterator[None]:
    """Processes that look into a cache one after the other: the first makes what the others then find."""
    needs_guard()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "in-use").open("a", encoding="utf-8") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except ImportError:  # no such locks here: a second process may be told to wait, and try again
            pass
        yield


def digest(examples: Iterable[Example]) -> str:
    """SHA-256 over what is seen and taught."""
    found = hashlib.sha256()
    for example in examples:
        found.update(example.name.encode())
        for array in (example.features, example.params, example.onsets, example.phrases):
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def reference(training: Sequence[Example], held_out: dict[Split, list[Example]]) -> dict[str, Any]:
    """What predictors that learn next to nothing get, in the form of a model's scores."""
    from training.study.motion_scores import by_subject

    hold = Rivals.load(RIVALS_FILE).hold
    low, high = SCALAR_COLUMNS
    rows = np.concatenate([example.features[:, low:high] for example in training])
    rates = base_rates(training)

    def said(example: Example) -> Said:
        frames = len(example)
        return Said(
            predict(example, hold),
            np.broadcast_to(rates[:, None], (frames, len(EVENTS), EVENT_BINS)).astype(np.float32),
            np.broadcast_to(rows.mean(axis=0), (frames, high - low)).astype(np.float32),
            np.ones(frames, dtype=np.float32),
        )

    return {
        split: by_subject(clips, [said(e) for e in clips], measure(clips, lambda e: predict(e, hold)))
        for split, clips in held_out.items()
    }


def base_rates(examples: Sequence[Example]) -> NDArray[np.float64]:
    """The constant hazard of each kind of event that fits the examples best: hits over bins at risk."""
    hits, risked = np.zeros(len(EVENTS)), np.zeros(len(EVENTS))
    for example in examples:
        for kind, events in enumerate((example.onsets, example.phrases)):
            bins, seen = event_targets(events, len(example))
            hits[kind] += (bins < seen).sum()
            risked[kind] += np.minimum(bins + 1, seen).sum()
    return np.asarray(hits / np.maximum(risked, 1.0))
