"""Takes whose rate is wrong: they step or turn faster than people do.

A file that says 120 Hz and holds 60 plays at double speed; AMC files say nothing. Nobody walks four steps a
second.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import CANONICAL_JOINTS
from training.teacher.kinematics import positions

FEET: Final = tuple(CANONICAL_JOINTS.index(name) for name in ("left_foot", "right_foot"))

MOST: Final[Mapping[str, tuple[float, float]]] = {
    "walking": (3.0, 8.0),
    "styled walk": (3.0, 8.0),
    "running": (5.0, 12.0),
    "dance, improvised": (4.0, 20.0),
    "dance, repeated": (4.0, 20.0),
}
"""Steps a second and rad/s of the hips about the vertical, by kind of movement. Of 461 takes with right rates
the walks have at most 2.3 and 5.3, the runs 4.7 and 6.5, the dances 2.7 and 15.6 (break dance)."""

OTHERWISE: Final = (5.0, 20.0)

STRIDE: Final = 0.1
"""Deviation of one foot from the other along the heading, metres, below which there are no steps to count."""

SLOWEST: Final = 0.3
"""Hz of strides that are looked for, at least."""

SPAN_S: Final = 0.1
"""Stretch over which the hips turn."""


def step_rate(quats: NDArray[np.floating], rate: float) -> float:
    """Steps a second: twice the frequency at which the left foot passes the right; 0 where nobody steps.

    Args:
        quats: (T, 22, 4) canonical rotations.
        rate: frames a second.
    """
    place, yaw = positions(quats.astype(np.float64), upright=True), heading(quats)
    left, right = FEET
    apart = place[:, left] - place[:, right]
    along = np.sin(yaw) * apart[:, 0] + np.cos(yaw) * apart[:, 2]
    along -= along.mean()
    if along.std() < STRIDE:
        return 0.0
    size = 8 * len(along)
    power = np.abs(np.fft.rfft(along * np.hanning(len(along)), size)) ** 2
    frequency = np.fft.rfftfreq(size, 1.0 / rate)
    return 2.0 * float(frequency[np.argmax(np.where(frequency > SLOWEST, power, 0.0))])


def turn_rate(quats: NDArray[np.floating], rate: float) -> float:
    """rad/s of the hips about the vertical that are exceeded in one frame of a hundred."""
    yaw, span = heading(quats), max(round(SPAN_S * rate), 1)
    if len(yaw) <= span:
        return 0.0
    return float(np.percentile(np.abs(yaw[span:] - yaw[:-span]) * rate / span, 99))


def heading(quats: NDArray[np.floating]) -> NDArray[np.float64]:
    """(T,) radians: the part of the hips' rotation that is about the vertical, without jumps."""
    hips = np.asarray(quats, dtype=np.float64)[:, 0]
    return np.asarray(np.unwrap(2.0 * np.arctan2(hips[:, 2], hips[:, 0])))


def implausible(quats: NDArray[np.floating], rate: float, kind: str) -> str:
    """Why a take cannot have been as fast as it says; empty where it can."""
    steps, turns = MOST.get(kind, OTHERWISE)
    if (found := step_rate(quats, rate)) > steps:
        return f"{found:.1f} steps a second, expected at most {steps:g} of {kind}: is its rate wrong?"
    if (found := turn_rate(quats, rate)) > turns:
        return f"turns at {found:.1f} rad/s, expected at most {turns:g} of {kind}: is its rate wrong?"
    return ""
