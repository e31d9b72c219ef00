"""A smooth motion, and it as each kind of suit sends it."""

import numpy as np

from pyanticip import _core


def dance(frames, rate=50.0):
    """A smooth canonical motion (frames, 22, 4), (frames, 3)."""
    t = np.arange(frames)[:, None] / rate
    angle = 0.6 * np.sin(t * (1.0 + 0.1 * np.arange(22)))
    axis = np.array([0.3, 0.5, 0.8]) / np.linalg.norm([0.3, 0.5, 0.8])
    quats = np.concatenate([np.cos(angle / 2)[..., None], np.sin(angle / 2)[..., None] * axis], axis=-1)
    root = np.concatenate([0.2 * np.sin(t), np.full_like(t, 0.95), 0.1 * t], axis=1)
    return quats.astype(np.float32), root.astype(np.float32)


def datagrams(source, frames, rate=50.0, motion=None):
    """A motion as a source sends it."""
    quats, root = motion or dance(frames, rate)
    if source == "msgpack":
        return [_core.encode_native_frame(i, i / rate, quats[i], root[i]) for i in range(frames)]
    local, place = _core.expand(source, quats, root)
    _, _, offsets = _core.standard_skeleton(source)
    positions = np.tile(offsets.astype(np.float32), (frames, 1, 1))
    positions[:, 0] = place
    if source == "mocopi":
        return [
            _core.encode_mocopi_frame(i, local[i], positions[i], unix_time=1.7e9 + i / rate)
            for i in range(frames)
        ]
    return [_core.encode_vmc_frame(local[i], positions[i], time=i / rate) for i in range(frames)]
