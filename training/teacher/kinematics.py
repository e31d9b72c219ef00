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
from pyanticip.vocabulary import CANONICAL_JOINTS

Array = NDArray[np.float64]

PARENTS: Final = _core.CANONICAL_PARENTS
"""Parent of each canonical joint, -1 for the hips."""

_LEFT: Final = {
    6: (0.03, 0.10, 0.0),
    7: (0.13, 0.0, 0.0),
    8: (0.28, 0.0, 0.0),
    9: (0.25, 0.0, 0.0),
    14: (0.09, -0.05, 0.0),
    15: (0.0, -0.41, 0.0),
    16: (0.0, -0.41, 0.0),
    17: (0.0, -0.06, 0.14),
}
_TRUNK: Final = {
    1: (0.0, 0.10, 0.0),
    2: (0.0, 0.13, 0.0),
    3: (0.0, 0.14, 0.0),
    4: (0.0, 0.15, 0.0),
    5: (0.0, 0.09, 0.01),
}

MIRROR: Final = (0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 6, 7, 8, 9, 18, 19, 20, 21, 14, 15, 16, 17)
"""For each joint the joint of the other side."""


def _offsets() -> Array:
    table = np.zeros((len(CANONICAL_JOINTS), 3))
    for joint, offset in _TRUNK.items():
        table[joint] = offset
    for joint, offset in _LEFT.items():
        table[joint] = offset
        table[MIRROR[joint]] = (-offset[0], offset[1], offset[2])
    return table


OFFSETS: Final[Array] = _offsets()
"""(22, 3) metres from the parent joint in the rest pose: the canonical body, 1.7 m tall, frozen here."""

_MASS_LEFT: Final = {7: 0.027, 8: 0.022, 9: 0.012, 14: 0.10, 15: 0.06, 16: 0.03, 17: 0.01}
_MASS_TRUNK: Final = {0: 0.142, 2: 0.16, 3: 0.17, 5: 0.08}


def _masses() -> Array:
    table = np.zeros(len(CANONICAL_JOINTS))
    for joint, mass in _MASS_TRUNK.items():
        table[joint] = mass
    for joint, mass in _MASS_LEFT.items():
        table[joint] = table[MIRROR[joint]] = mass
    return np.asarray(table / table.sum(), dtype=np.float64)


MASSES: Final[Array] = _masses()
"""(22,) share of the body's mass that moves with each joint, sum 1 (after Dempster's segment masses)."""


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


def multiply(a: Array, b: Array) -> Array:
    """Hamilton product of quaternions (..., 4), w first."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def rotate(q: Array, v: Array) -> Array:
    """Rotate vectors (..., 3) by unit quaternions (..., 4)."""
    w, u = q[..., :1], q[..., 1:]
    t = 2.0 * np.cross(u, v)
    return v + w * t + np.cross(u, t)


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
