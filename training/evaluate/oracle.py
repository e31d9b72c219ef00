"""How early beats can be known: what somebody announces who is told the next moments of the movement exactly.

It is the bound for whoever forecasts poses, however well, and guesses nothing of what follows them. What
other definitions of a beat would give: ``docs/experiments/beats/page.md``.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from training.evaluate.events import TOLERANCE_FRAMES, Announcements
from training.teacher import handmade as teacher
from training.teacher.descriptors import ENDS, FAST_HZ, MOTION_HZ
from training.teacher.filters import derivative, smooth
from training.teacher.kinematics import Array, check_quats, positions

LEAD_FRAMES: Final = 5
LAST: Final = 24
"""Frames before a cut in which the speed differs from that of the whole clip, and more."""
PAST: Final = 250
"""Frames before a cut in which beats are looked for."""


def ends_of(quats: NDArray[np.floating]) -> Array:
    """Positions (T, 5, 3) of the ends of the body, metres."""
    return positions(check_quats(quats), upright=True)[:, ENDS]


def speed_of(ends: Array) -> Array:
    """The smoothed speed (T,) that the teacher looks at, m/s."""
    power = (derivative(smooth(ends, MOTION_HZ)) ** 2).sum(axis=-1).mean(axis=1)
    return np.sqrt(np.maximum(smooth(power, FAST_HZ), 0.0))


def arrivals(speed: Array) -> NDArray[np.int64]:
    """Frames of the teacher's beats in the smoothed speed (T,) of the ends of the body, m/s."""
    curve = np.log2(speed + teacher.ONSET_FLOOR)
    found = teacher.arrivals(curve, teacher.ONSET_FALL, teacher.ONSET_SPEED, teacher.ONSET_GAP)
    return np.array([frame for frame, _ in found], dtype=np.int64)


def cut_short(ends: Array) -> Array:
    """(T, LAST): the speed in the last frames up to each frame, if the clip ended with it; NaN before its
    beginning."""
    found = np.full((len(ends), LAST), np.nan)
    for cut in range(len(ends)):
        tail = speed_of(ends[max(cut + 1 - 2 * LAST, 0) : cut + 1])[-LAST:]
        found[cut, LAST - len(tail) :] = tail
    return found


def known_at(speed: Array, cut: Array) -> list[Array]:
    """For each frame the beats (frames) that are found in the clip if it ends with that frame.

    Args:
        speed: (T,) of the whole clip.
        cut: what :func:`cut_short` says of it.
    """
    known = []
    for frame, tail in enumerate(cut):
        begin, inside = max(frame - PAST, 0), min(LAST, frame + 1)
        seen = np.concatenate([speed[begin : frame + 1 - inside], tail[LAST - inside :]])
        known.append(begin + arrivals(seen).astype(np.float64))
    return known


def foreseen(known: Sequence[Array], ahead: int, lead: int = LEAD_FRAMES) -> Announcements:
    """What somebody can announce ``lead`` frames before it who knows the next ``ahead`` frames exactly.

    Each beat is decided as late as the lead allows, when the most is known of what comes after it.
    """
    decided, times, last = [], [], -np.inf
    for now in range(len(known) - ahead):
        for beat in known[now + ahead].tolist():
            if now + lead <= beat <= now + lead + TOLERANCE_FRAMES and beat > last + teacher.ONSET_GAP:
                decided.append(float(now))
                times.append(beat)
                last = beat
    return Announcements(np.array(decided), np.array(times))
