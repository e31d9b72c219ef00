"""Check that the canonical body shows the same movement as the file, before anything uses it."""

import re

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.errors import SkeletonError
from pyanticip.motion.canonical import retargeter
from pyanticip.motion.skeleton import Skeleton
from pyanticip.vocabulary import CANONICAL_JOINTS

COMPARED_FRAMES = 100
"""Number of frames, spread over the clip, that are compared."""

_NUMBERED_NAME = re.compile(r"(.+)_\d+")
"""Readers append a number to a joint name that occurs again."""
_LIMBS = (("shoulder", "upper_arm", "lower_arm", "hand"), ("upper_leg", "lower_leg", "foot", "toes"))


def checked_retargeter(skeleton: Skeleton, quats: NDArray[np.float32], label: str) -> _core.Retargeter:
    """The mapping of a skeleton onto the canonical body, if both show the same movement.

    Compares bone directions (trunk, hip and shoulder line, upper and lower limbs) of the source and of the
    canonical body in frames of ``quats`` (T, J, 4). Errors start with ``label``.

    Raises:
        SkeletonError: Joints cannot be recognised, bone directions differ by more than 10 degrees on average
            (or by 30 for one bone), or the body lies while its source stands. The message says what to do.
    """
    prefix = f"{label}: " if label else ""
    try:
        mapped = retargeter(skeleton)
        _check_duplicate_names(skeleton, mapped)
    except SkeletonError as error:
        raise SkeletonError(
            f"{prefix}{error}; only whole bodies play: where a joint only has another name, say which is"
            " which: `pyanticip info FILE --joints > map.toml`, then --joints map.toml"
        ) from None
    refusal = mapped.agreement(quats[spread_frames(len(quats), COMPARED_FRAMES)])[1]
    if refusal is not None:
        raise SkeletonError(
            f"{prefix}{refusal}; say --rest FRAME (one in which it stands straight or in a T-pose) "
            "or --up AXIS (`pyanticip info FILE` shows what was found)"
        )
    return mapped


def _check_duplicate_names(skeleton: Skeleton, mapped: _core.Retargeter) -> None:
    """Refuse two joints of one name if the second belongs to the other side, which lacks that joint.

    Otherwise another joint of that side, such as the clavicle, would silently take its place.
    """
    joint_of = {
        index: joint
        for joint, ends in zip(CANONICAL_JOINTS, mapped.ends, strict=True)
        for index in ends or ()
    }
    parents = skeleton.parents.tolist()
    for second, name in enumerate(skeleton.names):
        match = _NUMBERED_NAME.fullmatch(name)
        if match is None or match[1] not in skeleton.names:
            continue
        twins = (skeleton.names.index(match[1]), second)
        side, _, part = next((joint_of[twin] for twin in twins if twin in joint_of), "").partition("_")
        other = {"left": "right", "right": "left"}.get(side)
        neighbours = {parents[twin] for twin in twins} | {i for i, p in enumerate(parents) if p in twins}
        if not any(joint_of.get(index, "").startswith(f"{other}_") for index in neighbours):
            continue
        limb = next((limb for limb in _LIMBS if part in limb), ())
        missing = [f"{other}_{part}" for part in limb if f"{other}_{part}" not in joint_of.values()]
        if missing:
            raise SkeletonError(
                f"two joints are called {match[1]!r}, and no joint was found for {', '.join(missing)}"
            )


def bone_angles(skeleton: Skeleton, quats: NDArray[np.float32]) -> dict[str, float]:
    """Mean angle in degrees between each bone of a body and that of its canonical body, by bone name."""
    angles, _ = retargeter(skeleton).agreement(quats[spread_frames(len(quats), COMPARED_FRAMES)])
    return {
        name: angle for name, angle in zip(_core.COMPARED_BONES, angles, strict=True) if np.isfinite(angle)
    }


def spread_frames(frames: int, limit: int) -> NDArray[np.intp]:
    """Indices of at most ``limit`` frames, evenly spread over all."""
    return np.unique(np.linspace(0, frames - 1, min(frames, limit)).astype(np.intp))
