"""Augmentations that turn a canonical clip into another plausible movement, whose targets are recomputed."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.motion.rotations import from_vectors, multiply
from pyanticip.vocabulary import RATE
from training.teacher.kinematics import MIRROR, PARENTS

Array = NDArray[np.float64]

MIN_SPEED: Final = 0.8
"""Slowest playback speed of :func:`time_warp`, as a factor."""
MAX_SPEED: Final = 1.25
"""Fastest playback speed of :func:`time_warp`, as a factor."""

UPPER_BODY: Final = slice(1, 14)
"""Joints of spine, head and arms."""


def mirror(quats: NDArray[np.floating], root: NDArray[np.floating]) -> tuple[Array, Array]:
    """Exchange left and right by reflection in x = 0: (T, 22, 4) and (T, 3) to the same shapes.

    A rotation (w, x, y, z) reflected in x = 0 is (w, x, -y, -z).
    """
    turned = np.asarray(quats, dtype=np.float64)[:, MIRROR] * np.array([1.0, 1.0, -1.0, -1.0])
    return turned, np.asarray(root, dtype=np.float64) * np.array([-1.0, 1.0, 1.0])


def yaw(quats: NDArray[np.floating], root: NDArray[np.floating], angle: float) -> tuple[Array, Array]:
    """Turn the clip about the vertical by ``angle`` radians; only the hips and the root change."""
    turned = np.array(quats, dtype=np.float64)
    turn = np.array([np.cos(angle / 2.0), 0.0, np.sin(angle / 2.0), 0.0])
    turned[:, 0] = multiply(np.broadcast_to(turn, turned[:, 0].shape), turned[:, 0])
    x, y, z = np.asarray(root, dtype=np.float64).T
    c, s = np.cos(angle), np.sin(angle)
    return turned, np.column_stack([c * x + s * z, y, c * z - s * x])


def _slerp(a: Array, b: Array, t: Array) -> Array:
    """Shortest-arc slerp of (T, J, 4) by t (T, 1, 1); near-equal rotations are interpolated linearly."""
    dot = (a * b).sum(axis=-1, keepdims=True)
    b = np.where(dot < 0.0, -b, b)
    angle = np.arccos(np.clip(np.abs(dot), 0.0, 1.0))
    sine = np.sin(angle)
    near = sine < 1e-4
    safe = np.where(near, 1.0, sine)
    wa = np.where(near, 1.0 - t, np.sin((1.0 - t) * angle) / safe)
    wb = np.where(near, t, np.sin(t * angle) / safe)
    mixed = wa * a + wb * b
    return np.asarray(mixed / np.linalg.norm(mixed, axis=-1, keepdims=True), dtype=np.float64)


def resample_at(
    quats: NDArray[np.floating], root: NDArray[np.floating], at: NDArray[np.floating]
) -> tuple[Array, Array]:
    """Sample the clip at fractional frames ``at`` (N,) from 0 to T - 1: slerp, linear for the root."""
    q, r = np.asarray(quats, dtype=np.float64), np.asarray(root, dtype=np.float64)
    low = np.clip(np.floor(at).astype(np.int64), 0, max(len(q) - 2, 0))
    high = np.minimum(low + 1, len(q) - 1)
    weight = np.clip(at - low, 0.0, 1.0)
    rotated = _slerp(q[low], q[high], weight[:, None, None])
    return rotated, r[low] + (r[high] - r[low]) * weight[:, None]


def time_warp(
    quats: NDArray[np.floating],
    root: NDArray[np.floating],
    rate: float,
    rng: np.random.Generator,
    *,
    hold: bool = False,
) -> tuple[Array, Array]:
    """Resample the clip to 50 Hz, played at a smoothly changing 0.8 to 1.25 times its speed.

    The logarithm of the speed is a constant plus a slow sinusoid (period 2 to 8 s), kept inside the bounds.
    With ``hold`` the movement also stops once, for 0.4 to 2 s, with ramps of 0.2 s on either side.

    Args:
        quats: (T, 22, 4) at the recorded rate, so that one interpolation both warps and resamples.
        root: (T, 3) metres.
        rate: frames per second of ``quats`` and ``root``.
        rng: source of the speed.
        hold: whether the movement stops once.
    """
    frames = len(quats)
    bound = np.log(MAX_SPEED)
    base = rng.uniform(-0.7, 0.7) * bound
    swing = rng.uniform(0.0, 1.0) * (bound - abs(base))
    period = rng.uniform(100.0, 400.0)
    phase = rng.uniform(0.0, 2.0 * np.pi)
    step = rate / RATE
    index = np.arange(int(np.ceil(frames / (MIN_SPEED * step))) + 2)
    speed = step * np.exp(base + swing * np.sin(2.0 * np.pi * index / period + phase))
    if hold:
        hold_frames, ramp = int(rng.integers(20, 100)), 10
        gate = np.pad(np.zeros(hold_frames), 2 * ramp, constant_values=1.0)
        gate = np.convolve(gate, np.hanning(ramp + 2)[1:-1] / np.hanning(ramp + 2).sum(), mode="valid")
        start = int(rng.integers(0, len(speed)))
        slowdown = np.ones(len(speed) + len(gate))
        slowdown[start : start + len(gate)] = gate
        speed = np.concatenate([speed, speed[-1:].repeat(len(gate))]) * slowdown
    at = np.concatenate([[0.0], np.cumsum(speed[:-1])])
    return resample_at(quats, root, at[at <= frames - 1])


def without(quats: NDArray[np.floating], joint: int) -> Array:
    """Remove a joint from a clip (T, 22, 4): it becomes the identity, its children take its rotation over.

    Every other joint keeps its global rotation, as in retargeting.
    """
    turned = np.array(quats, dtype=np.float64)
    for child, parent in enumerate(PARENTS):
        if parent == joint:
            turned[:, child] = multiply(turned[:, joint], turned[:, child])
    turned[:, joint] = (1.0, 0.0, 0.0, 0.0)
    return turned


def posture(quats: NDArray[np.floating], spread: float, rng: np.random.Generator) -> Array:
    """Add a constant random rotation to every joint of a clip (T, 22, 4) but the hips: another posture.

    Args:
        quats: canonical rotations.
        spread: standard deviation of the rotation about each axis, radians.
        rng: source of the rotations.
    """
    turned = np.array(quats, dtype=np.float64)
    turns = from_vectors(rng.normal(0.0, spread, (turned.shape[1], 3)))
    turns[0] = (1.0, 0.0, 0.0, 0.0)
    return multiply(np.broadcast_to(turns, turned.shape), turned)


def exaggerate(quats: NDArray[np.floating], factor: float) -> Array:
    """Scale every joint's rotation away from its mean rotation by ``factor``; (T, 22, 4) in and out.

    The hips are left alone: a turn on the spot has no meaningful mean rotation.
    """
    turned = np.array(quats, dtype=np.float64)
    body = turned[:, 1:]
    body = np.where((body * body[:1]).sum(axis=-1, keepdims=True) < 0.0, -body, body)
    mean = body.mean(axis=0)
    mean /= np.maximum(np.linalg.norm(mean, axis=-1, keepdims=True), 1e-9)
    mean = np.broadcast_to(mean, body.shape)
    deviation = multiply(mean * np.array([1.0, -1.0, -1.0, -1.0]), body)
    deviation = np.where(deviation[..., :1] < 0.0, -deviation, deviation)
    sine = np.linalg.norm(deviation[..., 1:], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, deviation[..., :1])
    axis = deviation[..., 1:] / np.maximum(sine, 1e-12)
    # Beyond half a turn, a larger angle would wrap around.
    scaled = np.minimum(angle * factor, np.maximum(angle, 0.95 * np.pi))
    turned[:, 1:] = multiply(mean, from_vectors(axis * scaled))
    return turned


def tilt(quats: NDArray[np.floating], vector: NDArray[np.floating]) -> Array:
    """Rotate the whole body of a clip (T, 22, 4) by a constant rotation vector (3,), radians."""
    turned = np.array(quats, dtype=np.float64)
    turn = from_vectors(np.asarray(vector, dtype=np.float64))
    turned[:, 0] = multiply(np.broadcast_to(turn, turned[:, 0].shape), turned[:, 0])
    return turned


def upper_body_of(quats: NDArray[np.floating], other: NDArray[np.floating]) -> Array:
    """Combine hips and legs of one clip with spine, head and arms of ``other``; as long as the shorter."""
    frames = min(len(quats), len(other))
    mixed = np.array(quats[:frames], dtype=np.float64)
    mixed[:, UPPER_BODY] = other[:frames, UPPER_BODY]
    return mixed
