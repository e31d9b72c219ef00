"""Forward kinematics of the teacher's body: canonical rotations in, joint positions in metres out.

The body is a fixed table, the same for every performer and every suit, so that a tall and a short
performer who make the same movement are taught the same parameters. Conventions are the library's:
right-handed, y up, metres, quaternions w,x,y,z, local to the parent; the rest pose is a T-pose that faces
+z, so the left hand points to +x.
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
"""For each joint the joint of the other side."""

OFFSETS: Final[Array] = np.array(_core.CANONICAL_OFFSETS)
"""(22, 3) metres from the parent joint in the rest pose: the canonical body, 1.7 m tall, frozen."""

MASSES: Final[Array] = np.array(SEGMENT_MASSES) / np.sum(SEGMENT_MASSES)
"""(22,) share of the body's mass that moves with each joint, sum 1."""


def check_quats(quats: NDArray[np.floating]) -> Array:
    """Return ``quats`` as float64, refusing anything that is not (T, 22, 4) and finite.

    Raises:
        ShapeError: another shape, or a value that is not a number.
    """
    found = np.asarray(quats, dtype=np.float64)
    if found.ndim != 3 or found.shape[1:] != (len(CANONICAL_JOINTS), 4):
        raise ShapeError(f"canonical rotations must be (T, {len(CANONICAL_JOINTS)}, 4), given {found.shape}")
    if not np.isfinite(found).all():
        raise ShapeError("canonical rotations must be finite, given NaN or infinity")
    return found


def _levels() -> tuple[tuple[list[int], list[int]], ...]:
    """Joints and their parents, those of one distance from the hips together."""
    depth = [0] * len(CANONICAL_JOINTS)
    for joint, parent in enumerate(PARENTS):
        depth[joint] = 0 if parent < 0 else depth[parent] + 1
    levels = []
    for level in range(1, max(depth) + 1):
        joints = [joint for joint, found in enumerate(depth) if found == level]
        levels.append((joints, [PARENTS[joint] for joint in joints]))
    return tuple(levels)


_LEVELS: Final = _levels()


def _cross(a: Array, b: Array) -> Array:
    """Cross products along axis 1, as :func:`numpy.cross` rounds them."""
    ax, ay, az = a[:, 0], a[:, 1], a[:, 2]
    bx, by, bz = b[:, 0], b[:, 1], b[:, 2]
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=1)


def positions(quats: Array, *, upright: bool) -> Array:
    """Joint positions (T, 22, 3) in metres, relative to the hips.

    Args:
        quats: (T, 22, 4) canonical local rotations.
        upright: with the hips' own rotation (heights are then against gravity); False gives the
            positions in the hips' frame, where +x is the performer's left.
    """
    # Joint, component, frame, and level by level: few calls, each along memory.
    local = np.ascontiguousarray(quats.transpose(1, 2, 0))
    turn = np.empty_like(local)
    place = np.zeros((len(CANONICAL_JOINTS), 3, len(quats)))
    turn[0] = local[0] if upright else np.array([[1.0], [0.0], [0.0], [0.0]])
    for joints, parents in _LEVELS:
        above, offset = turn[parents], OFFSETS[joints][:, :, None]
        turn[joints] = np.moveaxis(
            multiply(np.moveaxis(above, 1, -1), np.moveaxis(local[joints], 1, -1)), -1, 1
        )
        twice = 2.0 * _cross(above[:, 1:], offset)
        place[joints] = place[parents] + (offset + above[:, :1] * twice + _cross(above[:, 1:], twice))
    return np.ascontiguousarray(place.transpose(2, 0, 1))


FAST_HZ: Final = 3.0
"""-3 dB point of the speed that beats are looked for in, and of six parameters."""

SLOW_HZ: Final = 1.0
"""-3 dB point of density and pulse."""

MOTION_HZ: Final = 6.6
"""-3 dB point of the positions before they are differentiated: mocap noise stays out of the jerk."""

ENDS: Final = (9, 13, 17, 21, 5)
"""The five ends of the body: hands, toes, head."""


def speeds(velocity: Array) -> tuple[Array, Array]:
    """Mean squared speed (T,) of the ends, and kinetic energy per kilogram x 2, of velocities (T, 22, 3)."""
    speed2 = (velocity**2).sum(axis=-1)
    return speed2[:, ENDS].mean(axis=1), speed2 @ MASSES
