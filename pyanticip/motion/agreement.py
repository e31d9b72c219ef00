"""The guard: nobody plays, sends or learns from a body that is not the one its file shows."""

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.errors import SkeletonError
from pyanticip.motion.canonical import retargeter
from pyanticip.motion.skeleton import Skeleton

FRAMES = 100
"""So many frames, spread over the clip, are compared."""


def checked_retargeter(skeleton: Skeleton, quats: NDArray[np.float32], label: str) -> _core.Retargeter:
    """The map of a skeleton onto the canonical body, if the two show the same movement.

    Bone directions (trunk, hip and shoulder line, upper and lower limbs) of the source and of the canonical
    body are compared on the movement's own frames, ``quats`` (T, J, 4). ``label`` is what errors begin with.

    Raises
    ------
    SkeletonError
        Joints that cannot be recognised, bones that point more than 10 degrees elsewhere in the mean of
        all (or one 30), or a body that lies while its source stands: which file, why, and what to say.
    """
    prefix = f"{label}: " if label else ""
    try:
        mapped = retargeter(skeleton)
    except SkeletonError as error:
        raise SkeletonError(
            f"{prefix}{error}; say which is which: `pyanticip info FILE --joints > map.toml`, "
            "then --joints map.toml"
        ) from None
    refused = mapped.agreement(quats[spread(len(quats), FRAMES)])[1]
    if refused is not None:
        raise SkeletonError(
            f"{prefix}{refused}; say --rest FRAME (one in which it stands straight or in a T-pose) "
            "or --up AXIS (`pyanticip info FILE` tells what was found)"
        )
    return mapped


def angles(skeleton: Skeleton, quats: NDArray[np.float32]) -> dict[str, float]:
    """Mean angle in degrees between each bone of a body and of its canonical body, by the bone's name."""
    found, _ = retargeter(skeleton).agreement(quats[spread(len(quats), FRAMES)])
    return {
        name: angle for name, angle in zip(_core.COMPARED_BONES, found, strict=True) if np.isfinite(angle)
    }


def spread(frames: int, most: int) -> NDArray[np.intp]:
    """Indices of at most ``most`` frames, evenly spread over all."""
    return np.unique(np.linspace(0, frames - 1, min(frames, most)).astype(np.intp))
