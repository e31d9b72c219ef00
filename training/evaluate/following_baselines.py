"""The offline alignment that following is judged by where nobody knows the truth, and a simple rival."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import forward_kinematics
from pyanticip.motion.rotations import multiply
from pyanticip.vocabulary import RATE

Array = NDArray[np.float64]

SPEED: Final = 0.15
"""Metres of posture that a metre a second of speed counts like."""
WINDOW: Final = 13
"""Frames over which the offline alignment is smoothed."""
COARSE: Final = 2
"""The rival looks at every second frame."""
START: Final = 0.5
"""Seconds within which the rival is told that a performance begins."""


def postures(quats: NDArray[np.float32]) -> Array:
    """Where 21 joints are, relative to the hips and without heading: (T, 21, 3) metres."""
    turned = np.array(quats, dtype=np.float64)
    back = turned[:, 0] * (1.0, 0.0, -1.0, 0.0)
    turned[:, 0] = multiply(
        back / np.maximum(np.linalg.norm(back, axis=-1, keepdims=True), 1e-9), turned[:, 0]
    )
    places = forward_kinematics(canonical_skeleton(), turned, np.zeros((len(quats), 3)))[1]
    return (places[:, 1:] - places[:, :1]).astype(np.float64)


def described(quats: NDArray[np.float32], half: int) -> Array:
    """Postures and the joints' speeds over ``half`` frames before and after: (T, 84)."""
    places = postures(quats)
    after = np.minimum(np.arange(len(places)) + half, len(places) - 1)
    before = np.maximum(np.arange(len(places)) - half, 0)
    seconds = (after - before)[:, None, None] / RATE
    speed = np.linalg.norm((places[after] - places[before]) / np.maximum(seconds, 1.0 / RATE), axis=-1)
    return np.concatenate([places.reshape(len(places), -1), SPEED * speed], axis=1)


def _apart(a: Array, b: Array) -> Array:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2.0 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def align(rehearsed: NDArray[np.float32], played: NDArray[np.float32]) -> Array:
    """Where in the rehearsal each frame of a performance is, (T,) seconds: it sees all of both.

    Subsequence dynamic time warping of posture and speed at 50 Hz, slopes of a half to two, all of the
    performance and any part of the rehearsal; the path smoothed over a quarter of a second.
    """
    cost = _apart(described(played, 3), described(rehearsed, 3))
    frames, columns = cost.shape
    total = np.full((frames, columns), np.inf)
    choice = np.zeros((frames, columns), dtype=np.int8)
    total[0] = cost[0]
    for i in range(1, frames):
        ways = np.full((3, columns), np.inf)
        ways[0, 1:] = total[i - 1, :-1]
        ways[1, 2:] = total[i - 1, :-2]
        if i > 1:
            ways[2, 1:] = total[i - 2, :-1] + cost[i - 1, 1:]
        choice[i] = ways.argmin(axis=0)
        total[i] = ways.min(axis=0) + cost[i]
    path = np.zeros(frames)
    i, j = frames - 1, int(total[-1].argmin())
    while i >= 0:
        path[i] = j
        if choice[i, j] == 2:
            path[i - 1] = j - 0.5
        i, j = i - (1, 1, 2)[choice[i, j]], j - (1, 2, 1)[choice[i, j]]
    weights = np.hanning(WINDOW + 2)[1:-1]
    half = WINDOW // 2
    longer = np.concatenate([2 * path[0] - path[half:0:-1], path, 2 * path[-1] - path[-2 : -half - 2 : -1]])
    return np.asarray(np.convolve(longer, weights / weights.sum(), "valid") / RATE)


def warp_online(rehearsed: NDArray[np.float32], played: NDArray[np.float32]) -> Array:
    """Where a naive online time warping has each frame, (T,) seconds: posture and velocity at 25 Hz.

    The cheapest way per step that ends now; it stands, goes on by one moment or by two. It is told that the
    performance begins within the first half second of the rehearsal, and jumps nowhere.
    """

    def seen(quats: NDArray[np.float32]) -> Array:
        places = postures(quats)[::COARSE]
        velocity = np.zeros_like(places)
        velocity[1:] = (places[1:] - places[:-1]) * (RATE / COARSE)
        return np.concatenate([places, SPEED * velocity], axis=1).reshape(len(places), -1)

    cost = _apart(seen(played), seen(rehearsed))
    total = np.where(np.arange(cost.shape[1]) < START * RATE / COARSE, cost[0], np.inf)
    steps = np.ones(cost.shape[1])
    place = np.zeros(len(cost))
    for i, row in enumerate(cost):
        if i:
            ways = np.full((3, len(row)), np.inf)
            counts = np.ones((3, len(row)))
            for skip in range(3):
                ways[skip, skip:] = total[: len(row) - skip]
                counts[skip, skip:] = steps[: len(row) - skip]
            best = (ways / counts).argmin(axis=0)[None]
            total = np.take_along_axis(ways, best, axis=0)[0] + row
            steps = np.take_along_axis(counts, best, axis=0)[0] + 1.0
        place[i] = float((total / steps).argmin())
    frames = np.arange(len(played))
    return np.asarray((place[frames // COARSE] * COARSE + frames % COARSE) / RATE)
