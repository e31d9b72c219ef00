"""Forward kinematics of the teacher's body: canonical rotations in, joint positions in metres out.

The body is a fixed table, the same for every performer and suit, so that a tall and a short performer who
make the same movement get the same parameters. Conventions are the library's: right-handed, y up, metres,
quaternions w,x,y,z, local to the parent; the rest pose is a T-pose facing +z, the left hand towards +x.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.errors import ShapeError
from pyanticip.motion.canonical import SEGMENT_MASSES, mirror_order
from pyanticip.motion.rotations import multiply
from pyanticip.vocabulary import CANONICAL_JOINTS

Array = NDArray[np.float64]

PARENTS: Final = _core.CANONICAL_PARENTS
"""Parent of each canonical joint, -1 for the hips."""

MIRROR: Final[tuple[int, ...]] = tuple(mirror_order().tolist())
"""For each joint, its counterpart on the other side."""

OFFSETS: Final[Array] = np.array(_core.CANONICAL_OFFSETS)
"""(22, 3) offset from the parent joint in the rest pose, metres: the canonical body, 1.7 m tall; fixed."""

MASSES: Final[Array] = np.array(SEGMENT_MASSES) / np.sum(SEGMENT_MASSES)
"""(22,) share of the body's mass that moves with each joint; sums to 1."""


def check_quats(quats: NDArray[np.floating]) -> Array:
    """Return ``quats`` as float64, refusing anything that is not (T, 22, 4) and finite.

    Raises:
        ShapeError: wrong shape, or a value that is not finite.
    """
    checked = np.asarray(quats, dtype=np.float64)
    if checked.ndim != 3 or checked.shape[1:] != (len(CANONICAL_JOINTS), 4):
        raise ShapeError(f"canonical rotations must be (T, {len(CANONICAL_JOINTS)}, 4), got {checked.shape}")
    if not np.isfinite(checked).all():
        raise ShapeError("canonical rotations must be finite, got NaN or infinity")
    return checked


def _levels() -> tuple[tuple[list[int], list[int]], ...]:
    """Joints and their parents, grouped by distance from the hips."""
    depth = [0] * len(CANONICAL_JOINTS)
    for joint, parent in enumerate(PARENTS):
        depth[joint] = 0 if parent < 0 else depth[parent] + 1
    levels = []
    for level in range(1, max(depth) + 1):
        joints = [joint for joint, own in enumerate(depth) if own == level]
        levels.append((joints, [PARENTS[joint] for joint in joints]))
    return tuple(levels)


_LEVELS: Final = _levels()


def _cross(a: Array, b: Array) -> Array:
    """Cross products along axis 1, rounded exactly as by :func:`numpy.cross`."""
    ax, ay, az = a[:, 0], a[:, 1], a[:, 2]
    bx, by, bz = b[:, 0], b[:, 1], b[:, 2]
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=1)


def positions(quats: Array, *, upright: bool) -> Array:
    """Joint positions (T, 22, 3) in metres, relative to the hips.

    Args:
        quats: (T, 22, 4) canonical local rotations.
        upright: apply the hips' rotation, so that y is up; False gives positions in the frame of the hips,
            where +x is the performer's left.
    """
    # Layout (joint, component, frame), one level at a time: few calls, each over contiguous memory.
    local = np.ascontiguousarray(quats.transpose(1, 2, 0))
    rotation = np.empty_like(local)
    position = np.zeros((len(CANONICAL_JOINTS), 3, len(quats)))
    rotation[0] = local[0] if upright else np.array([[1.0], [0.0], [0.0], [0.0]])
    for joints, parents in _LEVELS:
        parent_rotation, offset = rotation[parents], OFFSETS[joints][:, :, None]
        rotation[joints] = np.moveaxis(
            multiply(np.moveaxis(parent_rotation, 1, -1), np.moveaxis(local[joints], 1, -1)), -1, 1
        )
        twice = 2.0 * _cross(parent_rotation[:, 1:], offset)
        position[joints] = position[parents] + (
            offset + parent_rotation[:, :1] * twice + _cross(parent_rotation[:, 1:], twice)
        )
    return np.ascontiguousarray(position.transpose(2, 0, 1))


FAST_HZ: Final = 3.0
"""-3 dB point of six parameters and of the speed that onsets are looked for in."""

SLOW_HZ: Final = 1.0
"""-3 dB point of density and pulse."""

MOTION_HZ: Final = 6.6
"""-3 dB point of the positions before differentiation: keeps motion-capture noise out of the jerk."""

ENDS: Final = (9, 13, 17, 21, 5)
"""End effectors: hands, toes, head."""


def speeds(velocity: Array) -> tuple[Array, Array]:
    """Mean squared speed (T,) of the end effectors, and twice the kinetic energy per kilogram (T,).

    Args:
        velocity: (T, 22, 3) m/s.
    """
    speed2 = (velocity**2).sum(axis=-1)
    return speed2[:, ENDS].mean(axis=1), speed2 @ MASSES
