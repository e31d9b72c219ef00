"""Detection of a T-pose in the first frames, from which the motion jumps away.

Many exporters put the rest pose into frame 0 and begin the motion in frame 1. The test uses the body's shape,
not joint names.
"""

import numpy as np
from numpy.typing import NDArray

from pyanticip.motion.rotations import angle_between, place_joints
from pyanticip.motion.skeleton import Skeleton

JUMP_DEGREES = 20.0
"""Minimum rotation of some joint, in degrees, in the step from the lead-in to the motion."""

JUMP_RATIO = 4.0
"""Minimum ratio of that rotation to the median step that follows, of the joint that turns most."""

MAX_LEAD_IN = 250
"""Maximum number of lead-in frames; in a longer stillness it is the performer who stands still."""


def has_t_shape(skeleton: Skeleton, quats: NDArray[np.float32]) -> bool:
    """Whether local rotations (J, 4) give ``skeleton`` the shape of a T-pose, whatever its joints are called.

    :func:`.rest.is_t_pose` judges the directions of named limbs instead. In the shape of a T-pose the two
    points that are farthest apart horizontally are the hands: level with each other, joined by a nearly
    straight chain of bones, and about as far apart as the body is tall. The hands are high, and the legs
    nearly straight.
    """
    parents = skeleton.parents
    world = place_joints(parents.tolist(), skeleton.offsets.tolist(), quats.tolist(), (0.0, 0.0, 0.0))
    points = np.array([position for _, position in world])
    flat = points[:, [0, 2]]
    distances = np.linalg.norm(flat[:, None] - flat[None], axis=-1)
    left, right = np.unravel_index(int(np.argmax(distances)), distances.shape)
    span = float(distances[left, right])
    height = float(np.ptp(points[:, 1]))
    if span <= 1e-6 or height <= 1e-6:
        return False
    is_level = abs(points[left, 1] - points[right, 1]) <= 0.08 * span
    is_straight = span >= 0.9 * _path_length(points, parents, int(left), int(right))
    is_tall = 0.75 <= height / span <= 1.6
    hands = 0.5 * (points[left, 1] + points[right, 1])
    low = int(np.argmin(points[:, 1]))
    legs_straight = 0.8 * _path_length(points, parents, 0, low) <= points[0, 1] - points[low, 1]
    hands_high = hands - points[low, 1] >= 0.65 * height
    return bool(is_level and is_straight and is_tall and legs_straight and hands_high)


def lead_in(quats: NDArray[np.float32]) -> int:
    """Number of frames before the motion (T, J, 4) begins, given that frame 0 is a T-pose.

    The lead-in is frame 0, copies of it and frames without any rotation (which exporters insert), if the
    motion jumps away from them. It is 0 if the motion starts smoothly from the T-pose.
    """
    start = quats[: MAX_LEAD_IN + 1]
    still = (np.abs(start - quats[0]).max(axis=(1, 2)) < 1e-6) | (
        np.abs(start[..., 1:]).max(axis=(1, 2)) < 1e-6
    )
    first = len(start) - 1 if still.all() else int(np.argmin(still))
    # The motion itself may begin with a frame without rotation, so the last jump ends the lead-in.
    return next((lead for lead in range(first, 0, -1) if _jumps(quats, lead)), 0)


def _jumps(quats: NDArray[np.float32], frame: int) -> bool:
    """Whether the motion jumps to ``frame`` and is smooth after that."""
    head = quats[frame - 1 : frame + 25]
    if len(head) < 3:
        return False
    steps = angle_between(head[1:], head[:-1]).max(axis=1)
    return bool(steps[0] > np.radians(JUMP_DEGREES) and steps[0] > JUMP_RATIO * np.median(steps[1:]))


def _path_length(points: NDArray[np.float64], parents: NDArray[np.int32], a: int, b: int) -> float:
    """Length of the path of bones between joints ``a`` and ``b``."""
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
