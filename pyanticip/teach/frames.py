"""Training data of heads: the frames of takes in a row, their input blocks and targets; and novelty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.teach import heads
from pyanticip.teach.folds import (
    EMBARGO_FRAMES,
    Fold,
    folds,
    group_same_motion,
    same_motion,
    unmatched_takes,
)
from pyanticip.teach.heads import Projection
from pyanticip.teach.options import INPUT_BLOCKS, FitOptions
from pyanticip.vocabulary import RATE

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

BODY = 177
"""Width of the body block: the kinematics that the model computes from a feature row (joint positions and
velocities relative to the hips, heights, measures of movement). It describes the pose. The other block,
``hidden``, is the trunk's state after the last seconds; it describes the movement, for one checkpoint."""


def body(rows: F32) -> F32:
    """The body block (T, 177) of feature rows (T, 231 or 279), the same for every checkpoint.

    Raises:
        ShapeError: rows of another width.
    """
    return _core.body_kinematics(np.ascontiguousarray(rows, np.float32))


MAX_TRAIN_FRAMES = 3000
"""Most frames that a fold's head is trained on."""

NOVELTY_POINTS = 256
"""Most reference frames that novelty is measured from."""
_NOVELTY_QUANTILE = 0.95
"""Novelty is 1 at this quantile of the distances of held-out frames."""

WARMUP_FRAMES = 25
"""Frames at the start of a take without lead-in that are not trained on: the model saw nothing before."""


@dataclass(frozen=True)
class TakeData:
    """A take as training data: input blocks (total, width), its first training frame, targets in 0..1."""

    name: str
    blocks: Mapping[str, F32]
    begin: int
    targets: Mapping[str, F64]
    """Per output (total - begin,)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Per class the label it shows."""
    frame_ids: I64 | None = None
    """Its :func:`pyanticip.teach.folds.frame_ids` (total,); None: no other take is of the same recording."""


@dataclass(frozen=True)
class HeldOutPrediction:
    """Predictions of a head for frames of a take that it was not trained on.

    ``seconds`` (N,) into the take, ``targets`` and ``predicted`` (N, n) in 0..1.
    """

    take: str
    seconds: F64
    targets: F64
    predicted: F32


@dataclass(frozen=True)
class Part:
    """A fitted head for the outputs that the same takes demonstrate.

    ``label_of`` names the class whose labels the outputs are; empty: they are values. ``left_out`` are the
    predictions of cross-validation.
    """

    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    kind: str
    setting: float
    arrays: dict[str, F32]
    report: dict[str, Any] = field(default_factory=dict)
    label_of: str = ""
    left_out: Sequence[HeldOutPrediction] = ()


@dataclass(frozen=True)
class Frames:
    """The training frames of a group of takes in a row: inputs at t, targets ``lead`` frames later.

    Per take: its input blocks, the span of its input frames, targets (frames, n), name, first target frame,
    frame ids, and those of the frames before. Of all takes in a row: targets ``y`` (N, n) and weights
    ``weight`` (N,) of sum 1.
    """

    takes: tuple[Mapping[str, F32], ...]
    spans: tuple[tuple[int, int], ...]
    targets: tuple[F64, ...]
    y: F64
    weight: F64
    names: tuple[str, ...]
    begins: tuple[int, ...]
    frame_ids: tuple[I64, ...]
    ids_before: tuple[I64, ...]

    @classmethod
    def of(cls, takes: Sequence[TakeData], names: Sequence[str], lead: int) -> Frames:
        """The frames that teach these outputs ``lead`` frames ahead.

        Raises:
            OptionError: a take is too short for this lead.
        """
        spans, targets, weights, begins, frame_ids, ids_before = [], [], [], [], [], []
        for take in takes:
            y = np.stack([take.targets[name] for name in names], 1)
            skip = min(max(WARMUP_FRAMES - take.begin, 0), len(y) // 4)
            last = len(y) - lead
            if last < skip + 2:
                raise OptionError(
                    f"take {take.name}: {len(y)} frames too few to learn {20 * lead} ms ahead: record longer"
                )
            spans.append((take.begin + skip, take.begin + last))
            begins.append(skip + lead)
            ids = np.zeros(take.begin + len(y), np.int64) if take.frame_ids is None else take.frame_ids
            frame_ids.append(ids[take.begin + skip : take.begin + last])
            ids_before.append(ids[max(take.begin + skip - EMBARGO_FRAMES, 0) : take.begin + skip])
            targets.append(y[skip + lead :])
            # A long take weighs more than a short one, but less than in proportion to its length.
            weights.append(np.full(last - skip, (last - skip) ** -0.5))
        weight = np.concatenate(weights)
        return cls(
            tuple(take.blocks for take in takes),
            tuple(spans),
            tuple(targets),
            np.concatenate(targets),
            weight / weight.sum(),
            tuple(take.name for take in takes),
            tuple(begins),
            tuple(frame_ids),
            tuple(ids_before),
        )

    def make_folds(self) -> list[Fold]:
        """The folds of their cross-validation."""
        return folds(self.targets, self.frame_ids, self.ids_before)

    def summary(self, folds: Sequence[Fold]) -> dict[str, Any]:
        """Takes, number of frames and kind of cross-validation, as in a report."""
        blocks = {i for fold in folds if not fold.whole for i in fold.left_out}
        groups = group_same_motion(self.frame_ids)
        unmatched = unmatched_takes(self.targets, groups)
        return {
            "takes": list(self.names),
            "frames": len(self.y),
            "judged_by_blocks": [self.names[i] for i in unmatched if i in blocks],
            "not_judged": [self.names[i] for i in unmatched if i not in blocks],
            "same_motion": same_motion(self.names, groups),
        }

    def left_out(self, folds: Sequence[Fold], predictions: Sequence[F32]) -> list[HeldOutPrediction]:
        """The predictions (N, n) for each fold's test sample, one element per fold and take."""
        edges = np.cumsum([0, *map(len, self.targets)])
        held_out = []
        for fold, predicted in zip(folds, predictions, strict=True):
            take_of = np.searchsorted(edges, fold.test_sample, "right") - 1
            for i in np.unique(take_of).tolist():
                mine = fold.test_sample[take_of == i]
                seconds = (mine - edges[i] + self.begins[i]) / RATE
                held_out.append(
                    HeldOutPrediction(self.names[i], seconds, self.y[mine], predicted[take_of == i])
                )
        return held_out

    def inputs(self, blocks: tuple[str, ...]) -> F32:
        """The inputs (N, F) of these blocks."""
        rows = [
            np.concatenate([take[b][low:high] for b in blocks], 1)
            for take, (low, high) in zip(self.takes, self.spans, strict=True)
        ]
        return np.concatenate(rows)


class Candidate(NamedTuple):
    """A head to try: its input blocks, kind and setting."""

    inputs: tuple[str, ...]
    kind: str
    setting: float


def input_choices(takes: Sequence[TakeData], options: FitOptions) -> list[tuple[str, ...]]:
    """The combinations of input blocks to try.

    Raises:
        OptionError: the options name a block that the takes lack.
    """
    available = tuple(b for b in INPUT_BLOCKS if all(b in take.blocks for take in takes))
    if options.blocks is not None:
        missing = [b for b in options.blocks if b not in available]
        if missing:
            raise OptionError(f"inputs: {missing[0]!r} needs a model that tells its hidden state")
        return [options.blocks]
    return [available, ("body",)] if len(available) > 1 else [available]


Fit = Callable[[str, float, F32, F64, F64], heads.Arrays]
"""Fits a kind of head with its setting: see :func:`pyanticip.teach.heads.fit_head`."""


def fit_candidate(
    chosen: Candidate, x: F32, frames: Frames, indices: I64, most: int, fit: Fit
) -> tuple[Projection, heads.Arrays]:
    """Projection and head fitted to at most ``most`` of the frames with these indices, of inputs ``x``."""
    sample, weight = heads.subsample(frames.weight[indices], most)
    rows = indices[sample]
    projection = Projection.fit(x[rows], weight)
    return projection, fit(chosen.kind, chosen.setting, projection(x[rows]), frames.y[rows], weight)


def fold_predictions(
    fold: Fold,
    candidates: Sequence[Candidate],
    x: Mapping[tuple[str, ...], F32],
    frames: Frames,
    fit: Fit,
    compiled: Callable[[str, heads.Arrays], Callable[[F32], F32]],
) -> list[F32]:
    """Predictions (N, n) of each candidate for the fold's test sample."""
    sample, weight = heads.subsample(frames.weight[fold.train], MAX_TRAIN_FRAMES)
    train = fold.train[sample]
    predictions = []
    projected: dict[tuple[str, ...], tuple[F32, F32]] = {}
    for inputs, kind, setting in candidates:
        if inputs not in projected:
            data = x[inputs]
            projection = Projection.fit(data[train], weight)
            projected[inputs] = projection(data[train]), projection(data[fold.test_sample])
        train_u, test_u = projected[inputs]
        predictions.append(compiled(kind, fit(kind, setting, train_u, frames.y[train], weight))(test_u))
    return predictions


def novelty_arrays(folds: Sequence[Fold], projection: Projection, x: F32, weight: F64) -> heads.Arrays:
    """The arrays that novelty is measured by: reference frames, and the distance of held-out frames."""
    # All components, standardised: what is new may lie where the takes hardly differ.
    u = projection(x)
    distances: list[F64] = []
    for fold in folds:
        train = fold.train[heads.subsample(weight[fold.train], NOVELTY_POINTS)[0]]
        distances.append(nearest(u[fold.test_sample], u[train]))
    level = float(np.quantile(np.concatenate(distances), _NOVELTY_QUANTILE)) if distances else 1.0
    points = u[heads.subsample(weight, NOVELTY_POINTS)[0]]
    return {
        "near_places": np.ascontiguousarray(points),
        "near_scale": np.ones(u.shape[1], np.float32),
        "near_level": np.array([max(level, 1e-3)], np.float32),
    }


def nearest(u: F32, points: F32) -> F64:
    """Distance of each of ``u`` (N, r) from the nearest of the points (c, r)."""
    squares = (u**2).sum(1)[:, None] + (points**2).sum(1) - 2.0 * (u @ points.T)
    distance: F64 = np.sqrt(np.maximum(squares.min(1), 0.0)).astype(np.float64)
    return distance


def best_elsewhere(scores: F64, fold: int) -> int:
    """The candidate with the least mean score (folds, candidates) over the *other* folds."""
    others = np.delete(scores, fold, 0)
    return int((others if len(others) else scores).mean(0).argmin())
