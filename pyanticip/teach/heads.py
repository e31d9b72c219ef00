"""The heads: from a projected frame to taught outputs in 0..1. Small, closed, NumPy alone.

All of them see the same projection of a frame (:class:`Projection`): standardised, then rotated onto the
directions in which the takes differ most.

* ``ridge``: linear, least squares with a penalty. Few takes are enough, it extrapolates, and it never
  surprises. Best where outputs follow the movement.
* ``knn``: the mean of the nearest frames of the takes, nearer ones counting more. Never leaves what was
  shown;
  best for poses and movements that mean fixed values.
* ``mlp``: one hidden layer of tanh units. Bends where ridge cannot; wants more takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Projection", "compile_head", "fit_head", "knn_settings", "normal", "product", "thinned"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Arrays = dict[str, F32]

COMPONENTS = 96
"""Of the projection. Beyond it the takes of a person hardly differ, and a live frame gets dearer."""

KNN_COMPONENTS, KNN_FRAMES = 32, 1024
"""What a nearest-neighbour search looks at, so that it stays within some 50 us."""

_MLP_UNITS, _MLP_FRAMES, _MLP_STEPS, _MLP_RATE = 32, 1200, 200, np.float32(0.01)


@dataclass(frozen=True)
class Projection:
    """``(x - mean) @ basis``: F inputs to K components (F, K), the largest first."""

    mean: F32
    basis: F32

    @classmethod
    def fit(cls, x: F32, weight: F64, floor: F64, components: int = COMPONENTS) -> Projection:
        """Of inputs (N, F) with weights (N,) that sum to 1; ``floor`` (F,) is added to the spread,
        squared."""
        data = x.astype(np.float64)
        mean = weight @ data
        spread = np.sqrt(weight @ (data - mean) ** 2 + floor**2)
        # The products in single precision: a tenth of a second each for a few thousand frames, and ten folds.
        single = ((data - mean) / spread * np.sqrt(weight)[:, None]).astype(np.float32)
        _, vectors = np.linalg.eigh((single.T @ single).astype(np.float64))
        kept = vectors[:, ::-1][:, : min(components, len(x) - 1, data.shape[1])]
        # The sign of an eigenvector is anybody's guess: fix it, so that equal takes give equal files.
        kept = kept * np.where(kept[np.abs(kept).argmax(0), np.arange(kept.shape[1])] < 0, -1.0, 1.0)
        return cls(mean.astype(np.float32), (kept / spread[:, None]).astype(np.float32))

    def __call__(self, x: F32) -> F32:
        """Components (N, K) of inputs (N, F)."""
        return product(x - self.mean, self.basis)


def product(a: F32, b: F32) -> F32:
    """``a @ b``; for a single row without BLAS, which may wake a thread pool for it and wait for the pool."""
    if len(a) == 1:
        alone: F32 = np.einsum("k,km->m", a[0], b)[None]
        return alone
    product: F32 = a @ b
    return product


def _unit(values: F32) -> F32:
    clipped: F32 = np.clip(values, 0.0, 1.0)
    return clipped


def thinned(weight: F64, most: int) -> npt.NDArray[np.int64]:
    """At most ``most`` frames' numbers, evenly through the weight: long takes do not push short ones out."""
    return np.arange(len(weight)) if len(weight) <= most else np.unique(_picked(weight, most))


def normal(weight: F64, most: int) -> F64:
    """Weights of the frames that :func:`thinned` keeps: how often each is met where there are more."""
    met = weight if len(weight) <= most else np.unique(_picked(weight, most), return_counts=True)[1]
    share: F64 = met / met.sum()
    return share


def _picked(weight: F64, most: int) -> npt.NDArray[np.int64]:
    """A frame's number at each of ``most`` even steps through the weight."""
    ends = np.cumsum(weight) / weight.sum()
    return np.searchsorted(ends, (np.arange(most) + 0.5) / most).clip(0, len(weight) - 1)


def knn_settings(frames: int) -> tuple[int, ...]:
    """How many neighbours are tried where there are so many frames."""
    return tuple(k for k in (4, 16, 48) if k < frames) or (1,)


def fit_head(kind: str, setting: float, u: F32, y: F64, weight: F64) -> Arrays:
    """The arrays of a head, from components (N, K), wanted values (N, n) in 0..1 and weights (N,) summing to
    1.

    ``setting`` is ridge's penalty (times the mean variance of a component), kNN's number of neighbours, or
    the MLP's weight decay.
    """
    return {"ridge": _fit_ridge, "knn": _fit_knn, "mlp": _fit_mlp}[kind](setting, u, y, weight)


def compile_head(kind: str, arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    """The function of a head: components (N, K) to values (N, n) in 0..1."""
    return {"ridge": _ridge, "knn": _knn, "mlp": _mlp}[kind](arrays)


def _fit_ridge(penalty: float, u: F32, y: F64, weight: F64) -> Arrays:
    data = u.astype(np.float64)
    middle, level = weight @ data, weight @ y
    centred = data - middle
    gram = centred.T @ (centred * weight[:, None])
    gram[np.diag_indices_from(gram)] += penalty * max(float(np.trace(gram)) / len(gram), 1e-9)
    slope = np.linalg.solve(gram, centred.T @ ((y - level) * weight[:, None]))
    return {"slope": slope.astype(np.float32), "level": (level - middle @ slope).astype(np.float32)}


def _ridge(arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    slope, level = arrays["slope"], arrays["level"]

    def apply(u: F32) -> F32:
        return _unit(product(u, slope) + level)

    return apply


def _fit_knn(neighbours: float, u: F32, y: F64, weight: F64) -> Arrays:
    kept = thinned(weight, KNN_FRAMES)
    places = np.ascontiguousarray(u[kept, :KNN_COMPONENTS])
    return {
        "places": places,
        "squares": np.einsum("nk,nk->n", places, places),
        "values": y[kept].astype(np.float32),
        "neighbours": np.array([min(neighbours, len(kept))], np.float32),
    }


def _knn(arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    places, squares, values = arrays["places"], arrays["squares"], arrays["values"]
    count, width = int(arrays["neighbours"][0]), places.shape[1]
    turned = np.ascontiguousarray(-2.0 * places.T)

    def alone(seen: F32) -> F32:
        """One frame (K,): few and small calls, because live each of them finds the caches cold."""
        away = np.einsum("kp,k->p", turned, seen)
        away += squares
        near = np.argpartition(away, count - 1)[:count] if count < len(places) else np.arange(len(places))
        own = float(np.einsum("k,k->", seen, seen))
        distance = [max(d + own, 0.0) for d in away[near].tolist()]
        soft = 0.1 * sum(distance) / count + 1e-9
        share = [1.0 / (d + soft) for d in distance]
        whole = sum(share)
        mixed: F32 = np.einsum("k,km->m", np.array([s / whole for s in share], np.float32), values[near])
        return mixed

    def apply(u: F32) -> F32:
        if len(u) == 1:
            return alone(u[0, :width])[None]
        seen = u[:, :width]
        # The frame's own square is the same for all places: added after the choice.
        away = squares + product(seen, turned)
        if count < len(places):
            near = np.argpartition(away, count - 1, axis=1)[:, :count]
        else:
            near = np.broadcast_to(np.arange(len(places)), (len(u), len(places)))
        own = np.einsum("nk,nk->n", seen, seen)[:, None]
        distance = np.maximum(np.take_along_axis(away, near, 1) + own, 0.0)
        # Shepard's weights, softened by a tenth of the mean: no jump where a place is hit exactly.
        share = 1.0 / (distance + 0.1 * distance.mean(1, keepdims=True) + 1e-9)
        share /= share.sum(1, keepdims=True)
        mixed: F32 = np.einsum("nk,nkm->nm", share, values[near])
        return mixed

    return apply


def _fit_mlp(decay: float, u: F32, y: F64, weight: F64) -> Arrays:
    """Full-batch Adam from a fixed start: the same takes give the same head."""
    kept = thinned(weight, _MLP_FRAMES)
    data, goal = u[kept].astype(np.float64), y[kept].astype(np.float32)
    middle, size = data.mean(0), float(data.std()) + 1e-9
    data = ((data - middle) / size).astype(np.float32)
    random = np.random.default_rng(0)
    inputs, outputs = data.shape[1], goal.shape[1]
    start = (
        random.normal(0.0, inputs**-0.5, (inputs, _MLP_UNITS)),
        np.zeros(_MLP_UNITS),
        random.normal(0.0, 0.5 * _MLP_UNITS**-0.5, (_MLP_UNITS, outputs)),
        goal.mean(0),
    )
    theta = [np.asarray(part, np.float32) for part in start]
    first = [np.zeros_like(t) for t in theta]
    second = [np.zeros_like(t) for t in theta]
    for step in range(1, _MLP_STEPS + 1):
        hidden = np.tanh(data @ theta[0] + theta[1])
        error = 2.0 * (hidden @ theta[2] + theta[3] - goal) / len(data)
        back = (error @ theta[2].T) * (1.0 - hidden * hidden)
        slopes = [
            data.T @ back + np.float32(decay) * theta[0],
            back.sum(0),
            hidden.T @ error + np.float32(decay) * theta[2],
            error.sum(0),
        ]
        rate = _MLP_RATE * np.float32(min(1.0, step / 20) * 0.5 * (1.0 + np.cos(np.pi * step / _MLP_STEPS)))
        for i, slope in enumerate(slopes):
            first[i] += np.float32(0.1) * (slope - first[i])
            second[i] += np.float32(0.01) * (slope * slope - second[i])
            size2 = np.sqrt(second[i] / np.float32(1.0 - 0.99**step)) + np.float32(1e-8)
            theta[i] = theta[i] - rate / np.float32(1.0 - 0.9**step) * first[i] / size2
    enter = theta[0] / size
    named: dict[str, Any] = {
        "enter": enter,
        "enter_bias": theta[1] - middle @ enter,
        "leave": theta[2],
        "leave_bias": theta[3],
    }
    return {name: array.astype(np.float32) for name, array in named.items()}


def _mlp(arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    enter, enter_bias = arrays["enter"], arrays["enter_bias"]
    leave, leave_bias = arrays["leave"], arrays["leave_bias"]

    def apply(u: F32) -> F32:
        return _unit(product(np.tanh(product(u, enter) + enter_bias), leave) + leave_bias)

    return apply
