"""Who is left out when a head is judged.

Frames 20 ms apart are all but equal: a frame left out alone is answered by its neighbours, and the error says
nothing. So whole takes are left out where another take demonstrates the same; a take that stands
alone is cut into blocks of time, and what lies within half a second of the block that is left out is not
learnt from either. Takes of the same recording, whole or in part, count as one take: they are left out
together, and no block is learnt from in another take that shows the same moment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Fold", "alone", "folds", "moments", "same_motion", "together"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

MOST_FOLDS = 10
BLOCKS, SHORTEST_BLOCK, EMBARGO = 5, 25, 25
"""Blocks of a take that stands alone; frames of the shortest; frames beside a block that nobody learns."""

JUDGE = 400
"""Frames that a fold's head is judged by, about."""

_NEAR, _ENOUGH, _LOOKED_AT = 0.1, 0.8, 200
# Takes that share more moments than this show the same motion: no body moves alike to the bit.
_SHARED = 10


@dataclass(frozen=True)
class Fold:
    """Frames to learn from and frames to be judged by, as numbers of frames of all takes in a row.

    ``left_out`` says of which takes the judged frames are; ``whole`` that nothing else of them is learnt.
    """

    left_out: tuple[int, ...]
    whole: bool
    learn: I64
    judge: I64

    @property
    def judged(self) -> I64:
        """Of the frames to be judged by, those that are: hundreds, evenly."""
        return self.judge[:: max(1, len(self.judge) // JUDGE)]


def moments(quats: npt.NDArray[np.float32]) -> I64:
    """What tells a frame of rotations (T, J, 4) from all others, to the bit (T,); 0: it comes back."""
    numbers = [
        int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=7).digest(), "little") + 1
        for row in np.ascontiguousarray(quats)
    ]
    found = np.array(numbers, np.int64)
    # A pose that is held, or computed time and again, may be the same in any number of takes.
    _, place, count = np.unique(found, return_inverse=True, return_counts=True)
    return np.where(count[place] > 1, 0, found)


def together(seen: Sequence[I64]) -> list[tuple[int, ...]]:
    """The takes by number, those of the same motion in one group, of their :func:`moments`."""
    shown = [set(ids.tolist()) - {0} for ids in seen]
    groups: list[tuple[int, ...]] = []
    for i, mine in enumerate(shown):
        joined = [g for g in groups if any(len(mine & shown[j]) > _SHARED for j in g)]
        groups = [g for g in groups if g not in joined]
        groups.append((*(j for g in joined for j in g), i))
    return sorted(tuple(sorted(group)) for group in groups)


def same_motion(names: Sequence[str], groups: Sequence[tuple[int, ...]]) -> list[list[str]]:
    """The names of takes that are one recording, those of each together."""
    return [[names[i] for i in group] for group in groups if len(group) > 1]


def alone(wanted: Sequence[F64], groups: Sequence[tuple[int, ...]] | None = None) -> list[int]:
    """Takes whose wanted values (frames, n) in 0..1 no other take demonstrates.

    A take has company when four fifths of its frames want values that some frame of another take wants
    within a tenth of each output's range; takes of one of the ``groups`` count as one.
    """
    if groups is not None:
        joined = [np.concatenate([wanted[i] for i in group]) for group in groups]
        return sorted(i for g in alone(joined) for i in groups[g])
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


def folds(wanted: Sequence[F64], seen: Sequence[I64] | None = None) -> list[Fold]:
    """Folds over takes that want (frames, n) each, at most ten and five; none where nothing can be judged.

    A take that stands alone and is shorter than two blocks is learnt from, and never judged.

    Args:
        seen: the :func:`moments` (frames,) of the takes; None: all differ.
    """
    seen = [np.zeros(len(y), np.int64) for y in wanted] if seen is None else seen
    groups = together(seen)
    edges = np.cumsum([0, *(len(y) for y in wanted)])
    every = np.arange(edges[-1])
    single = alone(wanted, groups)
    company = [group for group in groups if group[0] not in single]
    if len(company) > MOST_FOLDS:
        chosen = np.linspace(0, len(company) - 1, MOST_FOLDS).round().astype(int)
        company = [company[i] for i in chosen]
    made = []
    for group in company:
        mine = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in group])
        made.append(Fold(group, True, np.setdiff1d(every, mine), mine))
    single = [i for i in single if len(wanted[i]) >= 2 * SHORTEST_BLOCK]
    if single:
        ids = np.concatenate(seen)
        blocks = min(BLOCKS, *(len(wanted[i]) // SHORTEST_BLOCK for i in single))
        for b in range(blocks):
            ends = [edges[i] + np.array([b, b + 1]) * len(wanted[i]) // blocks for i in single]
            judged = np.concatenate([np.arange(low, high) for low, high in ends])
            hidden = np.isin(ids, np.setdiff1d(ids[judged], 0))
            hidden[judged] = True
            learn = every[~_beside(hidden, edges)]
            if len(learn) >= SHORTEST_BLOCK:
                made.append(Fold(tuple(single), False, learn, judged))
    return made


def _beside(hidden: npt.NDArray[np.bool_], edges: I64) -> npt.NDArray[np.bool_]:
    """Frames that are hidden (N,), or within the embargo of one in their own take."""
    near = np.full(2 * EMBARGO + 1, 1.0)
    takes = np.split(hidden, edges[1:-1])
    return np.concatenate([np.convolve(take, near)[EMBARGO:-EMBARGO] > 0.5 for take in takes])
