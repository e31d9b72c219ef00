"""Runs a model over clips; errors summed per clip and averaged per subject; event scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import PARAMETERS
from training.data.batches import HORIZONS
from training.data.examples import Example
from training.tasks.motion.baselines import evaluated_frames

Array = NDArray[np.float64]
Predict = Callable[[Example], NDArray[np.float32]]

CHUNK: Final = 400
"""Frames per call of the model."""


@dataclass(frozen=True)
class Predictions:
    """Output of a model for every frame of a clip."""

    params: NDArray[np.float32]
    """(T, 8, 5)."""
    hazards: NDArray[np.float32]
    """(T, 2, 25) probabilities."""
    scalars: NDArray[np.float32]
    """(T, 7) scalars of the refined head."""
    gate: NDArray[np.float32]
    """(T,)."""


def run_model(model: MotionTransformer, example: Example) -> Predictions:
    """Run the model over a whole clip, as a stream in chunks."""
    model.eval()
    parts: list[tuple[torch.Tensor, ...]] = []
    with torch.no_grad():
        state = model.initial_state(1)
        for start in range(0, len(example), CHUNK):
            # A copy: the features of a set are a read-only memory map.
            rows = torch.from_numpy(np.array(example.features[start : start + CHUNK]))[None]
            out, state = model(rows, state)
            parts.append((out.params[0], torch.sigmoid(out.events[0]), out.scalars[0], out.gate[0]))
    columns = [torch.cat(column).numpy() for column in zip(*parts, strict=True)]
    return Predictions(*columns)


@dataclass(frozen=True)
class Errors:
    """Absolute errors of one predictor on a set of clips.

    ``sums`` (N, 8, 5), ``counts`` of frames (N, 5), and ``subjects`` (N,), by clip.
    """

    sums: Array
    counts: Array
    subjects: NDArray[np.str_]

    def mean(self, clips: NDArray[np.int64] | None = None) -> Array:
        """Mean absolute error (8, 5): per subject over frames, then over subjects.

        Args:
            clips: indices of clips, possibly repeated; all by default.
        """
        chosen = np.arange(len(self.sums)) if clips is None else clips
        names = self.subjects[chosen]
        rows = []
        for subject in np.unique(names):
            mine = chosen[names == subject]
            rows.append(self.sums[mine].sum(axis=0) / np.maximum(self.counts[mine].sum(axis=0), 1.0))
        return np.asarray(np.mean(rows, axis=0), dtype=np.float64)


def measure(examples: Sequence[Example], predict: Predict) -> Errors:
    """Errors of a function that predicts (T, 8, 5) for a clip. Clips that are too short are left out."""
    sums, counts, subjects = [], [], []
    for example in examples:
        predicted = predict(example)
        total = np.zeros((len(PARAMETERS), len(HORIZONS)))
        count = np.zeros(len(HORIZONS))
        for i, horizon in enumerate(HORIZONS):
            span = evaluated_frames(len(example), horizon)
            error = (
                predicted[span, :, i].astype(np.float64)
                - example.params[span.start + horizon : span.stop + horizon]
            )
            total[:, i] = np.abs(error).sum(axis=0)
            count[i] = len(error)
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
        """Share of hits among reported events; 0 if none was reported."""
        return self.hits / self.reported if self.reported else 0.0

    @property
    def recall(self) -> float:
        """Share of hits among true events; 0 if there is none."""
        return self.hits / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2.0 * self.precision * self.recall / both if both else 0.0
