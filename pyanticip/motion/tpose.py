"""Is the first frame a T-pose, and does the motion only begin after it?

Many exporters put the rest pose into frame 0 and jump to the motion in frame 1. The test needs no
joint names: it looks at the body's shape.
"""

import numpy as np
from numpy.typing import NDArray

from pyanticip.motion.rotations import angle_between
from pyanticip.motion.skeleton import Skeleton

JUMP_DEGREES = 20.0
"""A T-pose is dropped only when some joint turns by more than this to the next frame ..."""

MAX_LEAD_IN = 250
"""A longer stillness at the start is the performer's own."""

JUMP_RATIO = 4.0
"""... and by more than this many times what any joint turns in the steps that follow."""


def is_t_pose(skeleton: Skeleton, quats: NDArray[np.float32]) -> bool:
    """Whether local rotations (J, 4) put ``skeleton`` into a T-pose.

    In a T-pose the two ends of the body that are farthest apart across the ground are the hands:
    level with each other, with a nearly straight chain of bones between them, about as long as
    the body is tall; and the body below the hands is nearly as tall as its leg chain is long.
    """
    points = _points(skeleton, quats)
    parents = skeleton.parents
    flat = points[:, [0, 2]]
    apart = np.linalg.norm(flat[:, None] - flat[None], axis=-1)
    left, right = np.unravel_index(int(np.argmax(apart)), apart.shape)
    span = float(apart[left, right])
    height = float(np.ptp(points[:, 1]))
    if span <= 1e-6 or height <= 1e-6:
        return False
    level = abs(points[left, 1] - points[right, 1]) <= 0.08 * span
    straight = span >= 0.9 * _path_length(points, parents, int(left), int(right))
    tall = 0.75 <= height / span <= 1.6
    hands = 0.5 * (points[left, 1] + points[right, 1])
    low = int(np.argmin(points[:, 1]))
    legs = 0.8 * _path_length(points, parents, 0, low) <= points[0, 1] - points[low, 1]
    high_hands = hands - points[low, 1] >= 0.65 * height
    return bool(level and straight and tall and legs and high_hands)


def lead_in(quats: NDArray[np.float32]) -> int:
    """How many frames stand before the motion (T, J, 4), when frame 0 is a T-pose: 0 or more.

    These are frame 0, copies of it and frames without any rotation (exporters fill in such), if the
    motion jumps away from them. A motion that flows out of its T-pose has none.
    """
    start = quats[: MAX_LEAD_IN + 1]
    still = (np.abs(start - quats[0]).max(axis=(1, 2)) < 1e-6) | (
        np.abs(start[..., 1:]).max(axis=(1, 2)) < 1e-6
    )
    first = len(start) - 1 if still.all() else int(np.argmin(still))
    # A motion may begin with a frame without rotation itself: the last jump tells where the lead-in ends.
    return next((lead for lead in range(first, 0, -1) if _jumps(quats, lead)), 0)


def _jumps(quats: NDArray[np.float32], frame: int) -> bool:
    """Whether the motion jumps to ``frame`` and is smooth after that."""
    head = quats[frame - 1 : frame + 25]
    if len(head) < 3:
        return False
    steps = angle_between(head[1:], head[:-1]).max(axis=1)
    return bool(steps[0] > np.radians(JUMP_DEGREES) and steps[0] > JUMP_RATIO * np.median(steps[1:]))


def _points(skeleton: Skeleton, quats: NDArray[np.float32]) -> NDArray[np.float64]:
    """Where the joints (J, 3) of one pose are, the root at the origin."""
    # One frame: plain floats are several times faster here than arrays of four numbers.
    turns: list[tuple[float, float, float, float]] = []
    places: list[tuple[float, float, float]] = []
    local = quats.tolist()
    offsets = skeleton.offsets.tolist()
    for joint, parent in enumerate(skeleton.parents.tolist()):
        w, x, y, z = local[joint]
        if parent < 0:
            turns.append((w, x, y, z))
            places.append((0.0, 0.0, 0.0))
            continue
        pw, px, py, pz = turns[parent]
        turns.append(
            (
                pw * w - px * x - py * y - pz * z,
                pw * x + px * w + py * z - pz * y,
                pw * y - px * z + py * w + pz * x,
                pw * z + px * y - py * x + pz * w,
            )
        )
        a, b, c = offsets[joint]
        ta, tb, tc = 2.0 * (py * c - pz * b), 2.0 * (pz * a - px * c), 2.0 * (px * b - py * a)
        at = places[parent]
        places.append(
            (
                at[0] + a + pw * ta + py * tc - pz * tb,
                at[1] + b + pw * tb + pz * ta - px * tc,
                at[2] + c + pw * tc + px * tb - py * ta,
            )
        )
    return np.array(places)


def _path_length(points: NDArray[np.float64], parents: NDArray[np.int32], a: int, b: int) -> float:
    """Length of the bones on the way from joint ``a`` to joint ``b`` through the tree."""
    lengths: dict[int, float] = {}
    total, joint = 0.0, a
    while joint >= 0:
        lengths[joint] = total
        parent = int(parents[joint])
        if parent >= 0:
            total += float(np.linalg.norm(points[joint] - points[parent]))
        joint = parent
    total, joint = 0.0, b
    while joint not in lengths:
        parent = int(parents[joint])
        total += float(np.linalg.norm(points[joint] - points[parent]))
        joint = parent
    return total + lengths[joint]
