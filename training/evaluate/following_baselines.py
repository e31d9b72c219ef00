"""Offline alignment, the reference for real repeats, and a naive online baseline for following."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import forward_kinematics
from pyanticip.motion.rotations import multiply
from pyanticip.vocabulary import RATE

Array = NDArray[np.float64]

SPEED_WEIGHT: Final = 0.15
"""Weight of speed against posture: metres per m/s."""
WINDOW: Final = 13
"""Frames over which the offline alignment is smoothed."""
STEP: Final = 2
"""The baseline uses every second frame."""
START_S: Final = 0.5
"""The baseline assumes that a performance begins within this time of the rehearsal."""


def postures(quats: NDArray[np.float32]) -> Array:
    """Positions of 21 joints relative to the hips, heading removed: (T, 21, 3) metres."""
    turned = np.array(quats, dtype=np.float64)
    back = turned[:, 0] * (1.0, 0.0, -1.0, 0.0)
    turned[:, 0] = multiply(
        back / np.maximum(np.linalg.norm(back, axis=-1, keepdims=True), 1e-9), turned[:, 0]
    )
    places = forward_kinematics(canonical_skeleton(), turned, np.zeros((len(quats), 3)))[1]
    return (places[:, 1:] - places[:, :1]).astype(np.float64)


def descriptors(quats: NDArray[np.float32], half: int) -> Array:
    """Descriptors (T, 84): postures, and the joints' speeds over ``half`` frames before and after."""
    places = postures(quats)
    after = np.minimum(np.arange(len(places)) + half, len(places) - 1)
    before = np.maximum(np.arange(len(places)) - half, 0)
    seconds = (after - before)[:, None, None] / RATE
    speed = np.linalg.norm((places[after] - places[before]) / np.maximum(seconds, 1.0 / RATE), axis=-1)
    return np.concatenate([places.reshape(len(places), -1), SPEED_WEIGHT * speed], axis=1)


def _distances(a: Array, b: Array) -> Array:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2.0 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def align(rehearsed: NDArray[np.float32], played: NDArray[np.float32]) -> Array:
    """Position in the rehearsal of each frame of a performance, (T,) seconds, from all of both.

    Subsequence dynamic time warping of posture and speed at 50 Hz with slopes of 1/2 to 2; all of the
    performance is aligned to any part of the rehearsal. The path is smoothed over a quarter of a second.
    """
    cost = _distances(descriptors(played, 3), descriptors(rehearsed, 3))
    frames, columns = cost.shape
    total = np.full((frames, columns), np.inf)
    choice = np.zeros((frames, columns), dtype=np.int8)
    total[0] = cost[0]
    for i in range(1, frames):
        options = np.full((3, columns), np.inf)
        options[0, 1:] = total[i - 1, :-1]
        options[1, 2:] = total[i - 1, :-2]
        if i > 1:
            options[2, 1:] = total[i - 2, :-1] + cost[i - 1, 1:]
        choice[i] = options.argmin(axis=0)
        total[i] = options.min(axis=0) + cost[i]
    path = np.zeros(frames)
    i, j = frames - 1, int(total[-1].argmin())
    while i >= 0:
        path[i] = j
        if choice[i, j] == 2:
            path[i - 1] = j - 0.5
        i, j = i - (1, 1, 2)[choice[i, j]], j - (1, 2, 1)[choice[i, j]]
    weights = np.hanning(WINDOW + 2)[1:-1]
    half = WINDOW // 2
    padded = np.concatenate([2 * path[0] - path[half:0:-1], path, 2 * path[-1] - path[-2 : -half - 2 : -1]])
    return np.asarray(np.convolve(padded, weights / weights.sum(), "valid") / RATE)


def warp_online(rehearsed: NDArray[np.float32], played: NDArray[np.float32]) -> Array:
    """Position of each frame by naive online time warping, (T,) seconds: posture and velocity at 25 Hz.

    Takes the path with the lowest cost per step so far; each step advances by zero, one or two frames. It
    assumes that the performance begins within the first half second of the rehearsal and does not jump.
    """

    def coarse_descriptors(quats: NDArray[np.float32]) -> Array:
        places = postures(quats)[::STEP]
        velocity = np.zeros_like(places)
        velocity[1:] = (places[1:] - places[:-1]) * (RATE / STEP)
        return np.concatenate([places, SPEED_WEIGHT * velocity], axis=1).reshape(len(places), -1)

    cost = _distances(coarse_descriptors(played), coarse_descriptors(rehearsed))
    total = np.where(np.arange(cost.shape[1]) < START_S * RATE / STEP, cost[0], np.inf)
    steps = np.ones(cost.shape[1])
    place = np.zeros(len(cost))
    for i, row in enumerate(cost):
        if i:
            options = np.full((3, len(row)), np.inf)
            counts = np.ones((3, len(row)))
            for skip in range(3):
                options[skip, skip:] = total[: len(row) - skip]
                counts[skip, skip:] = steps[: len(row) - skip]
            best = (options / counts).argmin(axis=0)[None]
            total = np.take_along_axis(options, best, axis=0)[0] + row
            steps = np.take_along_axis(counts, best, axis=0)[0] + 1.0
        place[i] = float((total / steps).argmin())
    frames = np.arange(len(played))
    return np.asarray((place[frames // STEP] * STEP + frames % STEP) / RATE)
