"""What takes show, as heads learn it: their frames in a row, and how far from all of them a frame is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.teach import heads
from pyanticip.teach.folds import Fold, alone, same_motion, together
from pyanticip.teach.heads import Projection
from pyanticip.teach.options import BLOCKS, FitOptions
from pyanticip.vocabulary import RATE

__all__ = [
    "BODY",
    "LEARN",
    "SCALES",
    "Candidate",
    "Frames",
    "HeldOutPrediction",
    "Part",
    "TakeData",
    "body",
    "floor",
    "input_choices",
    "judged",
    "nearest",
    "novelty_arrays",
    "picked",
]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

BODY = 177
"""Width of the body block: the model's own kinematics of a feature row, positions and velocities of the
joints seen from the hips, heights, and what movement is measured by; they know the pose. The other block,
``hidden``, is what the trunk makes of the last seconds; it knows the movement, for one checkpoint."""

SCALES = {"body": 1.0, "hidden": 1.0}
"""Typical size of a block's values over all kinds of movement. A few takes show little of it: a value that
stood still in them must not be blown up, so half of this is added (squared) to what the takes show."""


def body(rows: F32) -> F32:
    """The body block (T, 177) of feature rows (T, 231 or 279), on the canonical body: the same
    for every checkpoint.

    Raises:
        ShapeError: other rows.
    """
    return _core.body_kinematics(np.ascontiguousarray(rows, np.float32))


LEARN = 3000
"""Frames that a fold's head learns from at most."""

_NEAR_PLACES, _NEAR_LEVEL = 256, 0.95

SETTLE = 25
"""Frames at the start of a take without lead-in that are not learnt: the model has seen nothing before
them."""


@dataclass(frozen=True)
class TakeData:
    """A take as heads see it: input blocks (total, width), where learning begins, wanted values in 0..1."""

    name: str
    blocks: Mapping[str, F32]
    begin: int
    wanted: Mapping[str, F64]
    """Per output (total - begin,)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Per class what it shows."""
    seen: I64 | None = None
    """What tells its frames (total,) from those of other recordings; None: it is of none of theirs."""


@dataclass(frozen=True)
class HeldOutPrediction:
    """What a head said of frames of a take that it had not learnt.

    ``seconds`` (N,) into the take, ``wanted`` and ``predicted`` (N, n) in 0..1.
    """

    take: str
    seconds: F64
    wanted: F64
    predicted: F32


@dataclass(frozen=True)
class Part:
    """A fitted head for the outputs that the same takes demonstrate.

    ``label_of`` names the class whose labels the outputs are; empty: they are values. ``left_out`` is what
    was said in cross-validation.
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
    """The frames of a group of takes in a row: inputs at t, what is wanted ``lead`` frames later."""

    takes: tuple[Mapping[str, F32], ...]
    spans: tuple[tuple[int, int], ...]
    wanted: tuple[F64, ...]
    y: F64
    weight: F64
    names: tuple[str, ...]
    begins: tuple[int, ...]
    seen: tuple[I64, ...]

    @classmethod
    def of(cls, takes: Sequence[TakeData], names: Sequence[str], lead: int) -> Frames:
        """The frames that teach these outputs ``lead`` frames ahead. Raises OptionError."""
        spans, wanted, weights, begins, seen = [], [], [], [], []
        for take in takes:
            y = np.stack([take.wanted[name] for name in names], 1)
            skip = min(max(SETTLE - take.begin, 0), len(y) // 4)
            last = len(y) - lead
            if last < skip + 2:
                raise OptionError(
                    f"take {take.name}: {len(y)} frames too few to learn {20 * lead} ms ahead: record longer"
                )
            spans.append((take.begin + skip, take.begin + last))
            begins.append(skip + lead)
            ids = np.zeros(take.begin + len(y), np.int64) if take.seen is None else take.seen
            seen.append(ids[take.begin + skip : take.begin + last])
            wanted.append(y[skip + lead :])
            # A long take says more than a short one, but not as many times more as it is longer.
            weights.append(np.full(last - skip, (last - skip) ** -0.5))
        weight = np.concatenate(weights)
        return cls(
            tuple(take.blocks for take in takes),
            tuple(spans),
            tuple(wanted),
            np.concatenate(wanted),
            weight / weight.sum(),
            tuple(take.name for take in takes),
            tuple(begins),
            tuple(seen),
        )

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The takes by number, those of the same motion together."""
        return together(self.seen)

    def summary(self, made: Sequence[Fold]) -> dict[str, Any]:
        """How many these are and how they were judged, as a report has it."""
        blocks = {i for fold in made if not fold.whole for i in fold.left_out}
        groups = self.groups
        single = alone(self.wanted, groups)
        return {
            "takes": list(self.names),
            "frames": len(self.y),
            "judged_by_blocks": [self.names[i] for i in single if i in blocks],
            "not_judged": [self.names[i] for i in single if i not in blocks],
            "same_motion": same_motion(self.names, groups),
        }

    def left_out(self, judged: I64, predicted: F32) -> list[HeldOutPrediction]:
        """What was said (N, n) of frames with these numbers, take by take."""
        edges = np.cumsum([0, *map(len, self.wanted)])
        whose = np.searchsorted(edges, judged, "right") - 1
        found = []
        for i in np.unique(whose).tolist():
            mine = judged[whose == i]
            seconds = (mine - edges[i] + self.begins[i]) / RATE
            found.append(HeldOutPrediction(self.names[i], seconds, self.y[mine], predicted[whose == i]))
        return found

    def inputs(self, blocks: tuple[str, ...]) -> F32:
        """(N, F) float32."""
        rows = [
            np.concatenate([take[b][low:high] for b in blocks], 1)
            for take, (low, high) in zip(self.takes, self.spans, strict=True)
        ]
        return np.concatenate(rows)


class Candidate(NamedTuple):
    """A head that is tried: the blocks of inputs that it sees, its kind and its setting."""

    inputs: tuple[str, ...]
    kind: str
    setting: float


def input_choices(takes: Sequence[TakeData], options: FitOptions) -> list[tuple[str, ...]]:
    """The blocks of inputs that are tried. Raises OptionError."""
    there = tuple(b for b in BLOCKS if all(b in take.blocks for take in takes))
    if options.blocks is not None:
        lacking = [b for b in options.blocks if b not in there]
        if lacking:
            raise OptionError(f"inputs: {lacking[0]!r} needs a model that tells its hidden state")
        return [options.blocks]
    return [there, ("body",)] if len(there) > 1 else [there]


def floor(inputs: Sequence[str], width: int) -> F64:
    """What is added to the spread of each input."""
    widths = {"body": BODY, "hidden": width - (BODY if "body" in inputs else 0)}
    return np.concatenate([np.full(widths[b], 0.5 * SCALES[b]) for b in inputs])


def judged(
    fold: Fold,
    candidates: Sequence[Candidate],
    x: Mapping[tuple[str, ...], F32],
    frames: Frames,
    fit: Callable[[str, float, F32, F64, F64], heads.Arrays],
    compiled: Callable[[str, heads.Arrays], Callable[[F32], F32]],
) -> list[F32]:
    """What each candidate says (N, n) of the frames left out."""
    learn = fold.learn[heads.thinned(frames.weight[fold.learn], LEARN)]
    weight = heads.normal(frames.weight[fold.learn], LEARN)
    predictions = []
    projected: dict[tuple[str, ...], tuple[F32, F32]] = {}
    for inputs, kind, setting in candidates:
        if inputs not in projected:
            data = x[inputs]
            made = Projection.fit(data[learn], weight, floor(inputs, data.shape[1]))
            projected[inputs] = made(data[learn]), made(data[fold.judged])
        known, new = projected[inputs]
        predictions.append(compiled(kind, fit(kind, setting, known, frames.y[learn], weight))(new))
    return predictions


def novelty_arrays(made: Sequence[Fold], projection: Projection, x: F32, weight: F64) -> heads.Arrays:
    """What novelty is measured by: places of the takes, and how far away a take that was left out is."""
    # All components, by their standardised size: what is new lies where the takes hardly differ.
    u = projection(x)
    away: list[F64] = []
    for fold in made:
        learn = fold.learn[heads.thinned(weight[fold.learn], _NEAR_PLACES)]
        away.append(nearest(u[fold.judged], u[learn]))
    level = float(np.quantile(np.concatenate(away), _NEAR_LEVEL)) if away else 1.0
    places = u[heads.thinned(weight, _NEAR_PLACES)]
    return {
        "near_places": np.ascontiguousarray(places),
        "near_scale": np.ones(u.shape[1], np.float32),
        "near_level": np.array([max(level, 1e-3)], np.float32),
    }


def nearest(u: F32, places: F32) -> F64:
    """How far each of ``u`` (N, r) is from the nearest of the places (c, r)."""
    squares = (u**2).sum(1)[:, None] + (places**2).sum(1) - 2.0 * (u @ places.T)
    found: F64 = np.sqrt(np.maximum(squares.min(1), 0.0)).astype(np.float64)
    return found


def picked(scores: F64, fold: int) -> int:
    """The candidate that the other folds would have chosen, of scores (folds, candidates): least is best."""
    others = np.delete(scores, fold, 0)
    return int((others if len(others) else scores).mean(0).argmin())
