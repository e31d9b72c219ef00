"""The body within a hierarchy: its hips, and its reach from them."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.errors import SkeletonError
from pyanticip.motion.canonical import retargeter
from pyanticip.motion.rotations import conjugate, multiply, rotate
from pyanticip.motion.skeleton import Skeleton, longest_chain
from pyanticip.vocabulary import CANONICAL_JOINTS

_ENDS = ("left_hand", "right_hand", "left_foot", "right_foot")
_MAX_REACH_RATIO = 1.3
"""Maximum ratio of the reach to the longest chain from hips to wrist or ankle (test data: 1.0 to 1.21)."""


def find_hips(names: list[str], parents: list[int], offsets: NDArray[np.float64]) -> int:
    """The hips of a body that is recognised by its names, else the first joint with two branches."""
    known = _recognised(names, parents, offsets)
    if known is not None:
        return known["hips"]
    inner = sorted(set(parents[1:]))
    joint = 0
    while len(children := [index for index in inner if parents[index] == joint]) == 1:
        joint = children[0]
    return joint


def hips_below_arms(names: list[str], parents: list[int], offsets: NDArray[np.float64]) -> int | None:
    """The joint that carries the legs, if it hangs below the one that carries the arms; else None.

    SlimeVR records hierarchies that begin with the head.
    """
    if _recognised(names, parents, offsets) is not None:
        return None
    pairs = _core.guess_joints(names, np.array(parents), offsets.astype(np.float32))
    ends = dict(zip(CANONICAL_JOINTS, pairs, strict=True))
    carriers = []
    for limb in ("upper_arm", "upper_leg"):
        left, right = ends[f"left_{limb}"], ends[f"right_{limb}"]
        if left is None or right is None:
            return None
        carriers.append(max(set(path_to(parents, left[0])) & set(path_to(parents, right[0]))))
    arms, legs = carriers
    return legs if arms != legs and arms in path_to(parents, legs) else None


def hang_from(
    hips: int,
    top: int,
    parents: list[int],
    offsets: NDArray[np.float64],
    tips: dict[int, tuple[float, float, float]],
    quats: NDArray[np.float32],
    root: NDArray[np.float64],
) -> tuple[NDArray[np.float64], list[int]]:
    """Hang the body from ``hips`` instead of ``top``, in place; returns its path and its joints in order.

    A bone keeps its joint, which moves to the bone's other end: that is where it now hangs.
    """
    path = path_to(parents, hips)
    path = path[path.index(top) :]
    tips[top] = tuple(-offsets[path[1]])
    world = quats[:, top].astype(np.float64)
    for above, below in pairwise(path):
        root = root + rotate(world, offsets[below])
        world = multiply(world, quats[:, below])
        quats[:, above] = conjugate(quats[:, below])
        beside = [joint for joint, parent in enumerate(parents) if parent == above and joint not in path]
        offsets[beside] -= offsets[below]
        offsets[above] = 0.0 if below == hips else -offsets[path[path.index(below) + 1]]
        parents[above] = below
    quats[:, hips], offsets[hips], parents[hips] = world, 0.0, -1
    order = [hips]
    for joint in order:
        order += [child for child, parent in enumerate(parents) if parent == joint]
    return root, order


def reach(
    names: list[str],
    parents: list[int],
    offsets: NDArray[np.float64],
    tips: dict[int, tuple[float, float, float]],
) -> float:
    """Length of the longest chain of bones from the hips (else joint 0) to a tip, in the unit of ``offsets``.

    Limited to the plausible length of hands and feet beyond wrists and ankles, as what is longer is a prop.
    """
    known = _recognised(names, parents, offsets)
    if known is None:
        return longest_chain(parents, offsets, tips)
    joints_below = descendants(parents, known["hips"])
    bones = np.zeros_like(offsets)
    bones[joints_below[1:]] = offsets[joints_below[1:]]
    full_reach = longest_chain(
        parents, bones, {index: tip for index, tip in tips.items() if index in joints_below}
    )
    if not known.keys() >= set(_ENDS):
        return full_reach
    limbs = [np.linalg.norm(bones[path_to(parents, known[end])], axis=1).sum() for end in _ENDS]
    return min(full_reach, _MAX_REACH_RATIO * float(max(limbs)))


def path_to(parents: list[int], joint: int) -> list[int]:
    """The chain of joints from joint 0 to ``joint``."""
    joints = [joint]
    while joints[0] > 0:
        joints.insert(0, parents[joints[0]])
    return joints


def descendants(parents: list[int], top: int) -> list[int]:
    """``top`` and all its descendants, parents first."""
    joints_below = [top]
    for index in range(top + 1, len(parents)):
        if parents[index] in joints_below:
            joints_below.append(index)
    return joints_below


def _recognised(names: list[str], parents: list[int], offsets: NDArray[np.float64]) -> dict[str, int] | None:
    """The first joint of each canonical joint's chain; None if the names and hierarchy form no body."""
    try:
        ends = retargeter(Skeleton(tuple(names), np.array(parents), offsets.astype(np.float32))).ends
    except SkeletonError:
        return None
    return {joint: pair[0] for joint, pair in zip(CANONICAL_JOINTS, ends, strict=True) if pair is not None}
