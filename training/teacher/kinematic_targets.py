"""The offline teacher: computes parameters and events from a whole clip, past and future.

The parameters are computed by the Rust core, which also computes them live, with a delay. Everything is
zero-phase: every filter is a symmetric, positive, normalised Gaussian, every difference is central, and the
periodicity compares equal stretches of past and future. A clip played backwards has its parameters played
backwards. The formulas are in docs/teacher.md.

The teacher was frozen before the first model was trained. Any change of a formula or constant needs a new
``TEACHER_VERSION``, and a checkpoint names the version that it was trained with. The parameters have not
changed since version 1. Beats were the lowest frames of troughs of speed in version 1, the middles of these
troughs in version 2, and are the arrivals of strokes since version 3; ``docs/experiments/beats/page.md`` says
how reliable each is.
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
"""Version of the targets."""

EDGE: Final = 27
"""Frames at each end of a clip for which the widest kernel (1 Hz, radius 4 sigma) is truncated."""

ONSET_FLOOR: Final = 0.1
"""Added to the speed before its logarithm when looking for onsets, m/s."""
ONSET_FALL: Final = 0.3
"""Octaves below its peak speed at which a stroke has arrived, and above the minimum at which one begins."""
ONSET_SPEED: Final = 0.6
"""Minimum peak speed of a stroke, m/s: three times what half a degree of noise in every joint causes."""
ONSET_GAP: Final = 8
"""Minimum distance of two onsets, frames."""
PHRASE_HZ: Final = 0.4
"""-3 dB point of the envelope that phrases are looked for in."""
PHRASE_FLOOR: Final = 0.05
"""Added to the envelope before its logarithm, m/s."""
PHRASE_PROMINENCE: Final = 0.6
"""Minimum prominence of the trough at a phrase start, octaves."""
PHRASE_GAP: Final = 50
"""Minimum distance of two phrases, frames."""


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
    """Parameters and events of a clip of T frames."""

    params: NDArray[np.float32]
    """(T, 8), each 0 to 1, in the order of ``PARAMETERS``."""
    events: tuple[Event, ...]
    """Sorted by time."""

    def times(self, kind: str) -> NDArray[np.int64]:
        """Frames of the events of one kind, ascending."""
        return np.array([event.frame for event in self.events if event.kind == kind], dtype=np.int64)


def octaves(power: Array, cutoff_hz: float, floor: float) -> Array:
    """Smooth a squared speed (T,), and convert it to log2 of the speed plus a floor, m/s."""
    return np.log2(np.sqrt(np.maximum(smooth(power, cutoff_hz), 0.0)) + floor)


def arrivals(curve: Array, fall: float, speed: float, gap: int) -> list[tuple[int, float]]:
    """Find the frames at which strokes arrive, and how many octaves each stroke rose.

    A stroke begins when the curve has risen ``fall`` octaves above its minimum since the last stroke, and
    has arrived in the first frame that lies ``fall`` octaves below its maximum: an arrival does not depend
    on later frames.

    Args:
        curve: (T,) result of :func:`octaves` with floor ``ONSET_FLOOR``, T >= 1.
        fall: octaves.
        speed: minimum peak speed of a stroke, m/s.
        gap: minimum distance of two arrivals, frames.
    """
    threshold = np.log2(speed + ONSET_FLOOR)
    strokes: list[tuple[int, float]] = []
    # A clip may begin in the middle of a stroke.
    rising, low, high = True, float(curve[0]), float(curve[0])
    for frame, value in enumerate(curve.tolist()):
        if rising:
            high = max(high, value)
            if value < high - fall:
                if high >= threshold and (not strokes or frame - strokes[-1][0] >= gap):
                    strokes.append((frame, max(high - low, fall)))
                rising, low = False, value
        else:
            low = min(low, value)
            if value > low + fall:
                rising, high = True, value
    return strokes


def _events(speed2: Array, kinetic: Array) -> tuple[Event, ...]:
    """Onsets (arrivals of strokes of the end effectors) and phrase starts (minima of the slow envelope)."""
    speed = octaves(speed2, FAST_HZ, ONSET_FLOOR)
    beats = arrivals(speed, ONSET_FALL, ONSET_SPEED, ONSET_GAP)
    slow = octaves(kinetic, PHRASE_HZ, PHRASE_FLOOR)
    troughs, properties = find_peaks(-slow, prominence=PHRASE_PROMINENCE, distance=PHRASE_GAP)
    phrases = zip(troughs.tolist(), properties["prominences"].tolist(), strict=True)
    events = [
        Event(kind, frame, depth / (1.0 + depth))
        for kind, pairs in zip(EVENTS, (beats, phrases), strict=True)
        for frame, depth in pairs
    ]
    return tuple(sorted(events, key=lambda event: (event.frame, event.kind)))


def compute_targets(quats: NDArray[np.floating]) -> Targets:
    """Compute parameters and events of a whole clip.

    Args:
        quats: (T, 22, 4) canonical local rotations w,x,y,z at 50 Hz, T >= 1. The root position is not
            used: many suits do not measure it.

    Raises:
        ShapeError: wrong shape, or values that are not finite.
    """
    turns = check_quats(quats)
    if len(turns) == 0:
        raise ShapeError("a clip must have a frame, got none")
    velocity = derivative(smooth(positions(turns, upright=True), MOTION_HZ))
    return Targets(teacher_parameters(turns), _events(*speeds(velocity)))


__all__ = ["EDGE", "TEACHER_VERSION", "Event", "Targets", "compute_targets"]
