"""The offline teacher: it sees a whole clip, past and future, and says what the parameters and events are.

The parameters are the Rust core's, which says them live as well, late. Zero-phase throughout: every filter
is a symmetric, positive, normalised Gaussian, every difference is central, the periodicity compares equal
stretches of past and future. A clip played backwards has its parameters played backwards. The formulas stand
in docs/teacher.md.

The teacher was frozen before the first model was trained. A change of any formula or constant is a new
``TEACHER_VERSION``, and a checkpoint names the version that taught it. The parameters are those of version 1.
The beats were the lowest frames of troughs of speed in version 1, the middles of these troughs in version 2,
and are the arrivals of strokes since version 3; what each can be trusted for stands in
``docs/experiments/beats/page.md``.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks

from pyanticip._core import teacher_parameters
from pyanticip.errors import ShapeError
from pyanticip.vocabulary import EVENTS
from training.teacher.filters import derivative, smooth
from training.teacher.kinematics import FAST_HZ, MOTION_HZ, Array, check_quats, positions, speeds

TEACHER_VERSION: Final = 3
"""Counts the changes of what is taught."""

EDGE: Final = 27
"""Frames at each end of a clip for which the widest kernel (1 Hz, radius 4 sigma) is cut."""

ONSET_FLOOR: Final = 0.1
ONSET_FALL: Final = 0.3
"""Octaves that a stroke must have lost of its highest speed to have arrived, and that the next must gain."""
ONSET_SPEED: Final = 0.6
"""m/s that a stroke must have reached: three times what half a degree of noise in every joint amounts to."""
ONSET_GAP: Final = 8
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
class Targets:
    """What the teacher says about a clip of T frames."""

    params: NDArray[np.float32]
    """(T, 8), each 0 to 1, order ``PARAMETERS``."""
    events: tuple[Event, ...]
    """In order of time."""

    def times(self, kind: str) -> NDArray[np.int64]:
        """Frames of the events of one kind, ascending."""
        return np.array([event.frame for event in self.events if event.kind == kind], dtype=np.int64)


def octaves(power: Array, cutoff_hz: float, floor: float) -> Array:
    """Speed (T,) on a scale of octaves, above a floor in m/s, of a squared speed that is smoothed first."""
    return np.log2(np.sqrt(np.maximum(smooth(power, cutoff_hz), 0.0)) + floor)


def arrivals(curve: Array, fall: float, speed: float, gap: int) -> list[tuple[int, float]]:
    """Frames at which strokes have arrived, and how many octaves each had gained.

    A stroke begins when the curve has risen ``fall`` octaves above the lowest since the last one; it has
    arrived in the first frame that lies ``fall`` octaves under its highest. So nothing that comes after an
    arrival decides about it.

    Args:
        curve: (T,) speed on the scale of :func:`octaves` above ``ONSET_FLOOR``, T >= 1.
        fall: octaves.
        speed: m/s that the highest must have reached, or it was no stroke.
        gap: frames between two, at least.
    """
    least = np.log2(speed + ONSET_FLOOR)
    found: list[tuple[int, float]] = []
    # A clip may begin in the middle of a stroke: its first frame counts as one.
    rising, low, high = True, float(curve[0]), float(curve[0])
    for frame, value in enumerate(curve.tolist()):
        if rising:
            high = max(high, value)
            if value < high - fall:
                if high >= least and (not found or frame - found[-1][0] >= gap):
                    found.append((frame, max(high - low, fall)))
                rising, low = False, value
        else:
            low = min(low, value)
            if value > low + fall:
                rising, high = True, value
    return found


def _events(speed2: Array, kinetic: Array) -> tuple[Event, ...]:
    """Kinematic beats (arrivals of the ends' strokes) and phrase starts (minima of the slow envelope)."""
    speed = octaves(speed2, FAST_HZ, ONSET_FLOOR)
    beats = arrivals(speed, ONSET_FALL, ONSET_SPEED, ONSET_GAP)
    slow = octaves(kinetic, PHRASE_HZ, PHRASE_FLOOR)
    where, properties = find_peaks(-slow, prominence=PHRASE_PROMINENCE, distance=PHRASE_GAP)
    phrases = zip(where.tolist(), properties["prominences"].tolist(), strict=True)
    found = [
        Event(kind, frame, depth / (1.0 + depth))
        for kind, pairs in zip(EVENTS, (beats, phrases), strict=True)
        for frame, depth in pairs
    ]
    return tuple(sorted(found, key=lambda event: (event.frame, event.kind)))


def compute_targets(quats: NDArray[np.floating]) -> Targets:
    """What the teacher says about a whole clip.

    Args:
        quats: (T, 22, 4) canonical local rotations w,x,y,z at 50 Hz, T >= 1. The root's place in the room
            is not looked at: many suits do not know it.

    Raises:
        ShapeError: another shape, or values that are not finite.
    """
    turns = check_quats(quats)
    if len(turns) == 0:
        raise ShapeError("a clip must have a frame, given none")
    velocity = derivative(smooth(positions(turns, upright=True), MOTION_HZ))
    return Targets(teacher_parameters(turns), _events(*speeds(velocity)))


__all__ = ["EDGE", "TEACHER_VERSION", "Event", "Targets", "compute_targets"]
