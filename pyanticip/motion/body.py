"""Where in a hierarchy the body is: its hips, and how far it reaches from them."""

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import SkeletonError
from pyanticip.motion.canonical import retargeter
from pyanticip.motion.skeleton import Skeleton, longest_chain
from pyanticip.vocabulary import CANONICAL_JOINTS

_ENDS = ("left_hand", "right_hand", "left_foot", "right_foot")
_BEYOND = 1.3
"""In the test data the longest chain of bones is 1.0 to 1.21 times that from the hips to a wrist or ankle."""


def hips(names: list[str], parents: list[int], offsets: NDArray[np.float64]) -> int:
    """The hips of a body that is known by its names, else the first joint that carries two chains."""
    known = _known(names, parents, offsets)
    if known is not None:
        return known["hips"]
    inner = sorted(set(parents[1:]))
    joint = 0
    while len(chains := [index for index in inner if parents[index] == joint]) == 1:
        joint = chains[0]
    return joint


def reach(
    names: list[str],
    parents: list[int],
    offsets: NDArray[np.float64],
    tips: dict[int, tuple[float, float, float]],
) -> float:
    """The longest chain of bones from the hips (joint 0 where names do not say) to a tip, in the unit given.

    Beyond wrists and ankles no more counts than hands and feet can be long: what is longer is a prop.
    """
    known = _known(names, parents, offsets)
    if known is None:
        return longest_chain(parents, offsets, tips)
    kept = below(parents, known["hips"])
    bones = np.zeros_like(offsets)
    bones[kept[1:]] = offsets[kept[1:]]
    whole = longest_chain(parents, bones, {index: tip for index, tip in tips.items() if index in kept})
    if not known.keys() >= set(_ENDS):
        return whole
    limbs = [np.linalg.norm(bones[way(parents, known[end])], axis=1).sum() for end in _ENDS]
    return min(whole, _BEYOND * float(max(limbs)))


def way(parents: list[int], joint: int) -> list[int]:
    """The joints from joint 0 down to ``joint``."""
    joints = [joint]
    while joints[0] > 0:
        joints.insert(0, parents[joints[0]])
    return joints


def below(parents: list[int], top: int) -> list[int]:
    """``top`` and all that descends from it, parents first."""
    kept = [top]
    for index in range(top + 1, len(parents)):
        if parents[index] in kept:
            kept.append(index)
    return kept


def _known(names: list[str], parents: list[int], offsets: NDArray[np.float64]) -> dict[str, int] | None:
    """The first joint of each canonical one; None where names and hierarchy make no body."""
    try:
        ends = retargeter(Skeleton(tuple(names), np.array(parents), offsets.astype(np.float32))).ends
    except SkeletonError:
        return None
    return {joint: pair[0] for joint, pair in zip(CANONICAL_JOINTS, ends, strict=True) if pair is not None}
