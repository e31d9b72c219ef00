"""A small humanoid that moves, as a BVH file: for tests that need any file a suit could have made."""

from pathlib import Path

import numpy as np

import pyanticip as pa
from pyanticip.motion.bvh_write import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.rotations import from_euler


def walking_clip(seconds: float = 1.0, rate: float = 120.0, pace: float = 1.0) -> pa.Clip:
    """The canonical body swinging its limbs at a pace, `seconds` at `rate`."""
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
