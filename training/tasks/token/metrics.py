"""Metrics of token models on held-out sequences, computed from arrays of predictions.

A row of these arrays is a sequence. Position t of ``loss`` is the cross-entropy of token t + 1, predicted
after token t, and corresponds to position t of scalars and gate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import OptionError, ShapeError
from pyanticip.vocabulary import SCALARS
from training.report.statistics import Interval, interval_of, resample

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CONTEXTS: Final = (4, 8, 16, 32)
"""Context lengths at which perplexity is measured, besides the full one."""

MIN_STD: Final = 1e-9
"""Values with a smaller standard deviation count as constant, so that correlations are undefined."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of a model for every position of held-out sequences.

    ``loss`` (N, P) nats; ``right`` (N, P) whether the first choice was right; ``mask`` (N, P) positions that
    count; ``given``, ``scalars`` and ``initial`` (N, P, 7) the scalars given to the model and those of its
    refined and initial head; ``gate`` and ``share`` (N, P); ``confidence`` (N, P) probability of the first
    choice. None for what a model does not have.
    """

    loss: Array
    right: Mask
    mask: Mask
    given: Array | None = None
    scalars: Array | None = None
    initial: Array | None = None
    gate: Array | None = None
    share: Array | None = None
    confidence: Array | None = None

    def __post_init__(self) -> None:
        shape = self.loss.shape
        for name in ("right", "mask", "gate", "share", "confidence"):
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise ShapeError(f"{name}: expected shape {shape} as loss has, got {value.shape}")
        for name in ("given", "scalars", "initial"):
            value = getattr(self, name)
            if value is not None and value.shape != (*shape, 7):
                raise ShapeError(f"{name}: expected shape {(*shape, 7)}, got {value.shape}")
        if not self.mask.any():
            raise ShapeError("mask: no position counts")


def perplexity(loss: Array, mask: Mask, *, seed: int = 0) -> Interval:
    """``exp`` of the mean loss over the positions that count."""
    sums = np.stack([(loss * mask).sum(1), mask.sum(1)], 1)

    def ratio(total: Array) -> Array:
        return np.asarray(np.exp(total[..., 0] / total[..., 1]))

    return interval_of(sums, ratio, seed=seed)


def correlation(a: Array, b: Array, mask: Mask, *, seed: int = 0) -> Interval:
    """Pearson's correlation over the positions that count; NaN if either is constant."""
    masked_a, masked_b = a[mask], b[mask]
    if masked_a.std() < MIN_STD or masked_b.std() < MIN_STD:
        return Interval(float("nan"), float("nan"), float("nan"))
    # Centred first, so that sums of squares are accurate.
    x, y = np.where(mask, a - masked_a.mean(), 0.0), np.where(mask, b - masked_b.mean(), 0.0)
    sums = np.stack([v.sum(1) for v in (mask.astype(np.float64), x, y, x * x, y * y, x * y)], 1)

    def pearson(total: Array) -> Array:
        n, sx, sy, sxx, syy, sxy = np.moveaxis(total, -1, 0)
        return np.asarray((sxy - sx * sy / n) / np.sqrt((sxx - sx * sx / n) * (syy - sy * sy / n)))

    return interval_of(sums, pearson, seed=seed)


def scalar_errors(
    predicted: Array, given: Array, mask: Mask, mean: Array, *, seed: int = 0
) -> dict[str, Any]:
    """Mean squared error of each scalar, compared with predicting the mean of its position.

    Args:
        predicted, given: (N, P, 7).
        mask: (N, P).
        mean: (P, 7) mean over *training* sequences at each position.
    """
    if mean.shape != given.shape[1:]:
        raise ShapeError(f"mean: expected shape {given.shape[1:]}, got {mean.shape}")
    counts = mask.sum(1).astype(np.float64)
    report: dict[str, Any] = {}
    for k, name in enumerate(SCALARS):
        model_error = (np.square(predicted[..., k] - given[..., k]) * mask).sum(1)
        mean_error = (np.square(mean[:, k] - given[..., k]) * mask).sum(1)
        total = counts.sum()

        def ratio(sums: Array) -> Array:
            return np.asarray(sums[..., 0] / sums[..., 1])

        low, high = resample(np.stack([model_error, mean_error], 1), ratio, seed=seed)
        share = model_error.sum() / mean_error.sum() if mean_error.sum() > 0 else float("nan")
        report[name] = {
            "mse": round(float(model_error.sum() / total), 6),
            "position_mean_mse": round(float(mean_error.sum() / total), 6),
            "ratio": Interval(float(share), float(low), float(high)).to_dict(4),
        }
    return report


def heads(weight: Array, count: int) -> dict[str, Any]:
    """How different the scalars are that the heads of the trajectory bias use.

    Args:
        weight: (56, 7) weights of the first bias layer.
        count: number of heads H; head h owns rows ``h 56/H`` to ``(h + 1) 56/H``.

    Returns:
        ``profiles`` (H, 7), mean row of each head, L2-normalised; ``penalty``, sum over pairs of squared
        cosines, its minimum ``floor`` for H > 7, and the ``excess``; ``gram``, mean absolute cosine of a
        pair; ``dominant``, scalar of the largest absolute weight of each head; ``different``, number of
        distinct ones.
    """
    if weight.ndim != 2 or count < 1 or len(weight) % count:
        raise ShapeError(f"weight: expected (rows, scalars) with {count} equal heads, got {weight.shape}")
    rows = weight.reshape(count, -1, weight.shape[1]).mean(1)
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.maximum(norm, 1e-12)
    gram = unit @ unit.T
    off = gram[~np.eye(count, dtype=bool)]
    penalty = float(np.square(off).sum())
    floor = max(0.0, count * count / weight.shape[1] - count)
    dominant = [SCALARS[k] for k in np.abs(unit).argmax(1)]
    return {
        "profiles": np.round(unit, 5).tolist(),
        "penalty": round(penalty, 6),
        "floor": round(floor, 6),
        "excess": round(penalty - floor, 6),
        "gram": round(float(np.abs(off).mean()), 6) if len(off) else 0.0,
        "dominant": dominant,
        "different": len(set(dominant)),
    }


def spread(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean, standard deviation (n - 1) and range over the runs that have a value, and their number."""
    known = np.array([v for v in values if v is not None and np.isfinite(v)], dtype=np.float64)
    if not len(known):
        return {"runs": 0, "mean": None, "std": None, "min": None, "max": None}
    return {
        "runs": len(known),
        "mean": round(float(known.mean()), 6),
        "std": round(float(known.std(ddof=1)), 6) if len(known) > 1 else None,
        "min": round(float(known.min()), 6),
        "max": round(float(known.max()), 6),
    }


def selective(loss: Array, confidence: Array, mask: Mask, share: float = 0.5) -> float:
    """Mean loss of the ``share`` of positions with the highest confidence: the risk at that coverage.

    Raises:
        OptionError: the share is outside (0, 1].
    """
    if not 0.0 < share <= 1.0:
        raise OptionError(f"share must be above 0 and at most 1, got {share!r}")
    masked_loss, masked = loss[mask], confidence[mask]
    count = max(1, round(share * len(masked)))
    # Positions of equal confidence at the threshold contribute their mean loss, whatever their order.
    order = np.argsort(-masked, kind="stable")
    threshold = masked[order[count - 1]]
    above, equal = masked > threshold, masked == threshold
    rest = count - int(above.sum())
    return float((masked_loss[above].sum() + rest * masked_loss[equal].mean()) / count)


def calibration(right: Mask, confidence: Array, mask: Mask) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over 15 bins of equal width."""
    bins = 15
    masked, hits = confidence[mask], right[mask].astype(np.float64)
    index = np.clip((masked * bins).astype(np.int64), 0, bins - 1)
    gaps = np.abs(np.bincount(index, masked - hits, minlength=bins))
    return float(gaps.sum() / len(masked))
