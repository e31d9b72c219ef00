"""Heads of classes: from a projected frame to the probability of each label. Small models, NumPy only.

* ``logit``: multinomial logistic regression with a ridge penalty;
* ``vote``: the labels of the nearest frames of the takes, weighted by nearness.

Both are calibrated by a sharpness between 0 and 1, an inverse temperature that :func:`sharpness` finds on
held-out frames (temperature scaling: Guo et al., ICML 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from pyanticip.teach import heads
from pyanticip.teach.heads import Arrays

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_MAX_STEPS, _MAX_FRAMES = 60, 1500
_TOLERANCE = 1e-4
"""The fit of ``logit`` stops when no weight changes by more than this share of the largest."""
_MIN_VOTE = 0.01
"""Added to the vote for each label, so that none has probability 0."""

_SHARPNESS_GRID = np.geomspace(0.2, 1.0, 33)


def fit_classifier(kind: str, setting: float, u: F32, y: F64, weight: F64) -> Arrays:
    """The arrays of a head fitted to components (N, K), one-hot labels (N, n) and weights (N,) of sum 1.

    ``setting`` is the penalty of ``logit`` (times the mean variance of a component), or the number of
    neighbours of ``vote``. Labels have equal weight, however long each was shown.
    """
    weight = _balanced(y, weight)
    if kind == "logit":
        return _fit_logit(setting, u, y, weight)
    arrays = heads.fit_head("knn", setting, u, y, weight)
    # Frames of a label that was shown longer have more neighbours of their own: each vote weighs less.
    votes = arrays["values"].astype(np.float64)
    return arrays | {"values": (votes * _balanced(votes, np.ones(len(votes)))[:, None]).astype(np.float32)}


def _balanced(y: F64, weight: F64) -> F64:
    """Weights (N,) of the same sum that give every one-hot label (N, n) the same total."""
    label_weight = weight @ y
    balanced: F64 = (
        weight * (y @ (1.0 / np.maximum(label_weight, 1e-12))) * weight.sum() / (label_weight > 0).sum()
    )
    return balanced


def compile_classifier(kind: str, arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    """A head as a function from components (N, K) to probabilities (N, n)."""
    sharp = float(arrays["sharpness"][0]) if "sharpness" in arrays else 1.0
    if kind == "logit":
        slope, level = sharp * arrays["slope"], sharp * arrays["level"]

        def logit(u: F32) -> F32:
            z = heads.product(u, slope) + level
            e = np.exp(z - z.max(1, keepdims=True))
            probabilities: F32 = e / e.sum(1, keepdims=True)
            return probabilities

        return logit
    votes = heads.compile_head("knn", arrays)

    def vote(u: F32) -> F32:
        share = votes(u)
        share = share / np.maximum(share.sum(1, keepdims=True), 1e-9)
        return sharpened((share + _MIN_VOTE) / (1.0 + _MIN_VOTE * share.shape[1]), sharp)

    return vote


def sharpened(probabilities: F32, sharp: float) -> F32:
    """Probabilities (N, n) to the power of ``sharp``, normalised to sum to 1 again."""
    powers = probabilities**sharp
    normalised: F32 = powers / powers.sum(1, keepdims=True)
    return normalised


def sharpness(probabilities: F32, y: F64) -> float:
    """The sharpness for which probabilities (N, n) of held-out frames have the least log loss.

    At most 1: certainty on a few takes says nothing about others.
    """
    loss = [-np.log((sharpened(probabilities, s) * y).sum(1).clip(1e-9)).mean() for s in _SHARPNESS_GRID]
    return float(_SHARPNESS_GRID[int(np.argmin(loss))])


def _fit_logit(penalty: float, u: F32, y: F64, weight: F64) -> Arrays:
    """Uses a fixed bound on the curvature (Boehning, 1992): one factorisation, steps that never overshoot."""
    rows, weight = heads.subsample(weight, _MAX_FRAMES)
    data, y = u[rows].astype(np.float64), y[rows]
    mean = weight @ data
    centred = data - mean
    gram = 0.5 * centred.T @ (centred * weight[:, None])
    ridge = penalty * max(2.0 * float(np.trace(gram)) / len(gram), 1e-9)
    gram[np.diag_indices_from(gram)] += ridge
    inverse = np.linalg.inv(gram)
    slope, level = np.zeros((data.shape[1], y.shape[1])), np.log((weight @ y).clip(1e-3))
    # Accelerated by a momentum that grows over the steps (Nesterov).
    last_slope, last_level = slope, level
    for step in range(_MAX_STEPS):
        momentum = step / (step + 3.0)
        ahead = slope + momentum * (slope - last_slope)
        ahead_level = level + momentum * (level - last_level)
        z = centred @ ahead + ahead_level
        e = np.exp(z - z.max(1, keepdims=True))
        error = (e / e.sum(1, keepdims=True) - y) * weight[:, None]
        last_slope, last_level = slope, level
        slope = ahead - inverse @ (centred.T @ error + ridge * ahead)
        level = ahead_level - 2.0 * error.sum(0)
        if np.abs(slope - last_slope).max() < _TOLERANCE * (1e-9 + np.abs(slope).max()):
            break
    return {"slope": slope.astype(np.float32), "level": (level - mean @ slope).astype(np.float32)}
