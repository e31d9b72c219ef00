"""Which way is up, and which side is left: told by the motion, not by what a file leaves unsaid."""

import math

import numpy as np

from pyanticip.errors import OptionError
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.rotations import Doubles, unit

UPS: dict[str, tuple[float, float, float]] = {
    "y": (0.0, 1.0, 0.0),
    "z": (0.0, 0.0, 1.0),
    "x": (1.0, 0.0, 0.0),
    "-y": (0.0, -1.0, 0.0),
    "-z": (0.0, 0.0, -1.0),
    "-x": (-1.0, 0.0, 0.0),
}
"""The axes that may be up, by the names that ``up=`` takes."""

_R = math.sqrt(0.5)
TO_Y_UP: dict[str, tuple[float, float, float, float]] = {
    "y": (1.0, 0.0, 0.0, 0.0),
    "z": (_R, -_R, 0.0, 0.0),
    "x": (_R, 0.0, 0.0, _R),
    "-y": (0.0, 1.0, 0.0, 0.0),
    "-z": (_R, _R, 0.0, 0.0),
    "-x": (_R, 0.0, 0.0, -_R),
}
"""The turns (w, x, y, z) that take these axes to +y."""

_FLOOR = (-0.02, 0.08)
"""A floor is at height 0 in most files: a lowest joint between these, in heights of the body ..."""
_FLOOR_BONUS = 0.4
"""... counts as much as a head that is over the feet by this cosine more."""
_HABIT_BONUS = 0.3
"""So much speaks for the axis that the rest pose stands along, and for y where the rest pose says nothing."""
_CARRIES = (-0.004, 0.16, 0.16)
"""A floor may carry the body where its lowest joint is between these heights, for joints are inside the body,
and varies by less than the last; ..."""
_STILL = (0.03, 0.05)
"""... by less than the first, if the body stands on another, or half as much as there, to the second."""
_BENT = 0.34
"""A knee or elbow bent by more than this (its sine, 20 degrees) shows where it bends."""
_STANDING = 0.85
"""Whoever stands, walks or runs has the head over the feet by a greater cosine in the mean."""
SURE = 0.25
"""A lead of this much over the next best axis is certain; cases of one kind differ by .5 and more."""


def check_up(up: str) -> str:
    """``up`` as one of :data:`UPS`; :class:`OptionError` else."""
    name = up.lower().removeprefix("+")
    if name not in UPS:
        raise OptionError(f"up is one of {', '.join(UPS)}, given {up!r}")
    return name


def joint(places: Doubles, *names: str) -> Doubles:
    """(T, 3): where the first of these canonical joints is that the source has; NaN if it has none."""
    order = canonical_skeleton().names
    found: Doubles = places[:, order.index(names[-1])]
    for name in names:
        at = places[:, order.index(name)]
        if np.isfinite(at).all():
            return at
    return found


def cross(a: Doubles, b: Doubles) -> Doubles:
    """The cross product of (..., 3); NumPy's own takes several times as long for as few as these."""
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    u, v, w = b[..., 0], b[..., 1], b[..., 2]
    return np.stack((y * w - z * v, z * u - x * w, x * v - y * u), axis=-1)


def stands_along(places: Doubles, axis: str) -> bool:
    """Whether the head is over the feet along an axis in the mean of ``places`` (T, 22, 3)."""
    return bool(_over_feet(places) @ np.array(UPS[axis]) > _STANDING)


def _over_feet(places: Doubles) -> Doubles:
    feet = 0.5 * (
        joint(places, "left_foot", "left_lower_leg") + joint(places, "right_foot", "right_lower_leg")
    )
    over: Doubles = unit(joint(places, "head", "neck", "upper_chest", "hips") - feet).mean(axis=0)
    return over


def up_axis(places: Doubles, habit: str | None) -> tuple[str, bool]:
    """The axis that is up in a motion, and whether that is certain.

    Two things tell: the head is over the feet for most of the time, and the lowest point of the body stays on
    one level, the floor, which is mostly at height 0 (so crawling, handstands and break dance are told too).
    Where the two disagree nothing is certain: somebody who lies stands along another axis, but on no floor.

    Args:
        places: (T, 22, 3): where the source of each canonical joint is; NaN where there is none.
        habit: The axis that the rest pose stands along; None where that says nothing.
    """
    over_feet = _over_feet(places)
    thigh = float(np.linalg.norm((joint(places, "left_upper_leg") - joint(places, "left_lower_leg"))[0]))
    known = places[:, np.isfinite(places).all(axis=(0, 2))] / max(4.0 * thigh, 1e-9)
    # The lowest joint of each frame along x, y, z and against them: (T, 6), in heights of the body.
    least, most = known.min(axis=1), known.max(axis=1)
    thick = np.median(most - least, axis=0).tolist()
    ranked = np.sort(np.concatenate((least, -most), axis=1), axis=0)
    lows, levels, highs = ranked[[len(ranked) // 20, len(ranked) // 2, (len(ranked) - 1) * 19 // 20]].tolist()
    usual = habit or "y"
    scores, varies, flat, at_zero, floors = {}, {}, {}, set(), []
    for name, axis in UPS.items():
        index = "xyz".index(name[-1])
        column = index + 3 * (axis[index] < 0.0)
        low, level, high = lows[column], levels[column], highs[column]
        varies[name], flat[name] = high - low, -thick[index]
        scores[name] = axis[index] * float(over_feet[index]) - min(varies[name], 1.5)
        scores[name] += _FLOOR_BONUS * (_FLOOR[0] < level < _FLOOR[1]) + _HABIT_BONUS * (name == usual)
        if abs(low) < _FLOOR[1]:
            at_zero.add(name)
        if _CARRIES[0] < level < _CARRIES[1] and varies[name] < _CARRIES[2]:
            floors.append(name)
    best, second = sorted(scores, key=lambda name: -scores[name])[:2]
    stands = abs(over_feet["xyz".index(best[-1])]) > _STANDING
    on_ground = stands and best in at_zero
    if on_ground:
        still = max(_STILL[0], min(0.5 * varies[best], _STILL[1]))
    else:
        still = max(_STILL[0], varies[best]) if best in floors else _CARRIES[2]
    rivals = [name for name in floors if name != best and varies[name] < still]
    if rivals and not (on_ground and best == habit):
        if stands and best == habit:
            # Upright as its rest pose: what is on one level beside it is a wall, its floor is elsewhere.
            return best, False
        if on_ground:
            return usual if usual in rivals else best, False
        return max(rivals, key=lambda name: scores[name] + flat[name]), False
    told = on_ground or best in floors or (stands and best == habit)
    return best, told and scores[best] - scores[second] > SURE


def trunk(places: Doubles) -> Doubles:
    """(T, 3): the way from the hips to between the shoulders."""
    shoulders: Doubles = 0.5 * (joint(places, "left_upper_arm") + joint(places, "right_upper_arm"))
    return shoulders - joint(places, "hips")


def is_mirrored(places: Doubles) -> bool:
    """Whether left and right are exchanged: the knees bend forward and the toes point backward.

    ``places`` (T, 22, 3) in any world. Motion read with axes of the wrong hand looks so, and so do joints
    whose names are exchanged.
    """
    left = unit(joint(places, "left_upper_leg") - joint(places, "right_upper_leg"))
    knees, feet, elbows = [], [], []
    down = -unit(trunk(places))
    for side in ("left_", "right_"):
        thigh = unit(joint(places, side + "lower_leg") - joint(places, side + "upper_leg"))
        shin = unit(joint(places, side + "foot") - joint(places, side + "lower_leg"))
        hinge = cross(thigh, shin)
        bent = np.linalg.norm(hinge, axis=-1) > _BENT
        if bent.any():
            knees.append(float((unit(hinge[bent]) * left[bent]).sum(axis=-1).mean()))
        arm = unit(joint(places, side + "lower_arm") - joint(places, side + "upper_arm"))
        forearm = unit(joint(places, side + "hand") - joint(places, side + "lower_arm"))
        hinge = cross(arm, forearm)
        hangs = (np.linalg.norm(hinge, axis=-1) > _BENT) & ((arm * down).sum(axis=-1) > 0.7)
        if hangs.any():
            elbows.append(float((unit(hinge[hangs]) * left[hangs]).sum(axis=-1).mean()))
        toes = unit(joint(places, side + "toes") - joint(places, side + "foot"))
        # The toes are before the shin, whether the body stands or lies.
        feet.append(float((toes * unit(cross(shin, left))).sum(axis=-1).mean()))
    feet = [value for value in feet if np.isfinite(value)]
    if not knees and not feet:  # arms that hang bend forward
        return len(elbows) == 2 and min(elbows) > 0.5
    if not knees:  # never bent
        return max(feet) < -0.5
    return max(knees) < -0.5 and max(feet, default=-1.0) < 0.0
