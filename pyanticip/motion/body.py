"""The body within a hierarchy: its hips, and its reach from them."""

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import SkeletonError
from pyanticip.motion.canonical import retargeter
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
