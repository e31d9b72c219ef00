"""Who is left out when a head is judged.

Frames 20 ms apart are all but equal: a frame left out alone is answered by its neighbours, and the error says
nothing. So whole takes are left out where another take demonstrates the same; a take that stands
alone is cut into blocks of time, and what lies within half a second of the block that is left out is not
learnt from either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Fold", "alone", "folds"]

F64 = npt.NDArray[np.float64]

MOST_FOLDS = 10
BLOCKS, SHORTEST_BLOCK, EMBARGO = 5, 25, 25
"""Blocks of a take that stands alone; frames of the shortest; frames beside a block that nobody learns."""

_NEAR, _ENOUGH, _LOOKED_AT = 0.1, 0.8, 200


@dataclass(frozen=True)
class Fold:
    """Frames to learn from and frames to be judged by, as numbers of frames of all takes in a row.

    ``left_out`` says of which takes the judged frames are; ``whole`` that nothing else of them is learnt.
    """

    left_out: tuple[int, ...]
    whole: bool
    learn: npt.NDArray[np.int64]
    judge: npt.NDArray[np.int64]


def alone(wanted: Sequence[F64]) -> list[int]:
    """Takes whose wanted values (frames, n) in 0..1 no other take demonstrates.

    A take has company when four fifths of its frames want values that some frame of another take wants
    within a tenth of each output's range.
    """
    thin = [y[:: max(1, len(y) // _LOOKED_AT)] for y in wanted]
    found = []
    for i, y in enumerate(thin):
        others = [z for j, z in enumerate(thin) if j != i]
        if not others:
            found.append(i)
            continue
        rest = np.concatenate(others)
        near = np.array([np.abs(rest - frame).max(1).min() for frame in y])
        if (near <= _NEAR).mean() < _ENOUGH:
            found.append(i)
    return found


def folds(wanted: Sequence[F64]) -> list[Fold]:
    """Folds over takes that want (frames, n) each, at most ten and five; none where nothing can be judged.

    A take that stands alone and is shorter than two blocks is learnt from, and never judged.
    """
    edges = np.cumsum([0, *(len(y) for y in wanted)])
    every = np.arange(edges[-1])
    single = alone(wanted)
    company = [i for i in range(len(wanted)) if i not in single]
    if len(company) > MOST_FOLDS:
        chosen = np.linspace(0, len(company) - 1, MOST_FOLDS).round().astype(int)
        company = [company[i] for i in chosen]
    made = []
    for i in company:
        mine = np.arange(edges[i], edges[i + 1])
        made.append(Fold((i,), True, np.setdiff1d(every, mine), mine))
    single = [i for i in single if len(wanted[i]) >= 2 * SHORTEST_BLOCK]
    if single:
        blocks = min(BLOCKS, *(len(wanted[i]) // SHORTEST_BLOCK for i in single))
        for b in range(blocks):
            hidden, judged = [], []
            for i in single:
                low, high = edges[i] + np.array([b, b + 1]) * len(wanted[i]) // blocks
                judged.append(np.arange(low, high))
                hidden.append(np.arange(max(low - EMBARGO, edges[i]), min(high + EMBARGO, edges[i + 1])))
            learn = np.setdiff1d(every, np.concatenate(hidden))
            if len(learn) >= SHORTEST_BLOCK:
                made.append(Fold(tuple(single), False, learn, np.concatenate(judged)))
    return made
