"""Small movements to teach with: made, short, each unlike the others."""

import numpy as np

from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import Clip

LEFT_ARM, RIGHT_ARM, SPINE = 7, 11, 1


def swing(
    seconds: float, *, joint: int = RIGHT_ARM, speed: float = 1.0, level: float = 0.0, seed: int = 0
) -> Clip:
    """A joint that turns about z: ``level`` radians, and a swing of ``speed`` Hz about it."""
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
