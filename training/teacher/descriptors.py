"""What the teacher and its causal twin measure, and how a measure becomes a parameter between 0 and 1.

Both run the same steps; they differ only in their filters and differences:

    rotations -> joint positions -> smoothed -> velocity, acceleration, jerk -> measures -> smoothed -> squash

Every constant is fixed and was chosen from quantiles over the training subjects alone.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FAST_HZ: Final = 3.0
"""-3 dB point of six parameters."""

SLOW_HZ: Final = 1.0
"""-3 dB point of density and pulse."""

MOTION_HZ: Final = 6.6
"""-3 dB point of the positions before they are differentiated: mocap noise stays out of the jerk."""

HANDS: Final = (9, 13)
ENDS: Final = (9, 13, 17, 21, 5)
"""The five ends of the body: hands, toes, head."""

REACH: Final = (9, 13, 16, 20)
"""Hands and ankles, whose distance from the upper chest is the extension."""

CHEST: Final = 3

PULSE_JOINTS: Final = (5, 8, 9, 12, 13, 16, 17, 20, 21)
"""Head, elbows, hands, ankles and toes: what repeats when a body keeps time."""

PULSE_LAGS: Final = tuple(range(16, 62, 2))
"""Periods looked at, in frames: 0.32 to 1.2 s, that is 50 to 188 beats a minute."""

HAND_BLEND_M: Final = 0.15
REST_SPEED: Final = 0.1
"""m/s added where a ratio would measure the noise of a still body."""
DENSITY_REST_SPEED: Final = 0.15
PAN_REST_ENERGY: Final = 0.1
PULSE_REST_ENERGY: Final = 0.09


@dataclass(frozen=True)
class Measures:
    """The smoothed measures of T frames, each (T,), (T, 5) for the ends of the body."""

    hand_height: Array
    kinetic: Array
    hand_speed2: Array
    jerk2: Array
    speed2: Array
    limb_speed2: Array
    extension: Array
    moment: Array
    energy: Array


FAST_COLUMNS: Final = 8
"""Columns of :func:`raw_measures` that are smoothed at ``FAST_HZ``; the five after them at ``SLOW_HZ``."""


def raw_measures(place: Array, hips_frame: Array, velocity: Array, jerk: Array, masses: Array) -> Array:
    """Unsmoothed measures (T, 13) of joint positions and their derivatives, all (T, 22, 3).

    Columns: height of the higher hand (m), kinetic energy per kilogram x 2, squared speed of the faster
    hand, mean squared jerk and mean squared speed of the five ends, extension (m), lateral moment of the
    ends' squared speed, its sum; then the squared speeds of the five ends.
    """
    heights = place[:, HANDS, 1] / HAND_BLEND_M
    top = heights.max(axis=1)
    height = HAND_BLEND_M * (top + np.log(np.exp(heights - top[:, None]).mean(axis=1)))
    speed2 = (velocity**2).sum(axis=-1)
    ends = speed2[:, ENDS]
    reach = np.linalg.norm(place[:, REACH] - place[:, [CHEST]], axis=-1).mean(axis=1)
    lateral = hips_frame[:, ENDS, 0]
    return np.column_stack(
        [
            height,
            speed2 @ masses,
            speed2[:, HANDS].max(axis=1),
            (jerk[:, ENDS] ** 2).sum(axis=-1).mean(axis=1),
            ends.mean(axis=1),
            reach,
            (ends * lateral).sum(axis=1),
            ends.sum(axis=1),
            ends,
        ]
    )


def hill(x: Array, half: float, power: float) -> Array:
    """x^p / (x^p + half^p): 0 at rest, 1/2 at ``half``, towards 1 beyond; for x >= 0."""
    ratio = (np.maximum(x, 0.0) / half) ** power
    return np.asarray(ratio / (1.0 + ratio), dtype=np.float64)


def logistic(x: Array, centre: float, scale: float) -> Array:
    """1 / (1 + exp(-(x - centre)/scale))."""
    return np.asarray(0.5 * (1.0 + np.tanh((x - centre) / (2.0 * scale))), dtype=np.float64)


def squash(fast: Array, limbs: Array, periodicity: Array) -> Array:
    """The eight parameters (T, 8) of smoothed measures.

    Args:
        fast: (T, 8), the first columns of :func:`raw_measures`, smoothed at ``FAST_HZ``.
        limbs: (T, 5), the others, smoothed at ``SLOW_HZ``.
        periodicity: (T,), the greatest of the lagged correlations.
    """
    height, kinetic, hand2, jerk2, speed2, reach, moment, energy = fast.T
    speed = np.sqrt(np.maximum(speed2, 0.0))
    # sqrt(jerk / speed) is a frequency: what a sinusoid of that speed and jerk would have.
    trembling = np.sqrt(np.sqrt(np.maximum(jerk2, 0.0)) / (speed + REST_SPEED)) / (2.0 * np.pi)
    limb = np.sqrt(np.maximum(limbs, 0.0))
    # Participation ratio: how many of the five ends share the movement.
    taking_part = limb.sum(axis=1) ** 2 / ((limb**2).sum(axis=1) + DENSITY_REST_SPEED**2)
    side = -moment / (np.maximum(energy, 0.0) + PAN_REST_ENERGY)
    return np.column_stack(
        [
            logistic(height, 0.12, 0.18),
            hill(np.sqrt(np.maximum(kinetic, 0.0)), 0.35, 1.5),
            hill(np.sqrt(np.maximum(hand2, 0.0)), 0.8, 1.3),
            hill(trembling, 1.8, 4.0),
            hill(taking_part, 3.3, 4.0),
            logistic(reach, 0.80, 0.05),
            logistic(side, 0.0, 0.075),
            np.clip(periodicity, 0.0, 1.0),
        ]
    )
