"""How several performers stand to each other: together or not, who leads, how far apart.

What is compared is how fast each joint turns, so bodies of any size and suits of any axes compare. Of the
past alone: everything is forgotten exponentially, and every step costs the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pyanticip.vocabulary import CANONICAL_JOINTS, RATE

__all__ = ["LONGEST_LAG", "Ensemble", "Together"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

LONGEST_LAG = 1.0
"""Seconds: nobody is taken to lead by more."""

_JOINTS = len(CANONICAL_JOINTS)
_LAGS = round(LONGEST_LAG * RATE)
# Time constants, seconds: forgetting so weighs as a window of twice the length does.
_UNISON, _LEADING, _SMOOTHED = 1.0, 2.0, 0.06
# Who was not heard for so many steps is not there.
_GONE = 25
# Variance, summed over the joints, that suits have of themselves: who stands still is with nobody.
_NOISE = _JOINTS * 0.02**2
# Of lags that fit as well, as in a walk, the shorter one: the longest counts so much less.
_FAR = 0.1
# So alike are strangers at their best lag; who leads by less than this is not told from unison.
_CHANCE, _LEAST_LAG = 0.3, 0.5


class Together(NamedTuple):
    """One step of an ensemble.

    ``synchrony`` 0..1: how alike the speeds of the joints rose and fell in the last 2 s, mean of all pairs;
    ``leader`` (-1: nobody) is ``lag_ms`` ahead of the others on average, with ``trust`` 0..1, by the last
    4 s; ``distance`` is the mean of all pairs in metres (-1: where they are is not known), ``posture``
    likewise the angle between their joints in radians, whichever way they face.
    """

    synchrony: float = 0.0
    leader: int = -1
    lag_ms: float = 0.0
    trust: float = 0.0
    distance: float = -1.0
    posture: float = 0.0


class _Moments:
    """Running means of speeds x and of their products at lags of 0 to ``lags`` steps."""

    def __init__(self, performers: int, lags: int, seconds: float) -> None:
        n, d = performers, lags + 1
        self._keep = float(np.exp(-1.0 / (seconds * RATE)))
        # The newest first; what is d steps old is the last.
        self._x = np.zeros((n, d, _JOINTS))
        self._mean = np.zeros((n, d, _JOINTS))
        self._square = np.zeros((n, d))
        self._product = np.zeros((n, n, d))

    def begin(self, who: int, x: F64) -> None:
        """As if one performer had always moved as now: nobody is like them by coming."""
        self._x[who] = self._mean[who] = x[who]
        self._square[who] = x[who] @ x[who]
        self._product[who] = self._mean @ x[who]
        self._product[:, who] = (self._mean[:, 0] @ x[who])[:, None]
        self._product[who, who] = x[who] @ x[who]

    def push(self, x: F64) -> None:
        """One step of everybody's speeds (n, joints)."""
        keep, new = self._keep, 1.0 - self._keep
        for held in (self._x, self._mean, self._square):
            held[:, 1:] = held[:, :-1].copy()
        self._x[:, 0] = x
        self._mean[:, 0] += new * (x - self._mean[:, 0])
        self._square[:, 0] += new * ((x * x).sum(1) - self._square[:, 0])
        n, d = self._square.shape
        products = (self._x.reshape(n * d, _JOINTS) @ x.T).reshape(n, d, n)
        self._product *= keep
        self._product += new * products.transpose(2, 0, 1)

    def correlation(self, i: npt.NDArray[np.intp], k: npt.NDArray[np.intp]) -> F64:
        """How i now is like k so many steps ago: (pairs, lags + 1), all joints taken together."""
        variance = np.maximum(self._square - (self._mean * self._mean).sum(2), 0.0) + _NOISE
        both = self._product[i, k] - np.einsum("pj,pdj->pd", self._mean[i, 0], self._mean[k])
        found: F64 = both / np.sqrt(variance[i, 0][:, None] * variance[k])
        return found


class Ensemble:
    """So many performers, one step every 20 ms.

    ``hear`` what each one's body does as it comes, then ``step`` once for all.
    """

    def __init__(self, performers: int) -> None:
        n = performers
        self._poses = np.zeros((n, _JOINTS, 4), np.float32)
        self._roots = np.zeros((n, 3), np.float32)
        self._numbers = [0] * n
        self._silent = np.full(n, _GONE + 1)
        self._fresh = np.ones(n, np.bool_)
        self._speed = np.zeros((n, _JOINTS))
        self._smooth = np.zeros((n, _JOINTS))
        self._unison = _Moments(n, 0, _UNISON)
        self._leading = _Moments(n, _LAGS, _LEADING)
        self._steps = np.zeros(n, np.int64)

    def hear(self, who: int, number: int, pose: F32, root: F32) -> None:
        """A frame of one performer: its ``number`` on their 50 Hz grid, pose (22, 4), place of the hips (3,).

        A place of zeros is none.
        """
        passed = number - self._numbers[who]
        if self._silent[who] > _GONE or passed <= 0:
            self._fresh[who] = True
            self._speed[who] = 0.0
        else:
            before = self._poses[who]
            chord = np.minimum(np.linalg.norm(pose - before, axis=1), np.linalg.norm(pose + before, axis=1))
            turned = 4.0 * np.arcsin(np.minimum(0.5 * chord, 1.0))
            # Speeds add up, bursts should not be all there is.
            self._speed[who] = np.log1p(turned * (RATE / passed))
        self._poses[who], self._roots[who], self._numbers[who] = pose, root, number
        self._silent[who] = 0

    def step(self) -> Together:
        """Where they all stand now."""
        new = 1.0 - float(np.exp(-1.0 / (_SMOOTHED * RATE)))
        self._smooth += new * (self._speed - self._smooth)
        self._silent += 1
        self._steps += 1
        for who in np.flatnonzero(self._fresh & (self._silent <= 1)).tolist():
            self._smooth[who] = self._speed[who]
            self._unison.begin(who, self._smooth)
            self._leading.begin(who, self._smooth)
            self._fresh[who], self._steps[who] = False, 0
        self._unison.push(self._smooth)
        self._leading.push(self._smooth)
        there = np.flatnonzero(self._silent <= _GONE)
        if len(there) < 2:
            return Together()
        a, b = np.triu_indices(len(there), 1)
        i, k = there[a], there[b]
        together = np.clip(self._unison.correlation(i, k)[:, 0], 0.0, 1.0)
        leader, lag_ms, trust = self._leads(there, i, k)
        known: npt.NDArray[np.bool_] = np.any(self._roots != 0.0, axis=1)
        pairs = known[i] & known[k]
        apart = np.linalg.norm(self._roots[i] - self._roots[k], axis=1)[pairs]
        dots = np.abs(np.einsum("pjc,pjc->pj", self._poses[i, 1:], self._poses[k, 1:]))
        posture = 2.0 * np.arccos(np.minimum(dots, 1.0))
        return Together(
            float(together.mean()),
            leader,
            lag_ms,
            trust,
            float(apart.mean()) if len(apart) else -1.0,
            float(posture.mean()),
        )

    def _leads(
        self, there: npt.NDArray[np.intp], i: npt.NDArray[np.intp], k: npt.NDArray[np.intp]
    ) -> tuple[int, float, float]:
        """Who is ahead of the others, by how many ms, how surely."""
        # From "k is ahead by the longest lag" over "both at once" to "i is".
        alike = np.hstack([self._leading.correlation(i, k)[:, :0:-1], self._leading.correlation(k, i)])
        lags = np.arange(-_LAGS, _LAGS + 1)
        best = np.argmax(alike * (1.0 - _FAR * np.abs(lags) / _LAGS), axis=1)
        rows = np.arange(len(i))
        peak = np.clip((alike[rows, best] - _CHANCE) / (1.0 - _CHANCE), 0.0, 1.0)
        # What is known of them so far counts.
        peak *= 1.0 - np.exp(-np.minimum(self._steps[i], self._steps[k]) / (_LEADING * RATE))
        inner = np.clip(best, 1, 2 * _LAGS - 1)
        left, mid, right = (alike[rows, inner + d] for d in (-1, 0, 1))
        bend = left - 2.0 * mid + right
        shift = np.where(bend < 0.0, 0.5 * (left - right) / np.where(bend < 0.0, bend, -1.0), 0.0)
        ahead = lags[inner] + np.clip(shift, -1.0, 1.0)
        lead, weight = np.zeros(len(self._silent)), np.zeros(len(self._silent))
        for who, sign in ((i, 1.0), (k, -1.0)):
            np.add.at(lead, who, sign * peak * ahead)
            np.add.at(weight, who, peak)
        mean = lead / np.maximum(weight, 1e-9)
        leader = int(there[np.argmax(lead[there])])
        trust = float(weight[leader] / (len(there) - 1))
        if mean[leader] < _LEAST_LAG:
            return -1, 0.0, trust
        return leader, float(mean[leader] * 1000.0 / RATE), trust
