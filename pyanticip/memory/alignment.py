"""Takes that show the same: which moment of one is which of another, so that a cue is in both."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.memory.cues import Cue
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import forward_kinematics
from pyanticip.vocabulary import RATE

__all__ = ["Moments", "align", "shared_moments"]

F32 = NDArray[np.float32]
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Seconds (n,) of a take, rising, and of another one at the same moments."""

_SPEED: Final = 0.15
"""Metres of posture that a metre a second of speed counts like."""
_UNLIKE: Final = 0.35
"""Frames that differ by more than this share of the median distance are better left out, at either end."""
_ALIKE: Final = 0.6
"""The share of the shorter take that must go through the longer one."""
_EVERY, _CELLS = 2, 20e6
"""Every second frame is compared; of long takes fewer, that so many pairs at most are, of all together."""


def shared_moments(takes: Mapping[str, F32], cues: Sequence[Cue]) -> dict[tuple[str, str], Moments]:
    """Of takes (T, 22, 4) at 50 Hz that have cues, and each other that shows the same: which moments are."""
    pairs = [(a, b) for a in dict.fromkeys(cue.take for cue in cues) for b in takes if a != b]
    # A take may be made anew each time that it is asked for.
    seen = {name: _described(takes[name]) for name in {name for pair in pairs for name in pair}}
    cells = float(sum(len(seen[a]) * len(seen[b]) for a, b in pairs))
    every = max(_EVERY, int(np.ceil(np.sqrt(cells / _CELLS))))
    seen = {name: described[::every] for name, described in seen.items()}
    found = {pair: align(seen[pair[0]], seen[pair[1]]) for pair in pairs}
    return {
        pair: (frames[0] * every / RATE, frames[1] * every / RATE)
        for pair, frames in found.items()
        if frames is not None
    }


def align(one: F32, other: F32) -> Moments | None:
    """Frames of two described takes that go together, (n,) each, or None where they do not show the same.

    Dynamic time warping of the shorter take through the longer one, which may begin and end anywhere in
    both, at slopes of a half to two.
    """
    if len(one) > len(other):
        turned = align(other, one)
        return None if turned is None else turned[::-1]
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2.0 * (one @ other.T)
    cost = np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
    cost /= max(float(np.median(cost)), 1e-6) * _UNLIKE
    # A frame that is left out costs 1. Ways that step by (1, 1), (1, 2), (2, 1), or begin here.
    ways = np.full((4, cost.shape[1]), np.inf, np.float32)
    choice = np.full(cost.shape, 3, np.int8)
    before, total = None, cost[0]
    best, at = float(total.min()) + len(cost) - 1, (0, int(total.argmin()))
    for i in range(1, len(cost)):
        ways[0, 1:], ways[1, 2:] = total[:-1], total[:-2]
        if before is not None:
            ways[2, 1:] = before[:-1] + cost[i - 1, 1:]
        ways[3] = i
        choice[i] = ways.argmin(0)
        before, total = total, ways.min(0) + cost[i]
        ends = float(total.min()) + len(cost) - 1 - i
        if ends < best:
            best, at = ends, (i, int(total.argmin()))
    path = [at]
    while (step := choice[at]) != 3:
        at = at[0] - (1, 1, 2)[step], at[1] - (1, 2, 1)[step]
        path.append(at)
    rising = np.array(path[::-1], np.float64).T
    return (rising[0], rising[1]) if rising[0, -1] - rising[0, 0] >= _ALIKE * len(one) else None


def _described(quats: F32) -> F32:
    """Where the joints (T, 22, 4) are from the hips, without heading, and their speeds: (T, 84) metres."""
    places = forward_kinematics(canonical_skeleton(), quats, np.zeros((len(quats), 3)))[1][:, 1:]
    turn = 2.0 * np.arctan2(quats[:, 0, 2], quats[:, 0, 0])[:, None]
    x, y, z = np.moveaxis(places, -1, 0)
    ahead = np.stack([np.cos(turn) * x - np.sin(turn) * z, y, np.sin(turn) * x + np.cos(turn) * z], -1)
    at = np.arange(len(ahead))
    after, before = np.minimum(at + 3, len(ahead) - 1), np.maximum(at - 3, 0)
    seconds = np.maximum(after - before, 1)[:, None, None] / RATE
    speed = _SPEED * np.linalg.norm((ahead[after] - ahead[before]) / seconds, axis=-1)
    return np.concatenate([ahead.reshape(len(ahead), -1), speed], 1).astype(np.float32)
