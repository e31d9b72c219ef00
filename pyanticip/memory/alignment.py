"""Alignment of takes of the same movement, so that a cue set in one is found in the others."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.memory.cues import Cue
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import forward_kinematics
from pyanticip.vocabulary import RATE

F32 = NDArray[np.float32]
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Times (n,) in one take, ascending, and the matching times in another, seconds."""

_SPEED_WEIGHT: Final = 0.15
"""Weight of a speed against a position: 1 m/s counts like this many metres."""
_SKIP_COST: Final = 0.35
"""Cost of leaving out a frame at either end, as a share of the median distance."""
_MIN_COVERAGE: Final = 0.6
"""Share of the shorter take that the alignment must cover."""
_MIN_STRIDE: Final = 2
"""At most every second frame is compared."""
_MAX_CELLS: Final = 20e6
"""Most pairs of frames compared, over all pairs of takes; long takes are compared at a larger stride."""


def shared_moments(takes: Mapping[str, F32], cues: Sequence[Cue]) -> dict[tuple[str, str], Moments]:
    """Align each take (T, 22, 4) at 50 Hz that has cues with every other take of the same movement."""
    pairs = [(a, b) for a in dict.fromkeys(cue.take for cue in cues) for b in takes if a != b]
    # Look each take up once: a lazy mapping computes it again every time.
    features = {name: _pose_features(takes[name]) for name in {name for pair in pairs for name in pair}}
    cells = float(sum(len(features[a]) * len(features[b]) for a, b in pairs))
    stride = max(_MIN_STRIDE, int(np.ceil(np.sqrt(cells / _MAX_CELLS))))
    features = {name: rows[::stride] for name, rows in features.items()}
    alignments = {pair: align(features[pair[0]], features[pair[1]]) for pair in pairs}
    return {
        pair: (frames[0] * stride / RATE, frames[1] * stride / RATE)
        for pair, frames in alignments.items()
        if frames is not None
    }


def align(one: F32, other: F32) -> Moments | None:
    """Matching frames (n,) of two takes, given as feature rows, or None where they differ too much.

    Dynamic time warping of the shorter take through the longer one; the path may begin and end anywhere in
    both, at slopes of a half to two.
    """
    if len(one) > len(other):
        swapped = align(other, one)
        return None if swapped is None else swapped[::-1]
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2.0 * (one @ other.T)
    cost = np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
    cost /= max(float(np.median(cost)), 1e-6) * _SKIP_COST
    # Now a skipped frame costs 1. A path reaches a cell by (1, 1), (1, 2) or (2, 1), or starts there.
    paths = np.full((4, cost.shape[1]), np.inf, np.float32)
    choice = np.full(cost.shape, 3, np.int8)
    before, total = None, cost[0]
    best, at = float(total.min()) + len(cost) - 1, (0, int(total.argmin()))
    for i in range(1, len(cost)):
        paths[0, 1:], paths[1, 2:] = total[:-1], total[:-2]
        if before is not None:
            paths[2, 1:] = before[:-1] + cost[i - 1, 1:]
        paths[3] = i
        choice[i] = paths.argmin(0)
        before, total = total, paths.min(0) + cost[i]
        full_cost = float(total.min()) + len(cost) - 1 - i  # the remaining frames are skipped
        if full_cost < best:
            best, at = full_cost, (i, int(total.argmin()))
    path = [at]
    while (step := choice[at]) != 3:
        at = at[0] - (1, 1, 2)[step], at[1] - (1, 2, 1)[step]
        path.append(at)
    frames = np.array(path[::-1], np.float64).T
    covered = frames[0, -1] - frames[0, 0] >= _MIN_COVERAGE * len(one)
    return (frames[0], frames[1]) if covered else None


def _pose_features(quats: F32) -> F32:
    """Joint positions from the hips, without heading, and weighted speeds, of poses (T, 22, 4): (T, 84)."""
    positions = forward_kinematics(canonical_skeleton(), quats, np.zeros((len(quats), 3)))[1][:, 1:]
    heading = 2.0 * np.arctan2(quats[:, 0, 2], quats[:, 0, 0])[:, None]
    x, y, z = np.moveaxis(positions, -1, 0)
    cos, sin = np.cos(heading), np.sin(heading)
    facing = np.stack([cos * x - sin * z, y, sin * x + cos * z], -1)
    index = np.arange(len(facing))
    after, before = np.minimum(index + 3, len(facing) - 1), np.maximum(index - 3, 0)
    seconds = np.maximum(after - before, 1)[:, None, None] / RATE
    speed = _SPEED_WEIGHT * np.linalg.norm((facing[after] - facing[before]) / seconds, axis=-1)
    return np.concatenate([facing.reshape(len(facing), -1), speed], 1).astype(np.float32)
