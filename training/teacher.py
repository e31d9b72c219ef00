"""The offline teacher: it sees a whole clip, past and future, and says what the parameters and events are.

Zero-phase throughout: every filter is a symmetric, positive, normalised Gaussian, every difference is
central, the periodicity compares equal stretches of past and future. A clip played backwards has its
parameters played backwards. The formulas stand in docs/teacher.md.

The teacher was frozen before the first model was trained. A change of any formula or constant is a new
``TEACHER_VERSION``, and a checkpoint names the version that taught it. Version 2 moved the beats from the
lowest frame of a trough to its middle; the parameters are those of version 1.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks, peak_widths

from training.descriptors import (
    EVENTS,
    FAST_COLUMNS,
    FAST_HZ,
    MOTION_HZ,
    PULSE_JOINTS,
    PULSE_LAGS,
    PULSE_REST_ENERGY,
    SLOW_HZ,
    raw_measures,
    squash,
)
from training.filters import RATE, derivative, smooth
from training.kinematics import MASSES, Array, check_quats, positions

TEACHER_VERSION: Final = 2
"""Counts the changes of what is taught."""

PARAMETERS_SINCE: Final = 1
"""The first version whose parameters are those of today: what rests on them alone holds from it on."""

EDGE: Final = 27
"""Frames at each end of a clip for which the widest kernel (1 Hz, radius 4 sigma) is cut."""

ONSET_FLOOR: Final = 0.1
ONSET_PROMINENCE: Final = 0.4
ONSET_GAP: Final = 8
ONSET_DEPTH: Final = 0.5
"""Share of its prominence up to which a trough is followed to both sides for its middle."""
PHRASE_HZ: Final = 0.4
PHRASE_FLOOR: Final = 0.05
PHRASE_PROMINENCE: Final = 0.6
PHRASE_GAP: Final = 50


@dataclass(frozen=True)
class Event:
    """One event of a clip."""

    kind: str
    """``onset`` or ``phrase``."""
    frame: int
    """Frame of the clip, at 50 Hz."""
    strength: float
    """0 to 1."""


@dataclass(frozen=True)
class Lesson:
    """What the teacher says about a clip of T frames."""

    params: NDArray[np.float32]
    """(T, 8), each 0 to 1, order ``PARAMETERS``."""
    events: tuple[Event, ...]
    """In order of time."""

    def times(self, kind: str) -> NDArray[np.int64]:
        """Frames of the events of one kind, ascending."""
        return np.array([event.frame for event in self.events if event.kind == kind], dtype=np.int64)


def periodicity(velocity: Array) -> Array:
    """Pulse clarity (T,) in 0..1: how well the movement repeats at its best period.

    For a lag m (even): c_m(t) = <u(t + m/2) . u(t - m/2)> / (<|u(t + m/2)|^2 + |u(t - m/2)|^2>/2 + e0),
    where u are the velocities of the pulse joints and <> is the 1 Hz smoother; pairs that reach beyond the
    clip have no weight. The result is the greatest c_m over the lags, at least 0.

    Args:
        velocity: (T, 22, 3) m/s in the hips' frame.
    """
    frames = len(velocity)
    u = velocity[:, PULSE_JOINTS].reshape(frames, -1)
    power = (u**2).sum(axis=1)
    best = np.zeros(frames)
    for lag in PULSE_LAGS:
        half = lag // 2
        if frames <= 2 * lag:
            continue
        terms = np.zeros((frames, 3))
        inside = slice(half, frames - half)
        terms[inside, 0] = (u[lag:] * u[:-lag]).sum(axis=1)
        terms[inside, 1] = 0.5 * (power[lag:] + power[:-lag])
        terms[inside, 2] = 1.0
        product, energy, weight = smooth(terms, SLOW_HZ).T
        known = weight > 0.25
        found = product[known] / (energy[known] + PULSE_REST_ENERGY * weight[known])
        best[known] = np.maximum(best[known], found)
    return best


def _events(speed2: Array, kinetic: Array) -> tuple[Event, ...]:
    """Kinematic beats (troughs of the ends' speed) and phrase starts (minima of the slow envelope).

    A beat is the middle of its trough at half its depth. A walker's trough often has two bottoms, 150 ms
    apart and within 2 % of each other; which one is lower, noise decides.
    """
    found: list[Event] = []
    speed = np.log2(np.sqrt(np.maximum(smooth(speed2, FAST_HZ), 0.0)) + ONSET_FLOOR)
    slow = np.log2(np.sqrt(np.maximum(smooth(kinetic, PHRASE_HZ), 0.0)) + PHRASE_FLOOR)
    for kind, curve, prominence, gap in (
        (EVENTS[0], speed, ONSET_PROMINENCE, ONSET_GAP),
        (EVENTS[1], slow, PHRASE_PROMINENCE, PHRASE_GAP),
    ):
        where, properties = find_peaks(-curve, prominence=prominence, distance=gap)
        depths = properties["prominences"]
        if kind == EVENTS[0] and len(where):
            _, _, left, right = peak_widths(-curve, where, rel_height=ONSET_DEPTH)
            # Half up, so that a clip played backwards has its beats within a frame of where they were.
            where = np.floor(0.5 * (left + right) + 0.5).astype(np.int64)
        for frame, depth in zip(where, depths, strict=True):
            found.append(Event(kind, int(frame), float(depth / (1.0 + depth))))
    return tuple(sorted(found, key=lambda event: (event.frame, event.kind)))


def teach(quats: NDArray[np.floating]) -> Lesson:
    """What the teacher says about a whole clip.

    Args:
        quats: (T, 22, 4) canonical local rotations w,x,y,z at 50 Hz, T >= 1. The root's place in the room
            is not looked at: many suits do not know it.

    Raises:
        ShapeError: another shape, or values that are not finite.
    """
    turns = check_quats(quats)
    place = positions(turns, upright=True)
    inside = positions(turns, upright=False)
    velocity = derivative(smooth(place, MOTION_HZ))
    jerk = derivative(derivative(velocity))
    raw = raw_measures(place, inside, velocity, jerk, MASSES)
    params = squash(
        smooth(raw[:, :FAST_COLUMNS], FAST_HZ),
        smooth(raw[:, FAST_COLUMNS:], SLOW_HZ),
        periodicity(derivative(smooth(inside, MOTION_HZ))),
    )
    return Lesson(params.astype(np.float32), _events(raw[:, 4], raw[:, 1]))


__all__ = ["EDGE", "PARAMETERS_SINCE", "RATE", "TEACHER_VERSION", "Event", "Lesson", "periodicity", "teach"]
