"""The guard: nobody plays, sends or learns from a body that is not the one its file shows."""

from typing import TYPE_CHECKING

import numpy as np

from pyanticip import _core
from pyanticip.errors import SkeletonError
from pyanticip.motion.canonical import retargeter

if TYPE_CHECKING:
    from pyanticip.motion.clip import Clip

FRAMES = 100
"""So many frames, spread over the clip, are compared."""


def understood(clip: "Clip") -> _core.Retargeter:
    """The map of a clip's skeleton onto the canonical body, if the two show the same movement.

    Bone directions (trunk, hip and shoulder line, upper and lower limbs) of the source and of the canonical
    body are compared on the clip's own frames.

    Raises
    ------
    SkeletonError
        Joints that cannot be recognised, bones that point more than 10 degrees elsewhere in the mean of
        all (or one 30), or a body that lies while its source stands: which file, why, and what to say.
    """
    try:
        mapped = retargeter(clip.skeleton)
    except SkeletonError as error:
        raise SkeletonError(
            f"{prefix(clip)}{error}; say which is which: `pyanticip info FILE --joints > map.toml`, "
            "then --joints map.toml"
        ) from None
    refused = mapped.agreement(clip.quats[spread(len(clip), FRAMES)])[1]
    if refused is not None:
        raise SkeletonError(
            f"{prefix(clip)}{refused}; say --rest FRAME (one in which it stands straight or in a T-pose) "
            "or --up AXIS (`pyanticip info FILE` tells what was found)"
        )
    return mapped


def angles(clip: "Clip") -> dict[str, float]:
    """Mean angle in degrees between each bone of a clip and of its canonical body, by the bone's name."""
    found, _ = retargeter(clip.skeleton).agreement(clip.quats[spread(len(clip), FRAMES)])
    return {
        name: angle for name, angle in zip(_core.COMPARED_BONES, found, strict=True) if np.isfinite(angle)
    }


def spread(frames: int, most: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Indices of at most ``most`` frames, evenly spread over all."""
    return np.unique(np.linspace(0, frames - 1, min(frames, most)).astype(np.intp))


def prefix(clip: "Clip") -> str:
    """What an error of a clip begins with: its file, or its name."""
    called = clip.source or clip.name
    return f"{called}: " if called else ""
