"""Heads of values: from a projected frame to taught outputs in 0..1. Small models, NumPy only.

All of them see the same projection of a frame (:class:`Projection`): standardised, then rotated onto the
directions in which the takes differ most.

* ``ridge``: linear, least squares with a penalty. Needs few takes, extrapolates, and is predictable. Best
  where outputs follow the movement.
* ``knn``: the mean of the nearest frames of the takes, weighted by nearness. Never leaves the range of the
  takes; best for poses and movements that stand for fixed values.
* ``mlp``: one hidden layer of tanh units. Fits curves that ridge cannot; needs more takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Arrays = dict[str, F32]

_COMPONENTS = 96
"""Most components of the projection. Further ones hardly vary over a person's takes, and cost live time."""
_SPREAD_FLOOR = 0.5
"""Added (squared) to the variance of an input, whose size is about 1 over all kinds of movement: a few takes
cover little of that, and what was still in them must not be blown up."""

KNN_COMPONENTS = 32
"""Most components of a nearest-neighbour search."""
KNN_FRAMES = 1024
"""Most reference frames of a nearest-neighbour search, so that it takes some 50 us."""

_MLP_UNITS = 32
"""Units of the hidden layer."""
_MLP_FRAMES = 1200
"""Most frames that the network is trained on."""
_MLP_STEPS = 200
"""Updates, each on all of these frames."""
_MLP_RATE = np.float32(0.01)
"""Adam's rate, after a warm-up of 20 updates; a cosine to 0 follows."""


@dataclass(frozen=True)
class Projection:
    """``(x - mean) @ basis``: F inputs to K components (F, K), the largest first."""

    mean: F32
    basis: F32

    @classmethod
    def fit(cls, x: F32, weight: F64) -> Projection:
        """Fit to inputs (N, F) with weights (N,) that sum to 1."""
        data = x.astype(np.float64)
        mean = weight @ data
        spread = np.sqrt(weight @ (data - mean) ** 2 + _SPREAD_FLOOR**2)
        # The product in single precision: it takes a tenth of a second for a few thousand frames, per fold.
        single = ((data - mean) / spread * np.sqrt(weight)[:, None]).astype(np.float32)
        _, vectors = np.linalg.eigh((single.T @ single).astype(np.float64))
        basis = vectors[:, ::-1][:, : min(_COMPONENTS, len(x) - 1, data.shape[1])]
        # An eigenvector's sign is arbitrary: fix it, so that equal takes give equal files.
        basis = basis * np.where(basis[np.abs(basis).argmax(0), np.arange(basis.shape[1])] < 0, -1.0, 1.0)
        return cls(mean.astype(np.float32), (basis / spread[:, None]).astype(np.float32))

    def __call__(self, x: F32) -> F32:
        """Components (N, K) of inputs (N, F)."""
        return product(x - self.mean, self.basis)


def product(a: F32, b: F32) -> F32:
    """``a @ b``; a single row avoids BLAS, which may wake a thread pool and wait for it."""
    rows: F32 = np.einsum("k,km->m", a[0], b)[None] if len(a) == 1 else a @ b
    return rows


def _clip_unit(values: F32) -> F32:
    clipped: F32 = np.clip(values, 0.0, 1.0)
    return clipped


def subsample(weight: F64, most: int) -> tuple[npt.NDArray[np.int64], F64]:
    """Indices of at most ``most`` frames, at even steps through the cumulative weight so that short takes
    keep theirs; and their weights, of sum 1: how often each was drawn."""
    if len(weight) <= most:
        return np.arange(len(weight)), weight / weight.sum()
    steps = np.searchsorted(np.cumsum(weight) / weight.sum(), (np.arange(most) + 0.5) / most)
    indices, drawn = np.unique(steps.clip(0, len(weight) - 1), return_counts=True)
    return indices, drawn / drawn.sum()


def knn_settings(frames: int) -> tuple[int, ...]:
    """Numbers of neighbours to try for this many frames."""
    return tuple(k for k in (4, 16, 48) if k < frames) or (1,)


def fit_head(kind: str, setting: float, u: F32, y: F64, weight: F64) -> Arrays:
    """The arrays of a head fitted to components (N, K), targets (N, n) in 0..1 and weights (N,) of sum 1.

    ``setting`` is ridge's penalty (times the mean variance of a component), kNN's number of neighbours, or
    the MLP's weight decay.
    """
    return {"ridge": _fit_ridge, "knn": _fit_knn, "mlp": _fit_mlp}[kind](setting, u, y, weight)


def compile_head(kind: str, arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    """A head as a function from components (N, K) to values (N, n) in 0..1."""
    return {"ridge": _ridge, "knn": _knn, "mlp": _mlp}[kind](arrays)


def _fit_ridge(penalty: float, u: F32, y: F64, weight: F64) -> Arrays:
    data = u.astype(np.float64)
    mean, level = weight @ data, weight @ y
    centred = data - mean
    gram = centred.T @ (centred * weight[:, None])
    gram[np.diag_indices_from(gram)] += penalty * max(float(np.trace(gram)) / len(gram), 1e-9)
    slope = np.linalg.solve(gram, centred.T @ ((y - level) * weight[:, None]))
    return {"slope": slope.astype(np.float32), "level": (level - mean @ slope).astype(np.float32)}


def _ridge(arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    slope, level = arrays["slope"], arrays["level"]

    def apply(u: F32) -> F32:
        return _clip_unit(product(u, slope) + level)

    return apply


def _fit_knn(neighbours: float, u: F32, y: F64, weight: F64) -> Arrays:
    rows, _ = subsample(weight, KNN_FRAMES)
    points = np.ascontiguousarray(u[rows, :KNN_COMPONENTS])
    return {
        "places": points,
        "squares": np.einsum("nk,nk->n", points, points),
        "values": y[rows].astype(np.float32),
        "neighbours": np.array([min(neighbours, len(rows))], np.float32),
    }


def _knn(arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    points, squares, values = arrays["places"], arrays["squares"], arrays["values"]
    count, width = int(arrays["neighbours"][0]), points.shape[1]
    minus_twice = np.ascontiguousarray(-2.0 * points.T)

    def apply_one(x: F32) -> F32:
        """One frame (K,): few and small calls, because live each of them finds the caches cold."""
        partial = np.einsum("kp,k->p", minus_twice, x)
        partial += squares
        near = np.argpartition(partial, count - 1)[:count] if count < len(points) else np.arange(len(points))
        own_square = float(np.einsum("k,k->", x, x))
        distance = [max(d + own_square, 0.0) for d in partial[near].tolist()]
        softening = 0.1 * sum(distance) / count + 1e-9
        share = [1.0 / (d + softening) for d in distance]
        total = sum(share)
        mean: F32 = np.einsum("k,km->m", np.array([s / total for s in share], np.float32), values[near])
        return mean

    def apply(u: F32) -> F32:
        if len(u) == 1:
            return apply_one(u[0, :width])[None]
        x = u[:, :width]
        # Squared distances without the frame's own square, which does not change the choice: added after it.
        partial = squares + product(x, minus_twice)
        if count < len(points):
            near = np.argpartition(partial, count - 1, axis=1)[:, :count]
        else:
            near = np.broadcast_to(np.arange(len(points)), (len(u), len(points)))
        own_square = np.einsum("nk,nk->n", x, x)[:, None]
        distance = np.maximum(np.take_along_axis(partial, near, 1) + own_square, 0.0)
        # Shepard's weights, softened by a tenth of the mean: no jump where a point is hit exactly.
        share = 1.0 / (distance + 0.1 * distance.mean(1, keepdims=True) + 1e-9)
        share /= share.sum(1, keepdims=True)
        mean: F32 = np.einsum("nk,nkm->nm", share, values[near])
        return mean

    return apply


def _fit_mlp(decay: float, u: F32, y: F64, weight: F64) -> Arrays:
    """Full-batch Adam from a fixed seed: the same takes give the same head."""
    rows, _ = subsample(weight, _MLP_FRAMES)
    data, target = u[rows].astype(np.float64), y[rows].astype(np.float32)
    mean, scale = data.mean(0), float(data.std()) + 1e-9
    data = ((data - mean) / scale).astype(np.float32)
    random = np.random.default_rng(0)
    inputs, outputs = data.shape[1], target.shape[1]
    initial = (
        random.normal(0.0, inputs**-0.5, (inputs, _MLP_UNITS)),
        np.zeros(_MLP_UNITS),
        random.normal(0.0, 0.5 * _MLP_UNITS**-0.5, (_MLP_UNITS, outputs)),
        target.mean(0),
    )
    theta = [np.asarray(part, np.float32) for part in initial]
    first_moment = [np.zeros_like(t) for t in theta]
    second_moment = [np.zeros_like(t) for t in theta]
    for step in range(1, _MLP_STEPS + 1):
        hidden = np.tanh(data @ theta[0] + theta[1])
        error = 2.0 * (hidden @ theta[2] + theta[3] - target) / len(data)
        hidden_error = (error @ theta[2].T) * (1.0 - hidden * hidden)
        gradients = [
            data.T @ hidden_error + np.float32(decay) * theta[0],
            hidden_error.sum(0),
            hidden.T @ error + np.float32(decay) * theta[2],
            error.sum(0),
        ]
        rate = _MLP_RATE * np.float32(min(1.0, step / 20) * 0.5 * (1.0 + np.cos(np.pi * step / _MLP_STEPS)))
        for i, gradient in enumerate(gradients):
            first_moment[i] += np.float32(0.1) * (gradient - first_moment[i])
            second_moment[i] += np.float32(0.01) * (gradient * gradient - second_moment[i])
            rms = np.sqrt(second_moment[i] / np.float32(1.0 - 0.99**step)) + np.float32(1e-8)
            theta[i] = theta[i] - rate / np.float32(1.0 - 0.9**step) * first_moment[i] / rms
    enter = theta[0] / scale
    arrays: dict[str, Any] = {
        "enter": enter,
        "enter_bias": theta[1] - mean @ enter,
        "leave": theta[2],
        "leave_bias": theta[3],
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _mlp(arrays: Mapping[str, F32]) -> Callable[[F32], F32]:
    enter, enter_bias = arrays["enter"], arrays["enter_bias"]
    leave, leave_bias = arrays["leave"], arrays["leave_bias"]

    def apply(u: F32) -> F32:
        return _clip_unit(product(np.tanh(product(u, enter) + enter_bias), leave) + leave_bias)

    return apply
