"""Does commitment foretell what can be foretold? Of sequences and embeddings alone, before any training."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip import vector_scalars
from training.tasks.token.metrics import correlation
from training.tasks.token.synthetic import synthetic

NEIGHBOURS: Final = (2, 4, 8)

DATA: Final[dict[str, dict[str, Any]]] = {
    "the paper's phases, 1000 symbols": {"vocab": 1000},
    "the paper's phases, 32 symbols": {"vocab": 32},
    "chained, motifs 2 to 4 times, 32 symbols": {"vocab": 32, "chained": True},
    "chained, motifs 4 to 9 times, 32 symbols": {"vocab": 32, "chained": True, "repeats": (4, 9)},
}


def recalled(ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where the token that followed the last visit of the same token comes again: (N, L - 1).

    Position t says whether token t + 1 could have been copied; a token never seen before cannot.

    >>> recalled(np.array([[1, 2, 3, 1, 2, 4]])).astype(int).tolist()
    [[0, 0, 0, 1, 0]]
    """
    rows, length = ids.shape
    found = np.zeros((rows, length - 1), dtype=bool)
    for row in range(rows):
        follower: dict[int, int] = {}
        for t in range(length - 1):
            token, after = int(ids[row, t]), int(ids[row, t + 1])
            found[row, t] = follower.get(token) == after
            follower[token] = after
    return found


def foretelling(
    *,
    sequences: int = 400,
    length: int = 64,
    width: int = 64,
    neighbours: Sequence[int] = NEIGHBOURS,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Correlation of the given commitment with a miss of copying, over data and numbers of neighbours.

    Embeddings are independent normal vectors, as a model's are at its start; commitment is wanted to be *low*
    where copying misses, a negative correlation.

    Returns:
        Rows with ``data``, ``neighbours``, ``misses`` (their share), ``commitment`` and ``uncertainty``
        (correlations with their intervals), ``std`` of the commitment.
    """
    rows = []
    for name, options in DATA.items():
        ids = synthetic(length=length, sequences=sequences, seed=seed, **options).ids
        vectors = np.random.default_rng(seed).normal(size=(int(ids.max()) + 1, width))
        misses = (~recalled(ids)).astype(np.float64)
        mask = np.ones_like(misses, dtype=bool)
        for k in neighbours:
            given = vector_scalars(vectors[ids], k=k)[:, :-1]
            rows.append(
                {
                    "data": name,
                    "neighbours": k,
                    "misses": round(float(misses.mean()), 4),
                    "commitment": correlation(given[..., 0], misses, mask, seed=seed).to_dict(3),
                    "uncertainty": correlation(given[..., 1], misses, mask, seed=seed).to_dict(3),
                    "std": round(float(given[..., 0].std()), 4),
                }
            )
    return rows
