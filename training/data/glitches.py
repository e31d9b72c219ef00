"""Glitches: short bad stretches as trackers produce them, with labels of the bad frames.

:mod:`training.data.corrupt` degrades a whole take. Here most of a take stays good and only single stretches
are bad, so that a model can learn which frames not to trust. All functions are pure: canonical rotations
(T, 22, 4) w x y z at 50 Hz and the root (T, 3) in metres in, the same shapes out.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pyanticip.vocabulary import RATE
from training.data.corrupt import Count, Positive, Range, Share, Table, sensor_noise
from training.teacher.kinematics import MIRROR

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

Kind = Literal["dropout", "jitter", "swap", "freeze"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""Kinds of glitches: limbs fall back to the rest pose; joints shake; the left and right sensors are swapped;
the last frame is repeated."""

LIMBS: Final = (
    tuple(range(6, 10)),
    tuple(range(10, 14)),
    tuple(range(14, 18)),
    tuple(range(18, 22)),
    (4, 5),
)
"""Joints that fail together: each arm, each leg, neck and head."""

PAIRS: Final = (LIMBS[0], LIMBS[2])
"""The limbs of the left side, which can be swapped with those of the right."""


class Glitches(Table):
    """Frequency, length and severity of glitches."""

    share: Share = 0.75
    """Share of the copies that have any glitch."""
    kinds: Annotated[tuple[Kind, ...], Field(strict=False, min_length=1)] = KINDS
    """Kinds to draw from, all equally likely."""
    per_minute: Range[Positive] = (6.0, 24.0)
    frames: Range[Count] = (5, 40)
    """Length of a glitch, frames."""
    jitter_degrees: Range[Positive] = (4.0, 20.0)
    """Standard deviation of a joint's jitter about each axis."""
    place: Positive = 0.02
    """Standard deviation of the root's jitter, metres."""


@dataclass(frozen=True)
class Glitched:
    """A clip with glitches."""

    quats: NDArray[np.float32]
    root: NDArray[np.float32]
    bad: Mask
    """(T,) frames whose pose is wrong, and the first one after each glitch, whose velocities are wrong."""
    glitches: tuple[tuple[str, int, int], ...]
    """Kind, first frame and end (exclusive) of every glitch."""


def glitch(
    quats: NDArray[np.floating],
    root: NDArray[np.floating],
    mask: Mask,
    rng: np.random.Generator,
    config: Glitches,
) -> Glitched:
    """Insert glitches at random places, at least a frame apart; the first frame stays good.

    Args:
        quats: (T, 22, 4).
        root: (T, 3) metres.
        mask: (22,) joints that are measured; the others are left alone.
        rng: source of all random choices.
        config: frequency and severity.
    """
    turns, places = np.array(quats, dtype=np.float64), np.array(root, dtype=np.float64)
    bad, glitches = np.zeros(len(turns), dtype=np.bool_), []
    has_glitches = bool(rng.random() < config.share)
    rate = float(rng.uniform(*config.per_minute))
    for _ in range(int(rng.poisson(rate * len(turns) / (60.0 * RATE))) if has_glitches else 0):
        kind = config.kinds[int(rng.integers(len(config.kinds)))]
        start, length = (
            int(rng.integers(1, max(len(turns), 2))),
            int(rng.integers(*config.frames, endpoint=True)),
        )
        stop = min(start + length, len(turns))
        if bad[start - 1 : stop + 1].any():
            continue
        rows = slice(start, stop)
        if kind == "freeze":
            turns[rows], places[rows] = turns[start - 1], places[start - 1]
        elif kind == "jitter":
            turns[rows], places[rows] = _jitter(turns[rows], places[rows], mask, rng, config)
        elif kind == "swap":
            turns[rows] = _swap(turns[rows], mask, rng)
        else:
            turns[rows] = _dropout(turns[rows], mask, rng)
        bad[start : stop + 1] = True
        glitches.append((kind, start, stop))
    return Glitched(turns.astype(np.float32), places.astype(np.float32), bad, tuple(sorted(glitches)))


def _draw_subset(count: int, most: int, rng: np.random.Generator) -> list[int]:
    """Draw from one to ``most`` distinct indices below ``count``, sorted."""
    size = int(rng.integers(1, most, endpoint=True))
    return sorted(rng.choice(count, size, replace=False).tolist())


def _jitter(
    turns: Array, places: Array, mask: Mask, rng: np.random.Generator, config: Glitches
) -> tuple[Array, Array]:
    jitter = np.radians(rng.uniform(*config.jitter_degrees))
    shaken = np.zeros_like(mask)
    for limb in _draw_subset(len(LIMBS), len(LIMBS), rng):
        shaken[list(LIMBS[limb])] = True
    return sensor_noise(turns, places, mask & shaken, rng, jitter=jitter, drift=0.0, place=config.place)


def _swap(turns: Array, mask: Mask, rng: np.random.Generator) -> Array:
    swapped = turns.copy()
    for pair in _draw_subset(len(PAIRS), len(PAIRS), rng):
        for left in PAIRS[pair]:
            right = MIRROR[left]
            if mask[left] and mask[right]:
                swapped[:, left], swapped[:, right] = turns[:, right], turns[:, left]
    return swapped


def _dropout(turns: Array, mask: Mask, rng: np.random.Generator) -> Array:
    lost = turns.copy()
    for limb in _draw_subset(len(LIMBS), 3, rng):
        joints = [joint for joint in LIMBS[limb] if mask[joint]]
        lost[:, joints] = (1.0, 0.0, 0.0, 0.0)
    return lost
