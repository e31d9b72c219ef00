"""Estimation of the up axis, and detection of exchanged sides, from the motion."""

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
"""Directions of the up axes, by their names in ``up=``."""

_R = math.sqrt(0.5)
TO_Y_UP: dict[str, tuple[float, float, float, float]] = {
    "y": (1.0, 0.0, 0.0, 0.0),
    "z": (_R, -_R, 0.0, 0.0),
    "x": (_R, 0.0, 0.0, _R),
    "-y": (0.0, 1.0, 0.0, 0.0),
    "-z": (_R, _R, 0.0, 0.0),
    "-x": (_R, 0.0, 0.0, -_R),
}
"""Rotations (w, x, y, z) that take these axes to +y."""

# Heights are in units of the body's height.
_FLOOR = (-0.02, 0.08)
"""Range of the lowest joint's height that suggests a floor at height 0, as in most files."""
_FLOOR_BONUS = 0.4
"""Score of such a floor, added to the cosine between the axis and the direction from feet to head."""
_PRIOR_BONUS = 0.3
"""Score of the axis along which the rest pose stands, or of y if the rest pose shows none."""
_SUPPORT = (-0.004, 0.16)
"""Range of the lowest joint's height on a floor that may support the body; joints are inside the body."""
_SUPPORT_VARIATION = 0.16
"""Maximum variation of that height on a supporting floor."""
_RIVAL_VARIATION = (0.03, 0.05)
"""Range of that limit for a second floor if the body stands on a first: half the first's variation."""
_BENT_SINE = 0.34
"""Sine of the bend (20 degrees) from which a knee or elbow shows its hinge axis."""
_STANDING_COSINE = 0.85
"""Mean cosine between up and the direction from feet to head that standing, walking and running exceed."""
_LYING_SINE = 0.6
"""Sine of the trunk's slope, below which it lies."""
MIN_LEAD = 0.25
"""Lead over the second-best axis from which the result is certain; clear cases lead by .5 and more."""


def check_up(up: str) -> str:
    """``up`` as a key of :data:`UPS`; raises an OptionError for anything else."""
    name = str(up).lower().removeprefix("+")
    if name not in UPS:
        raise OptionError(f"up is one of {', '.join(UPS)}, got {up!r}")
    return name


def locate(positions: Doubles, *names: str) -> Doubles:
    """(T, 3) positions of the first of these canonical joints that the source has; NaN if it has none."""
    order = canonical_skeleton().names
    column: Doubles = positions[:, order.index(names[-1])]
    for name in names:
        candidate = positions[:, order.index(name)]
        if np.isfinite(candidate).all():
            return candidate
    return column


def cross(a: Doubles, b: Doubles) -> Doubles:
    """Cross product of (..., 3); several times faster than NumPy's for arrays of this size."""
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    u, v, w = b[..., 0], b[..., 1], b[..., 2]
    return np.stack((y * w - z * v, z * u - x * w, x * v - y * u), axis=-1)


def stands_along(positions: Doubles, axis: str) -> bool:
    """Whether the head is above the feet along ``axis``, on average over ``positions`` (T, 22, 3)."""
    return bool(_feet_to_head(positions) @ np.array(UPS[axis]) > _STANDING_COSINE)


def _feet_to_head(positions: Doubles) -> Doubles:
    """(3,): mean unit vector from the feet to the head."""
    feet = 0.5 * (
        locate(positions, "left_foot", "left_lower_leg") + locate(positions, "right_foot", "right_lower_leg")
    )
    direction: Doubles = unit(locate(positions, "head", "neck", "upper_chest", "hips") - feet).mean(axis=0)
    return direction


def up_axis(positions: Doubles, prior: str | None) -> tuple[str, bool]:
    """The up axis of a motion, and whether it is certain.

    There are two cues: the head is above the feet most of the time, and the lowest point of the body stays at
    one level, the floor, usually at height 0 (which covers crawling, handstands and break dance). If they
    disagree, the result is uncertain: a lying body stands along another axis, but not on a floor.

    Args:
        positions: (T, 22, 3) positions of the canonical joints; NaN for those the source lacks.
        prior: The axis along which the rest pose stands; None if that is unknown.
    """
    feet_to_head = _feet_to_head(positions)
    thigh = float(
        np.linalg.norm((locate(positions, "left_upper_leg") - locate(positions, "left_lower_leg"))[0])
    )
    scaled = positions[:, np.isfinite(positions).all(axis=(0, 2))] / max(4.0 * thigh, 1e-9)
    # Height of the lowest joint in each frame, with x, y, z, -x, -y and -z up: (T, 6).
    lowest, highest = scaled.min(axis=1), scaled.max(axis=1)
    extent = np.median(highest - lowest, axis=0).tolist()
    ranked = np.sort(np.concatenate((lowest, -highest), axis=1), axis=0)
    lows, levels, highs = ranked[[len(ranked) // 20, len(ranked) // 2, (len(ranked) - 1) * 19 // 20]].tolist()
    expected = prior or "y"
    scores, variation, flat, at_zero, floors = {}, {}, {}, set(), []
    for name, axis in UPS.items():
        index = "xyz".index(name[-1])
        column = index + 3 * (axis[index] < 0.0)
        low, level, high = lows[column], levels[column], highs[column]
        variation[name], flat[name] = high - low, -extent[index]
        scores[name] = axis[index] * float(feet_to_head[index]) - min(variation[name], 1.5)
        scores[name] += _FLOOR_BONUS * (_FLOOR[0] < level < _FLOOR[1]) + _PRIOR_BONUS * (name == expected)
        if abs(low) < _FLOOR[1]:
            at_zero.add(name)
        if _SUPPORT[0] < level < _SUPPORT[1] and variation[name] < _SUPPORT_VARIATION:
            floors.append(name)
    best, second = sorted(scores, key=lambda name: -scores[name])[:2]
    is_standing = abs(feet_to_head["xyz".index(best[-1])]) > _STANDING_COSINE
    on_ground = is_standing and best in at_zero
    if on_ground:
        limit = max(_RIVAL_VARIATION[0], min(0.5 * variation[best], _RIVAL_VARIATION[1]))
    else:
        limit = max(_RIVAL_VARIATION[0], variation[best]) if best in floors else _SUPPORT_VARIATION
    rivals = [name for name in floors if name != best and variation[name] < limit]
    if rivals and not (on_ground and best == prior):
        if is_standing and best == prior:
            # Upright like the rest pose: the rival plane is a wall, and the floor is not at height 0.
            return best, False
        if on_ground:
            return expected if expected in rivals else best, False
        return max(rivals, key=lambda name: scores[name] + flat[name]), False
    is_plausible = on_ground or best in floors or (is_standing and best == prior)
    return best, is_plausible and scores[best] - scores[second] > MIN_LEAD


def trunk_vector(positions: Doubles) -> Doubles:
    """(T, 3) vectors from the hips to the midpoint between the shoulders."""
    shoulders: Doubles = 0.5 * (locate(positions, "left_upper_arm") + locate(positions, "right_upper_arm"))
    return shoulders - locate(positions, "hips")


def is_on_all_fours(positions: Doubles) -> bool:
    """Whether hands and feet carry a trunk that lies in nearly every frame, with y up."""
    feet = np.minimum(locate(positions, "left_foot"), locate(positions, "right_foot"))[:, 1]
    hands = np.maximum(locate(positions, "left_hand"), locate(positions, "right_hand"))[:, 1]
    hips = locate(positions, "hips")[:, 1]
    thigh = np.linalg.norm(locate(positions, "left_upper_leg") - locate(positions, "left_lower_leg"), axis=-1)
    lies = unit(trunk_vector(positions))[:, 1] < _LYING_SINE
    is_carried = (hips - feet > 0.5 * thigh) & (hands - feet < 0.5 * (hips - feet))
    return bool((lies & is_carried).mean() > 0.9)


def is_mirrored(positions: Doubles) -> bool | None:
    """Whether left and right are exchanged, so that knees bend forward and toes point backward.

    ``positions`` (T, 22, 3) may be in any orientation. The cause is a wrong handedness of the axes, or
    exchanged joint names. None if no knee is bent, there are no toes, and no two bent arms hang.
    """
    left = unit(locate(positions, "left_upper_leg") - locate(positions, "right_upper_leg"))
    knees, feet, elbows = [], [], []
    down = -unit(trunk_vector(positions))
    for side in ("left_", "right_"):
        thigh = unit(locate(positions, side + "lower_leg") - locate(positions, side + "upper_leg"))
        shin = unit(locate(positions, side + "foot") - locate(positions, side + "lower_leg"))
        hinge = cross(thigh, shin)
        is_bent = np.linalg.norm(hinge, axis=-1) > _BENT_SINE
        if is_bent.any():
            knees.append(float((unit(hinge[is_bent]) * left[is_bent]).sum(axis=-1).mean()))
        arm = unit(locate(positions, side + "lower_arm") - locate(positions, side + "upper_arm"))
        forearm = unit(locate(positions, side + "hand") - locate(positions, side + "lower_arm"))
        hinge = cross(arm, forearm)
        is_hanging = (np.linalg.norm(hinge, axis=-1) > _BENT_SINE) & ((arm * down).sum(axis=-1) > 0.7)
        if is_hanging.any():
            elbows.append(float((unit(hinge[is_hanging]) * left[is_hanging]).sum(axis=-1).mean()))
        toes = unit(locate(positions, side + "toes") - locate(positions, side + "foot"))
        # Toes point forward of the shin, whether the body stands or lies.
        feet.append(float((toes * unit(cross(shin, left))).sum(axis=-1).mean()))
    feet = [value for value in feet if np.isfinite(value)]
    if not knees and not feet:  # the elbows of hanging arms bend forward
        return min(elbows) > 0.5 if len(elbows) == 2 else None
    if not knees:  # the knees are never bent
        return max(feet) < -0.5
    return max(knees) < -0.5 and max(feet, default=-1.0) < 0.0
