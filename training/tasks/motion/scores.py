"""Errors on held-out motion: summed per clip, averaged per subject; hits and misses of events."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import EVENTS, PARAMETERS
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.tasks.motion.baselines import judged

Array = NDArray[np.float64]
Predict = Callable[[Example], NDArray[np.float32]]

CHUNK: Final = 400


@dataclass(frozen=True)
class Predictions:
    """What a model says about every frame of a clip."""

    params: NDArray[np.float32]
    """(T, 8, 5)."""
    hazards: NDArray[np.float32]
    """(T, 2, 25) probabilities."""
    scalars: NDArray[np.float32]
    """(T, 7) of the refined head."""
    gate: NDArray[np.float32]
    """(T,)."""


def run_model(model: MotionTransformer, example: Example) -> Predictions:
    """The model over a whole clip, as a stream in chunks."""
    model.eval()
    parts: list[tuple[torch.Tensor, ...]] = []
    with torch.no_grad():
        state = model.initial_state(1)
        for start in range(0, len(example), CHUNK):
            # A copy: the features of a set are a read-only map.
            rows = torch.from_numpy(np.array(example.features[start : start + CHUNK]))[None]
            out, state = model(rows, state)
            parts.append((out.params[0], torch.sigmoid(out.events[0]), out.scalars[0], out.gate[0]))
    columns = [torch.cat(column).numpy() for column in zip(*parts, strict=True)]
    return Predictions(*columns)


@dataclass(frozen=True)
class Errors:
    """Absolute errors of one predictor on a set of clips.

    ``sums`` (N, 8, 5) and ``counts`` (N, 5) per clip, ``subjects`` (N,) whose they are.
    """

    sums: Array
    counts: Array
    subjects: NDArray[np.str_]

    def mean(self, clips: NDArray[np.int64] | None = None) -> Array:
        """Mean absolute error (8, 5): per subject over frames, then over subjects.

        Args:
            clips: indices of clips (with repetitions, their order does not matter); all by default.
        """
        chosen = np.arange(len(self.sums)) if clips is None else clips
        names = self.subjects[chosen]
        rows = []
        for subject in np.unique(names):
            mine = chosen[names == subject]
            rows.append(self.sums[mine].sum(axis=0) / np.maximum(self.counts[mine].sum(axis=0), 1.0))
        return np.asarray(np.mean(rows, axis=0), dtype=np.float64)


def measure(examples: Sequence[Example], predict: Predict) -> Errors:
    """Errors of a predictor that gives (T, 8, 5) for a clip. Clips too short to judge are left out."""
    sums, counts, subjects = [], [], []
    for example in examples:
        said = predict(example)
        total = np.zeros((len(PARAMETERS), len(HORIZONS)))
        count = np.zeros(len(HORIZONS))
        for i, horizon in enumerate(HORIZONS):
            span = judged(len(example), horizon)
            wrong = (
                said[span, :, i].astype(np.float64)
                - example.params[span.start + horizon : span.stop + horizon]
            )
            total[:, i] = np.abs(wrong).sum(axis=0)
            count[i] = len(wrong)
        if count.min() > 0:
            sums.append(total)
            counts.append(count)
            subjects.append(example.subject)
    return Errors(np.array(sums), np.array(counts), np.array(subjects))


@dataclass(frozen=True)
class EventScore:
    """Hits and misses of one kind of event at one lead."""

    hits: int
    reported: int
    true: int

    @property
    def precision(self) -> float:
        """Hits among what was reported; 0 when nothing was."""
        return self.hits / self.reported if self.reported else 0.0

    @property
    def recall(self) -> float:
        """Hits among what there was; 0 when there was nothing."""
        return self.hits / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        both = self.precision + self.recall
        return 2.0 * self.precision * self.recall / both if both else 0.0


__all__ = [
    "EVENTS",
    "Errors",
    "EventScore",
    "Predictions",
    "measure",
    "run_model",
]
