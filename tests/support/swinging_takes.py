"""Sets of people who swing their limbs: enough to train on, made in a second."""

import numpy as np

import pyanticip as pa
from pyanticip.motion.bvh_write import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from training.data.sets import build


def write_take(path, frames, seed, size=1.2):
    """Arms and legs that swing and rest, each at a pace of its own."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames) / 50.0
    angle = size * np.sin(2.0 * np.pi * rng.uniform(0.7, 1.3, (1, 22)) * t[:, None])
    angle *= 0.5 + 0.5 * np.sin(2.0 * np.pi * 0.2 * t)[:, None]
    angle[:, :2] = 0.0
    quats = np.zeros((frames, 22, 4), dtype=np.float32)
    quats[..., 0], quats[..., 1] = np.cos(angle / 2.0), np.sin(angle / 2.0)
    root = np.tile(np.array([0.0, 0.95, 0.0], dtype=np.float32), (frames, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    save_bvh(pa.Clip(quats, root, 50.0, canonical_skeleton()), path)


def set_of(folder, people, *, frames=240, size=1.2, min_seconds=1.6):
    """A set of one take each of some people, who say which side they are on."""
    for number, who in enumerate(people):
        write_take(folder / "takes" / who / "take.bvh", frames, number, size)
    sides = "".join(f'{who} = "{side}"\n' for who, side in people.items())
    (folder / "sides.toml").write_text(sides)
    build(folder / "takes", folder / "set", split_file=folder / "sides.toml", min_seconds=min_seconds)
    return folder / "set"
