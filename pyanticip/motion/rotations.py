"""Vectorised quaternion arithmetic on NumPy arrays, for whole clips.

Quaternions are Hamilton, ordered w, x, y, z, in the last axis; every function broadcasts over the leading
axes. The live path uses the Rust core instead.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]


def _components(values: Floats) -> tuple[Doubles, ...]:
    """The components of quaternions or vectors, as separate arrays in double precision."""
    array = np.asarray(values, np.float64)
    return tuple(array[..., index] for index in range(array.shape[-1]))


def multiply(a: Floats, b: Floats) -> Doubles:
    """Hamilton product ``a * b``, shape (..., 4): rotate by ``b`` first, then by ``a``."""
    aw, ax, ay, az = _components(a)
    bw, bx, by, bz = _components(b)
    return np.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        axis=-1,
    )


def conjugate(q: Floats) -> Doubles:
    """The inverse of unit quaternions, shape (..., 4)."""
    result: Doubles = np.asarray(q, np.float64) * np.array((1.0, -1.0, -1.0, -1.0))
    return result


def from_vectors(vectors: Floats) -> Doubles:
    """Quaternions (..., 4) of rotation vectors (..., 3): axis times angle."""
    angles = np.linalg.norm(vectors, axis=-1, keepdims=True)
    # sinc is smooth at 0: sin(a/2)/a = sinc(a / 2 pi) / 2
    return np.concatenate((np.cos(0.5 * angles), 0.5 * np.sinc(angles / (2.0 * np.pi)) * vectors), axis=-1)


def rotate(q: Floats, v: Floats) -> Doubles:
    """Rotate vectors ``v`` (..., 3) by unit quaternions ``q`` (..., 4)."""
    w, x, y, z = _components(q)
    a, b, c = _components(v)
    # v + 2 w (u x v) + 2 u x (u x v), u the vector part of q
    ta, tb, tc = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return np.stack(
        (a + w * ta + y * tc - z * tb, b + w * tb + z * ta - x * tc, c + w * tc + x * tb - y * ta), axis=-1
    )


def child_transform(
    parent_rotation: Sequence[float],
    parent_position: Sequence[float],
    rotation: Sequence[float],
    position: Sequence[float],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """World rotation and position of a single joint, given its parent's.

    In plain floats, which are ten times faster than NumPy for one joint.

    Args:
        parent_rotation: World rotation of the parent, a unit quaternion.
        parent_position: World position of the parent.
        rotation: Local rotation of the joint, a unit quaternion.
        position: Local position of the joint.
    """
    aw, ax, ay, az = parent_rotation
    bw, bx, by, bz = rotation
    a, b, c = position
    ta, tb, tc = 2.0 * (ay * c - az * b), 2.0 * (az * a - ax * c), 2.0 * (ax * b - ay * a)
    return (
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        (
            parent_position[0] + a + aw * ta + ay * tc - az * tb,
            parent_position[1] + b + aw * tb + az * ta - ax * tc,
            parent_position[2] + c + aw * tc + ax * tb - ay * ta,
        ),
    )


def place_joints(
    parents: Sequence[int],
    offsets: Sequence[Sequence[float]],
    rotations: Sequence[Sequence[float]],
    root: Sequence[float],
) -> list[tuple[Sequence[float], Sequence[float]]]:
    """World rotation and position of every joint of one pose, in plain floats (:func:`child_transform`).

    Args:
        parents: Index of each joint's parent, which comes earlier; joint 0 has none.
        offsets: Position of each joint in its parent's frame; that of joint 0 is unused.
        rotations: Local rotations, unit quaternions.
        root: World position of joint 0.
    """
    world: list[tuple[Sequence[float], Sequence[float]]] = [(rotations[0], root)]
    for parent, offset, rotation in zip(parents[1:], offsets[1:], rotations[1:], strict=True):
        world.append(child_transform(*world[parent], rotation, offset))
    return world


def angle_between(a: Floats, b: Floats) -> Doubles:
    """The angle in radians, 0..pi, of the rotation that takes ``a`` to ``b``; shape (...)."""
    a = np.asarray(a, np.float64)
    b = np.asarray(b, np.float64)
    # atan2 of the chord lengths keeps its precision near 0 and pi, where acos of the dot has none.
    difference = np.linalg.norm(a - b, axis=-1)
    total = np.linalg.norm(a + b, axis=-1)
    return np.asarray(
        4.0 * np.arctan2(np.minimum(difference, total), np.maximum(difference, total)), np.float64
    )


def are_units(q: Floats) -> NDArray[np.bool_]:
    """Which quaternions (..., 4) are unit quaternions, within the precision of files; False for NaN."""
    squares = np.einsum("...c,...c->...", q, q)
    return np.asarray(np.abs(squares - 1.0) <= 2e-3)


def normalized(q: Floats) -> Doubles:
    """``q`` (..., 4) scaled to unit quaternions; none may be zero."""
    q = np.asarray(q, np.float64)
    return np.asarray(q / np.linalg.norm(q, axis=-1, keepdims=True), np.float64)


def from_euler(angles: Floats, axes: Sequence[int]) -> Doubles:
    """Quaternions of Euler angles: ``R = R_axes[0](angles[..., 0]) * R_axes[1](angles[..., 1]) ...``.

    Args:
        angles: Radians, shape (..., len(axes)); any size, not only -pi..pi.
        axes: 0, 1 or 2 (x, y or z) for each angle, the outermost rotation first. May be empty.

    Returns:
        Unit quaternions, shape (..., 4).
    """
    angles = np.asarray(angles, np.float64)
    half = 0.5 * angles
    cosines, sines = np.cos(half), np.sin(half)
    out = np.zeros((*angles.shape[:-1], 4))
    if not axes:
        out[..., 0] = 1.0
        return out
    zero = np.zeros(angles.shape[:-1])
    parts = [cosines[..., 0], zero, zero, zero]
    parts[1 + axes[0]] = sines[..., 0]
    w, x, y, z = parts
    for index, axis in enumerate(axes[1:], start=1):
        c, s = cosines[..., index], sines[..., index]
        if axis == 0:
            w, x, y, z = w * c - x * s, x * c + w * s, y * c + z * s, z * c - y * s
        elif axis == 1:
            w, x, y, z = w * c - y * s, x * c - z * s, y * c + w * s, z * c + x * s
        else:
            w, x, y, z = w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s
    out[..., 0], out[..., 1], out[..., 2], out[..., 3] = w, x, y, z
    return out


def from_axes(along: Floats, across: Floats) -> Doubles:
    """Rotations (..., 4) that take x to ``along`` (..., 3) and y as close to ``across`` (..., 3) as possible.

    The identity if the two are parallel or one is zero.
    """
    x = unit(along)
    z = unit(np.cross(x, across))
    m = np.stack((x, np.cross(z, x), z), axis=-1)
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    d, e, f = m[..., 0, 1] + m[..., 1, 0], m[..., 0, 2] + m[..., 2, 0], m[..., 1, 2] + m[..., 2, 1]
    i, j, k = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    four = (1.0 + i + j + k, 1.0 + i - j - k, 1.0 - i + j - k, 1.0 - i - j + k)
    rows = ((four[0], a, b, c), (a, four[1], d, e), (b, d, four[2], f), (c, e, f, four[3]))
    # The largest component first keeps this exact near half turns (Shepperd 1978).
    best = np.argmax(np.stack(four, axis=-1), axis=-1)[..., None, None]
    table = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    quats = normalized(np.take_along_axis(table, best, axis=-2)[..., 0, :])
    is_degenerate = (np.abs(z) < 0.5).all(axis=-1, keepdims=True)
    return np.where(is_degenerate, (1.0, 0.0, 0.0, 0.0), quats)


def rotation_between(a: Floats, b: Floats) -> Doubles:
    """The smallest rotations (..., 4) that take unit vectors ``a`` to ``b``, both (..., 3)."""
    w = 1.0 + (a * b).sum(axis=-1, keepdims=True)
    half_turn = unit(np.cross(a, np.eye(3)[np.argmin(np.abs(a), axis=-1)]))  # about any perpendicular axis
    quats = np.concatenate((w, np.cross(a, b)), axis=-1)
    return normalized(np.where(w < 1e-9, np.concatenate((np.zeros_like(w), half_turn), axis=-1), quats))


def unit(vectors: Floats) -> Doubles:
    """``vectors`` (..., 3) scaled to length 1; zero vectors stay zero."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12))


def to_euler_zyx(q: Floats) -> Doubles:
    """Angles (z, y, x) in radians with ``R = Rz * Ry * Rx``, shape (..., 3), from unit quaternions."""
    w, x, y, z = _components(q)
    # Halves of z - x and z + x; at a pole one of them is arbitrary and changes nothing.
    difference, total = np.arctan2(z - x, w + y), np.arctan2(z + x, w - y)
    pitch = 2.0 * np.arctan2(np.hypot(w + y, z - x), np.hypot(w - y, z + x)) - np.pi / 2.0
    turns = np.stack((total + difference, pitch, total - difference), axis=-1)
    return (turns + np.pi) % (2.0 * np.pi) - np.pi
