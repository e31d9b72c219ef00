"""The scalars of vectors in NumPy, for ``bench bridge`` to compare with: the defaults only.

As fast as NumPy goes without giving up the definition: blocks of queries, matrix products, SciPy's distances,
partial sorts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

__all__ = ["vectorised"]

Array = npt.NDArray[np.float64]

WINDOW, K, EPS, M = 256, 8, 1e-9, 5
GRID = 1e-9
QUERIES = 64


def vectorised(x: npt.ArrayLike) -> Array:
    """The scalars of (B, L, d), (B, L, 7): blocks of queries at a time."""
    return np.stack([_sequence(one) for one in np.asarray(x, dtype=np.float64)])


def _sequence(x: Array) -> Array:
    length, dim = x.shape
    steps = np.diff(x, axis=0)
    norm = np.sqrt((steps * steps).sum(-1) + EPS * EPS)
    # One row of zeros more: where there is no neighbour.
    directions = np.concatenate([steps / norm[:, None], np.zeros((1, dim))])
    rests = np.append(EPS / norm, 0.0)
    spread, proximity, novelty = np.empty(length), np.empty(length), np.empty(length)
    for first in range(0, length, QUERIES):
        end = min(first + QUERIES, length)
        low = max(0, first - WINDOW + 1)
        states = x[low:end]
        age = np.arange(first, end)[:, None] - np.arange(low, end)
        inside = (age >= 0) & (age < WINDOW)
        count = inside.sum(-1)
        relative = states - x[first]
        mean = inside.astype(np.float64) @ relative / count[:, None]
        far = (relative * relative).sum(-1) - 2 * mean @ relative.T
        farthest = np.where(inside, far, -np.inf).argmax(-1)
        offset = np.linalg.norm(relative[first - low :] - mean, axis=-1)
        radius = np.maximum(np.linalg.norm(relative[farthest] - mean, axis=-1), offset) + EPS
        proximity[first:end] = offset / radius * np.minimum((count - 1) / 8, 1)

        distance = np.where(inside & (age > 0), cdist(x[first:end], states), np.inf)
        novelty[first:end] = np.minimum(distance.min(-1) / (2 * radius), 1)
        key = np.round(distance / (GRID * radius[:, None])) * 2.0**20 + age
        k = min(K, end - low)
        slot = np.argpartition(key, k - 1, axis=-1)[:, :k]
        known = np.isfinite(np.take_along_axis(key, slot, -1))
        row = np.where(known, slot + low, length - 1)
        total = directions[row].sum(1)
        n = known.sum(-1)
        square = (total * total).sum(-1) + rests[row].sum(-1) ** 2
        value = 1 - np.maximum((square - n) / np.maximum(n * (n - 1), 1), 0)
        spread[first:end] = np.where(n < 2, 1.0, (n * value + K - n) / K)
    return _together(x, spread, proximity, novelty)


def _together(x: Array, spread: Array, proximity: Array, novelty: Array) -> Array:
    """The seven from the three that look at the window and those that look at the last velocities."""
    length = len(x)
    t = np.arange(length)
    v = np.diff(x, axis=0, prepend=x[:1])
    speed = np.linalg.norm(v, axis=-1)
    path = np.convolve(speed, np.ones(M))[:length]
    got = np.linalg.norm(x - x[np.maximum(t - M, 0)], axis=-1)
    commitment = 0.4 * (1 - spread) + 0.3 * proximity + 0.3 * got / (path + M * EPS)
    pressure = np.append(0.0, np.diff(commitment) - np.diff(spread))

    phase, stability = np.full(length, 0.5), np.ones(length)
    moving = (t >= 2) & (speed > EPS) & (np.roll(speed, 1) > EPS)
    now, before = v[moving], v[np.flatnonzero(moving) - 1]
    phase[moving] += (now * before).sum(-1) / speed[moving] / speed[np.flatnonzero(moving) - 1] / 2
    jerk = np.linalg.norm(v[3:] - 2 * v[2:-1] + v[1:-2], axis=-1)
    bound = speed[3:] + 2 * speed[2:-1] + speed[1:-2]
    stability[3:] = np.where(bound > 4 * EPS, 1 - jerk / np.maximum(bound, 4 * EPS), 1.0)
    return np.stack([commitment, spread, pressure, 1 - proximity, phase, novelty, stability], axis=-1)
