"""Short synthetic clips of the canonical body: swinging limbs, and walking."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pyanticip as pa
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import Clip
from pyanticip.motion.rotations import from_euler

LEFT_ARM, RIGHT_ARM, SPINE = 7, 11, 1


def turning(angles: dict[int, NDArray[np.float64]], axis: int = 2) -> NDArray[np.float32]:
    """Rotations (T, 22, 4) of joints about one axis (0 x, 1 y, 2 z) by angles (T,), rad; the others rest."""
    quats = np.zeros((len(next(iter(angles.values()))), 22, 4), np.float32)
    quats[..., 0] = 1.0
    for joint, angle in angles.items():
        quats[:, joint, 0], quats[:, joint, 1 + axis] = np.cos(angle / 2), np.sin(angle / 2)
    return quats


def swing(
    seconds: float, *, joint: int = RIGHT_ARM, speed: float = 1.0, level: float = 0.0, seed: int = 0
) -> Clip:
    """A joint that oscillates about z with ``speed`` Hz around an angle of ``level`` radians."""
    frames = round(seconds * 50)
    t = np.arange(frames) / 50.0
    random = np.random.default_rng(seed)
    quats = np.zeros((frames, 22, 4))
    quats[..., 0] = 1.0
    quats[..., 1:] += 0.01 * random.normal(size=(1, 22, 3))
    angle = level + 0.6 * np.sin(2 * np.pi * speed * t + random.uniform(0, 6))
    quats[:, joint] = np.stack([np.cos(angle / 2), 0 * angle, 0 * angle, np.sin(angle / 2)], 1)
    quats /= np.linalg.norm(quats, axis=-1, keepdims=True)
    root = np.tile([0.0, 0.95, 0.0], (frames, 1))
    return Clip(quats.astype(np.float32), root.astype(np.float32), 50.0, canonical_skeleton(), name="swing")


def walking_clip(seconds: float = 1.0, rate: float = 120.0, pace: float = 1.0) -> pa.Clip:
    """The canonical body swinging its limbs for `seconds` at `rate`; `pace` multiplies their frequencies."""
    skeleton = canonical_skeleton()
    frames = round(seconds * rate)
    t = np.arange(frames)[:, None] / rate
    phase = np.arange(22)[None]
    angles = 0.4 * np.stack([np.sin(2 * np.pi * t * f * pace + phase) for f in (0.5, 0.8, 1.1)], axis=-1)
    quats = from_euler(angles, (2, 1, 0)).astype(np.float32)
    root = np.concatenate((0.3 * t, 0.95 + 0.02 * np.sin(6 * t), 0.8 * t), axis=1).astype(np.float32)
    return pa.Clip(quats, root, rate, skeleton, name="walk")


def write_walk(folder: Path, seconds: float = 1.0, rate: float = 120.0) -> Path:
    path = folder / "walk.bvh"
    save_bvh(walking_clip(seconds, rate), path)
    return path
