"""Changes of a canonical clip that leave it a movement someone could make; the teacher is asked again."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.motion.rotations import from_vectors, multiply
from pyanticip.vocabulary import RATE
from training.teacher.kinematics import MIRROR, PARENTS

Array = NDArray[np.float64]

SLOWEST: Final = 0.8
FASTEST: Final = 1.25

UPPER_BODY: Final = slice(1, 14)
"""Joints of spine, head and arms."""


def mirror(quats: NDArray[np.floating], root: NDArray[np.floating]) -> tuple[Array, Array]:
    """Left and right exchanged by reflection in x = 0: (T, 22, 4) and (T, 3) to the same shapes.

    A rotation (w, x, y, z) reflected in x = 0 is (w, x, -y, -z).
    """
    turned = np.asarray(quats, dtype=np.float64)[:, MIRROR] * np.array([1.0, 1.0, -1.0, -1.0])
    return turned, np.asarray(root, dtype=np.float64) * np.array([-1.0, 1.0, 1.0])


def yaw(quats: NDArray[np.floating], root: NDArray[np.floating], angle: float) -> tuple[Array, Array]:
    """The clip turned about the vertical by ``angle`` radians: hips and root change, the rest does not."""
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
    quats: NDArray[np.floating], root: NDArray[np.floating], where: NDArray[np.floating]
) -> tuple[Array, Array]:
    """The clip at fractional frames ``where`` (N,), each from 0 to T - 1: slerp, and linear for the root."""
    q, r = np.asarray(quats, dtype=np.float64), np.asarray(root, dtype=np.float64)
    low = np.clip(np.floor(where).astype(np.int64), 0, max(len(q) - 2, 0))
    high = np.minimum(low + 1, len(q) - 1)
    part = np.clip(where - low, 0.0, 1.0)
    turned = _slerp(q[low], q[high], part[:, None, None])
    return turned, r[low] + (r[high] - r[low]) * part[:, None]


def time_warp(
    quats: NDArray[np.floating],
    root: NDArray[np.floating],
    rate: float,
    rng: np.random.Generator,
    *,
    hold: bool = False,
) -> tuple[Array, Array]:
    """The clip at 50 Hz, played at a smoothly changing speed between 0.8 and 1.25 times its own.

    The logarithm of the speed is a constant plus a slow sinusoid (period 2 to 8 s), kept inside the bounds.
    With ``hold`` the movement also stops once, for 0.4 to 2 s, slowing down and starting again within 0.2 s.

    Args:
        quats: (T, 22, 4) at the rate it was recorded, so that one interpolation does both.
        root: (T, 3) metres.
        rate: frames per second of the two.
        rng: where the speed is drawn from.
        hold: whether the movement stops once.
    """
    frames = len(quats)
    room = np.log(FASTEST)
    base = rng.uniform(-0.7, 0.7) * room
    swing = rng.uniform(0.0, 1.0) * (room - abs(base))
    period = rng.uniform(100.0, 400.0)
    phase = rng.uniform(0.0, 2.0 * np.pi)
    step = rate / RATE
    count = np.arange(int(np.ceil(frames / (SLOWEST * step))) + 2)
    speed = step * np.exp(base + swing * np.sin(2.0 * np.pi * count / period + phase))
    if hold:
        length, ramp = int(rng.integers(20, 100)), 10
        gate = np.pad(np.zeros(length), 2 * ramp, constant_values=1.0)
        gate = np.convolve(gate, np.hanning(ramp + 2)[1:-1] / np.hanning(ramp + 2).sum(), mode="valid")
        start = int(rng.integers(0, len(speed)))
        stopped = np.ones(len(speed) + len(gate))
        stopped[start : start + len(gate)] = gate
        speed = np.concatenate([speed, speed[-1:].repeat(len(gate))]) * stopped
    where = np.concatenate([[0.0], np.cumsum(speed[:-1])])
    return resample_at(quats, root, where[where <= frames - 1])


def without(quats: NDArray[np.floating], joint: int) -> Array:
    """The clip (T, 22, 4) of a suit without a joint: identity there, its children take its rotation over.

    Every other joint keeps its rotation in the room, as retargeting does it.
    """
    turned = np.array(quats, dtype=np.float64)
    for child, parent in enumerate(PARENTS):
        if parent == joint:
            turned[:, child] = multiply(turned[:, joint], turned[:, child])
    turned[:, joint] = (1.0, 0.0, 0.0, 0.0)
    return turned


def posture(quats: NDArray[np.floating], spread: float, rng: np.random.Generator) -> Array:
    """The clip (T, 22, 4) by someone who holds every joint but the hips a little differently, all the time.

    Args:
        quats: canonical rotations.
        spread: standard deviation of the constant turn about each axis, radians.
        rng: where the turns are drawn from.
    """
    turned = np.array(quats, dtype=np.float64)
    turns = from_vectors(rng.normal(0.0, spread, (turned.shape[1], 3)))
    turns[0] = (1.0, 0.0, 0.0, 0.0)
    return multiply(np.broadcast_to(turns, turned.shape), turned)


def exaggerate(quats: NDArray[np.floating], factor: float) -> Array:
    """The clip (T, 22, 4) with every joint's swing about its mean rotation made ``factor`` times as wide.

    The hips keep their rotation: a turn on the spot has no mean to swing about.
    """
    turned = np.array(quats, dtype=np.float64)
    body = turned[:, 1:]
    body = np.where((body * body[:1]).sum(axis=-1, keepdims=True) < 0.0, -body, body)
    mean = body.mean(axis=0)
    mean /= np.maximum(np.linalg.norm(mean, axis=-1, keepdims=True), 1e-9)
    mean = np.broadcast_to(mean, body.shape)
    away = multiply(mean * np.array([1.0, -1.0, -1.0, -1.0]), body)
    away = np.where(away[..., :1] < 0.0, -away, away)
    sine = np.linalg.norm(away[..., 1:], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, away[..., :1])
    axis = away[..., 1:] / np.maximum(sine, 1e-12)
    # Past half a turn a wider swing would come round from the other side.
    wider = np.minimum(angle * factor, np.maximum(angle, 0.95 * np.pi))
    turned[:, 1:] = multiply(mean, from_vectors(axis * wider))
    return turned


def tilt(quats: NDArray[np.floating], vector: NDArray[np.floating]) -> Array:
    """The clip (T, 22, 4) with the whole body leant by a constant rotation vector (3,), radians."""
    turned = np.array(quats, dtype=np.float64)
    turn = from_vectors(np.asarray(vector, dtype=np.float64))
    turned[:, 0] = multiply(np.broadcast_to(turn, turned[:, 0].shape), turned[:, 0])
    return turned


def upper_body_of(quats: NDArray[np.floating], other: NDArray[np.floating]) -> Array:
    """Hips and legs of one clip, spine, head and arms of the other (T, 22, 4), as long as the shorter."""
    frames = min(len(quats), len(other))
    mixed = np.array(quats[:frames], dtype=np.float64)
    mixed[:, UPPER_BODY] = other[:frames, UPPER_BODY]
    return mixed
