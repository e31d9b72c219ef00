"""The guard: nobody plays, sends or learns from a body that is not the one its file shows."""

import re

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.errors import SkeletonError
from pyanticip.motion.canonical import retargeter
from pyanticip.motion.skeleton import Skeleton
from pyanticip.vocabulary import CANONICAL_JOINTS

FRAMES = 100
"""So many frames, spread over the clip, are compared."""

_SECOND = re.compile(r"(.+)_\d+")
_LIMBS = (("shoulder", "upper_arm", "lower_arm", "hand"), ("upper_leg", "lower_leg", "foot", "toes"))


def checked_retargeter(skeleton: Skeleton, quats: NDArray[np.float32], label: str) -> _core.Retargeter:
    """The map of a skeleton onto the canonical body, if the two show the same movement.

    Bone directions (trunk, hip and shoulder line, upper and lower limbs) of the source and of the canonical
    body are compared on the movement's own frames, ``quats`` (T, J, 4). ``label`` is what errors begin with.

    Raises:
        SkeletonError: Joints that cannot be recognised, bones that point more than 10 degrees elsewhere in
            the mean of all (or one 30), or a body that lies while its source stands: which file, why, and
            what to say.
    """
    prefix = f"{label}: " if label else ""
    try:
        mapped = retargeter(skeleton)
        _check_twins(skeleton, mapped)
    except SkeletonError as error:
        raise SkeletonError(
            f"{prefix}{error}; only whole bodies play: where a joint only has another name, say which is"
            " which: `pyanticip info FILE --joints > map.toml`, then --joints map.toml"
        ) from None
    refused = mapped.agreement(quats[spread(len(quats), FRAMES)])[1]
    if refused is not None:
        raise SkeletonError(
            f"{prefix}{refused}; say --rest FRAME (one in which it stands straight or in a T-pose) "
            "or --up AXIS (`pyanticip info FILE` tells what was found)"
        )
    return mapped


def _check_twins(skeleton: Skeleton, mapped: _core.Retargeter) -> None:
    """Refuse two joints of one name where the second has its place on the other side, which lacks one.

    Another joint of that side, as the clavicle, would stand in for it, unnoticed.
    """
    joint_of = {
        index: joint
        for joint, ends in zip(CANONICAL_JOINTS, mapped.ends, strict=True)
        for index in ends or ()
    }
    parents = skeleton.parents.tolist()
    for second, name in enumerate(skeleton.names):
        found = _SECOND.fullmatch(name)
        if found is None or found[1] not in skeleton.names:
            continue
        twins = (skeleton.names.index(found[1]), second)
        side, _, part = next((joint_of[twin] for twin in twins if twin in joint_of), "").partition("_")
        other = {"left": "right", "right": "left"}.get(side)
        beside = {parents[twin] for twin in twins} | {i for i, p in enumerate(parents) if p in twins}
        if not any(joint_of.get(index, "").startswith(f"{other}_") for index in beside):
            continue
        limb = next((limb for limb in _LIMBS if part in limb), ())
        lacks = [f"{other}_{part}" for part in limb if f"{other}_{part}" not in joint_of.values()]
        if lacks:
            raise SkeletonError(
                f"two joints are called {found[1]!r}, and no joint was found for {', '.join(lacks)}"
            )


def angles(skeleton: Skeleton, quats: NDArray[np.float32]) -> dict[str, float]:
    """Mean angle in degrees between each bone of a body and of its canonical body, by the bone's name."""
    found, _ = retargeter(skeleton).agreement(quats[spread(len(quats), FRAMES)])
    return {
        name: angle for name, angle in zip(_core.COMPARED_BONES, found, strict=True) if np.isfinite(angle)
    }


def spread(frames: int, most: int) -> NDArray[np.intp]:
    """Indices of at most ``most`` frames, evenly spread over all."""
    return np.unique(np.linspace(0, frames - 1, min(frames, most)).astype(np.intp))
