"""A synthetic performer for the benches: smooth, non-repeating, without a file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pyanticip.vocabulary import RATE

# A plausible body in mocopi's bone order: root, seven torsos, neck, head, arms, legs. Metres.
_TORSO = [(0.0, 0.95, 0.0)] + [(0.0, 0.06, 0.0)] * 7 + [(0.0, 0.06, 0.0), (0.0, 0.05, 0.0), (0.0, 0.06, 0.0)]


def _offsets() -> npt.NDArray[np.float32]:
    arm = [(0.04, 0.04, 0.0), (0.12, 0.0, 0.0), (0.27, 0.0, 0.0), (0.24, 0.0, 0.0)]
    leg = [(0.09, -0.03, 0.0), (0.0, -0.42, 0.0), (0.0, -0.4, 0.0), (0.0, -0.06, 0.12)]
    mirrored = [[(-x, y, z) for x, y, z in limb] for limb in (arm, leg)]
    return np.array([*_TORSO, *arm, *mirrored[0], *leg, *mirrored[1]], dtype=np.float32)


def sway(frames: int, joints: int, rate: float = RATE, seed: int = 0) -> npt.NDArray[np.float32]:
    """Unit quaternions wxyz (frames, joints, 4); every joint oscillates about its own axis, .05 to 1.5 Hz."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames)[:, None] / rate
    axis = rng.standard_normal((joints, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    slow, fast = rng.uniform(0.05, 0.3, joints), rng.uniform(0.4, 1.5, joints)
    phase = rng.uniform(0, 2 * np.pi, (2, joints))
    angle = 0.5 * np.sin(2 * np.pi * slow * t + phase[0]) + 0.2 * np.sin(2 * np.pi * fast * t + phase[1])
    quats = np.concatenate([np.cos(angle / 2)[..., None], np.sin(angle / 2)[..., None] * axis], axis=-1)
    return quats.astype(np.float32)


def mocopi_datagrams(frames: int, rate: float = RATE) -> tuple[bytes, list[bytes]]:
    """The skeleton datagram and ``frames`` frame datagrams of a mocopi suit."""
    from pyanticip._core import MOCOPI_PARENTS, encode_mocopi_frame, encode_mocopi_skeleton

    offsets = _offsets()
    quats = sway(frames, len(MOCOPI_PARENTS), rate)
    skeleton = encode_mocopi_skeleton(MOCOPI_PARENTS, offsets)
    out = []
    for k in range(frames):
        positions = offsets.copy()
        positions[0, 0] += 0.3 * np.sin(2 * np.pi * 0.1 * k / rate)
        out.append(encode_mocopi_frame(k, quats[k], positions, stream_time=k / rate))
    return skeleton, out
