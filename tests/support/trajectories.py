"""Vector sequences on which implementations of the scalars come apart, made from a seed."""

import numpy as np

from support import motions


def tokens(frames, vocab, dim, seed=0):
    """Embeddings of random ids: rows repeat to the bit, so distances tie exactly. (T, d)."""
    rng = np.random.default_rng(seed)
    # Few ids are common, most are rare, as in text.
    weights = 1 / (1 + np.arange(vocab))
    ids = rng.choice(vocab, frames, p=weights / weights.sum())
    return rng.normal(size=(vocab, dim))[ids]


def table():
    """Name to (T, d)."""
    rng = np.random.default_rng(7)
    jump = np.concatenate([rng.normal(size=(70, 4)), 1e3 + rng.normal(size=(90, 4))])
    return {
        **{name: x[:160] for name, (x, _, _) in motions.table().items()},
        "tokens": tokens(160, 12, 16),
        "one-hot tokens": np.eye(5)[rng.integers(0, 5, 160)],
        "two tokens": tokens(160, 2, 3),
        "jump": jump,
        "far away": rng.normal(size=(160, 3)) + 1e3,
        "stop and go": np.repeat(motions.walk(40, 5), 4, axis=0),
        "there and back": np.abs((np.arange(160) % 40) - 20.0)[:, None] * [1.0, 2.0],
        "tiny": 1e-12 * motions.walk(160, 3),
        "huge": 1e60 * motions.walk(160, 3),
        "one dimension": rng.normal(size=(160, 1)),
        "missing": np.where(np.arange(160)[:, None] % 11 == 0, np.nan, motions.walk(160, 3)),
    }
