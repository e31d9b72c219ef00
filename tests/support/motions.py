"""Motions with known properties, made from a seed."""

import numpy as np

from pyanticip import _core
from pyanticip.motion.rotations import from_vectors


def swings(frames, joints, seed=0, rate=50.0):
    """Three incommensurable swings a joint about a fixed axis: smooth motion. (T, J, 4)."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames)[:, None] / rate
    axis = rng.normal(size=(joints, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    angle = sum(
        rng.uniform(0.1, 0.4, joints) * np.sin(2 * np.pi * f * t + rng.uniform(0, 2 * np.pi, joints))
        for f in (0.31, 0.73, 1.37)
    )
    return np.concatenate([np.cos(angle / 2)[..., None], np.sin(angle / 2)[..., None] * axis], axis=-1)


def noise(frames, joints, seed=0):
    """Independent rotations. (T, J, 4)."""
    q = np.random.default_rng(seed).normal(size=(frames, joints, 4))
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def posed(turns):
    """The canonical body in its rest pose but for joints turned by rotation vectors, degrees. (22, 4)."""
    quats = np.zeros((22, 4), np.float32)
    quats[:, 0] = 1.0
    for name, degrees in turns.items():
        quats[_core.CANONICAL_JOINTS.index(name)] = from_vectors(np.radians(degrees))
    return quats


def still(frames, joints, amount=1e-4, seed=0):
    """One pose with sensor noise of ``amount`` radians. (T, J, 4)."""
    rng = np.random.default_rng(seed)
    q = noise(1, joints, seed) + 0.5 * amount * rng.normal(size=(frames, joints, 4))
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def stop_and_go(frames, joints, seed=0):
    """Swings that hold still for a while and return, with repeated frames. (T, J, 4)."""
    clock = np.cumsum((np.arange(frames) // 40) % 3 > 0)
    return swings(int(clock[-1]) + 1, joints, seed)[clock]


def turning(frames, joints, seed=0):
    """Whole turns: every joint passes through every angle about its axis. (T, J, 4)."""
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=(joints, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    angle = np.arange(frames)[:, None] * rng.uniform(0.02, 0.2, joints)
    return np.concatenate([np.cos(angle / 2)[..., None], np.sin(angle / 2)[..., None] * axis], axis=-1)


def walk(frames, dim, seed=0):
    """A random walk. (T, d)."""
    return np.cumsum(np.random.default_rng(seed).normal(size=(frames, dim)), axis=0)


def table():
    """The sequences of the reference table, (300, d) each, with their values (C, U, T, R, P, N, S)."""
    t = np.arange(300)
    rng = np.random.default_rng(0)
    return {
        "straight line": (np.stack([0.1 * t, 0.2 * t], 1), (1, 0, 0, 0, 1, 0.0056, 1), 1e-3),
        "circle": (
            np.stack([np.cos(2 * np.pi * t / 50), np.sin(2 * np.pi * t / 50)], 1),
            (0.974, 0.011, 0, 0.056, 0.996, 0, 0.996),
            6e-4,
        ),
        "constant": (np.ones((300, 3)), (0.4, 0, 0, 1, 0.5, 0, 1), 1e-12),
        "zigzag": (np.stack([t % 2, 0 * t], 1).astype(float), (0.759, 0, 0, 0.005, 0, 0, 0), 6e-4),
        "random walk": (walk(300, 8), (0.41, 0.98, 0, 0.13, 0.52, 0.05, 0.40), 0.06),
        "noise": (rng.normal(size=(300, 64)), (0.31, 0.98, 0, 0.19, 0.25, 0.46, 0.21), 0.02),
    }


def tokens(frames, vocab, dim, seed=0):
    """Embeddings of random ids: rows repeat to the bit, so distances tie exactly. (T, d)."""
    rng = np.random.default_rng(seed)
    # Few ids are common, most are rare, as in text.
    weights = 1 / (1 + np.arange(vocab))
    ids = rng.choice(vocab, frames, p=weights / weights.sum())
    return rng.normal(size=(vocab, dim))[ids]


def hard():
    """Vector sequences on which implementations of the scalars come apart: name to (T, d)."""
    rng = np.random.default_rng(7)
    jump = np.concatenate([rng.normal(size=(70, 4)), 1e3 + rng.normal(size=(90, 4))])
    return {
        **{name: x[:160] for name, (x, _, _) in table().items()},
        "tokens": tokens(160, 12, 16),
        "one-hot tokens": np.eye(5)[rng.integers(0, 5, 160)],
        "two tokens": tokens(160, 2, 3),
        "jump": jump,
        "far away": rng.normal(size=(160, 3)) + 1e3,
        "stop and go": np.repeat(walk(40, 5), 4, axis=0),
        "there and back": np.abs((np.arange(160) % 40) - 20.0)[:, None] * [1.0, 2.0],
        "tiny": 1e-12 * walk(160, 3),
        "huge": 1e60 * walk(160, 3),
        "one dimension": rng.normal(size=(160, 1)),
        "missing": np.where(np.arange(160)[:, None] % 11 == 0, np.nan, walk(160, 3)),
    }


def covering(names, variants, each=2):
    """Pairs (name, variant): the first variant with every name, every other with a few of them in turn."""
    names = list(names)
    rest = enumerate(variants[1:])
    some = [(names[(each * n + i) % len(names)], variant) for n, variant in rest for i in range(each)]
    return [(name, variants[0]) for name in names] + some


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
    return [_core.encode_frame("vmc", i, i / rate, local[i], positions[i]) for i in range(frames)]
