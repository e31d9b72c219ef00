"""The canonical body of 22 joints as a :class:`Skeleton`, and the mapping of others onto it."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.motion.skeleton import Skeleton
from pyanticip.vocabulary import CANONICAL_JOINTS

SEGMENT_MASSES = (
    0.142, 0.0, 0.16, 0.17, 0.0, 0.08,
    0.0, 0.027, 0.022, 0.012, 0.0, 0.027, 0.022, 0.012,
    0.10, 0.06, 0.03, 0.01, 0.10, 0.06, 0.03, 0.01,
)  # fmt: skip
"""Share of the body's mass that moves with each canonical joint (after Dempster 1955), sum about 1."""


@cache
def canonical_skeleton() -> Skeleton:
    """Hips, spine, neck, head, arms and legs: a T-pose facing +z, all rest rotations identity."""
    return Skeleton(
        tuple(CANONICAL_JOINTS),
        np.asarray(_core.CANONICAL_PARENTS, np.int32),
        np.asarray(_core.CANONICAL_OFFSETS, np.float32),
    )


def retargeter(skeleton: Skeleton) -> _core.Retargeter:
    """The compiled mapping of ``skeleton`` onto the canonical body.

    Rest rotations that are all the identity are not passed on; the mapping then derives the rest pose from
    the offsets.
    """
    identity = np.array((1.0, 0.0, 0.0, 0.0), np.float32)
    rest = (
        None
        if np.array_equal(skeleton.rest, np.broadcast_to(identity, skeleton.rest.shape))
        else skeleton.rest
    )
    return _core.Retargeter(list(skeleton.names), skeleton.parents, skeleton.offsets, rest)


@cache
def mirror_order() -> NDArray[np.intp]:
    """For each canonical joint, the index of its counterpart on the other side (itself in the middle)."""
    names = canonical_skeleton().names

    def other(name: str) -> str:
        if name.startswith("left_"):
            return "right_" + name.removeprefix("left_")
        if name.startswith("right_"):
            return "left_" + name.removeprefix("right_")
        return name

    order = np.array([names.index(other(name)) for name in names], np.intp)
    order.flags.writeable = False
    return order
