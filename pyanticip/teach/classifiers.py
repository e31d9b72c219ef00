"""The heads of classes: from a projected frame to the probability of each label. Small, closed, NumPy alone.

* ``logit``: multinomial logistic regression with a ridge penalty;
* ``vote``: the labels of the nearest frames of the takes, nearer ones counting more.

Both say how sure they may be: a sharpness between 0 and 1 that :func:`sharpness` finds on frames that were
left out (temperature scaling: Guo et al., ICML 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from pyanticip.teach import heads
from pyanticip.teach.heads import Arrays

__all__ = ["compile_classifier", "fit_classifier", "sharpened", "sharpness"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_STEPS, _FRAMES, _CLOSE = 60, 1500, 1e-4
_LEAST = 0.01
"""What is left for a label that nobody votes for."""

_SHARPNESS = np.geomspace(0.2, 1.0, 33)


def fit_classifier(kind: str, setting: float, u: F32, y: F64, weight: F64) -> Arrays:
    """The arrays of a head, from components (N, K), labels (N, n) one-hot and weights (N,) summing to 1.

    ``setting`` is the penalty of ``logit`` (times the mean variance of a component), or how many neighbours
    ``vote``. Every label counts alike, however long it was shown.
    """
    weight = _alike(y, weight)
    if kind == "logit":
        return _fit_logit(setting, u, y, weight)
    arrays = heads.fit_head("knn", setting, u, y, weight)
    # A frame of a label that was shown longer has more of its own beside it: its vote weighs less.
    votes = arrays["values"].astype(np.float64)
    return arrays | {"values": (votes * _alike(votes, np.ones(len(votes)))[:, None]).astype(np.float32)}


def _alike(y: F64, weight: F64) -> F64:
    """Weights (N,) of the same sum by which labels (N, n) one-hot count alike."""
    shown = weight @ y
    each: F64 = weight * (y @ (1.0 / np.maximum(shown, 1e-12))) * weight.sum() / (shown > 0).sum()
    return each


def compile_classifier(kind: str, arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    """The function of a head: components (N, K) to probabilities (N, n)."""
    sharp = float(arrays["sharpness"][0]) if "sharpness" in arrays else 1.0
    if kind == "logit":
        slope, level = sharp * arrays["slope"], sharp * arrays["level"]

        def logit(u: F32) -> F32:
            z = heads.product(u, slope) + level
            e = np.exp(z - z.max(1, keepdims=True))
            chances: F32 = e / e.sum(1, keepdims=True)
            return chances

        return logit
    votes = heads.compile_head("knn", arrays)

    def vote(u: F32) -> F32:
        share = votes(u)
        share = share / np.maximum(share.sum(1, keepdims=True), 1e-9)
        return sharpened((share + _LEAST) / (1.0 + _LEAST * share.shape[1]), sharp)

    return vote


def sharpened(chances: F32, sharp: float) -> F32:
    """Probabilities (N, n) to the power of ``sharp``, summing to 1 again."""
    powered = chances**sharp
    whole: F32 = powered / powered.sum(1, keepdims=True)
    return whole


def sharpness(chances: F32, y: F64) -> float:
    """What makes probabilities (N, n) of frames that were left out least surprised by what they show.

    Never above 1: that a few takes leave nothing to doubt does not say that others will.
    """
    loss = [-np.log((sharpened(chances, s) * y).sum(1).clip(1e-9)).mean() for s in _SHARPNESS]
    return float(_SHARPNESS[int(np.argmin(loss))])


def _fit_logit(penalty: float, u: F32, y: F64, weight: F64) -> Arrays:
    """By a fixed bound on the curvature (Boehning, 1992): one factorisation, steps that never overshoot."""
    kept = heads.thinned(weight, _FRAMES)
    data, y = u[kept].astype(np.float64), y[kept]
    weight = heads.normal(weight, _FRAMES)
    middle = weight @ data
    centred = data - middle
    gram = 0.5 * centred.T @ (centred * weight[:, None])
    ridge = penalty * max(2.0 * float(np.trace(gram)) / len(gram), 1e-9)
    gram[np.diag_indices_from(gram)] += ridge
    inverse = np.linalg.inv(gram)
    slope, level = np.zeros((data.shape[1], y.shape[1])), np.log((weight @ y).clip(1e-3))
    # The same with a pull that grows over the steps (Nesterov).
    last, last_level = slope, level
    for step in range(_STEPS):
        pull = step / (step + 3.0)
        at, at_level = slope + pull * (slope - last), level + pull * (level - last_level)
        z = centred @ at + at_level
        e = np.exp(z - z.max(1, keepdims=True))
        error = (e / e.sum(1, keepdims=True) - y) * weight[:, None]
        last, last_level = slope, level
        slope = at - inverse @ (centred.T @ error + ridge * at)
        level = at_level - 2.0 * error.sum(0)
        if np.abs(slope - last).max() < _CLOSE * (1e-9 + np.abs(slope).max()):
            break
    return {"slope": slope.astype(np.float32), "level": (level - middle @ slope).astype(np.float32)}
