"""Folds of cross-validation.

Frames 20 ms apart are nearly equal: the error on a frame whose neighbours were trained on says nothing. So
whole takes are left out where another take demonstrates the same values. A take whose values no other take
demonstrates is cut into blocks of time; training also excludes the half second on either side of the block
that is left out. Takes of the same recording, whole or in part, count as one take: they are left out
together, and a moment in a test block is not trained on in another take either. Takes that follow each other
in a recording are two, but the half second between them is on one side only, as beside a block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

MAX_FOLDS = 10
"""Most folds that leave out whole takes."""
MAX_BLOCKS = 5
"""Most blocks that a take is cut into."""
MIN_BLOCK_FRAMES = 25
"""Frames of the shortest block."""
EMBARGO_FRAMES = 25
"""Frames on either side of test frames that are not trained on."""
TEST_FRAMES = 400
"""Approximate number of frames that a fold's head is tested on."""

_NEAR_VALUE = 0.1
"""Target values nearer than this, as a share of an output's range, count as the same."""
_MIN_MATCHED = 0.8
"""Share of a take's frames whose values other takes must demonstrate."""
_COMPARED_FRAMES = 200
"""Approximate number of frames of a take that are compared."""
_MAX_SHARED_FRAMES = 10
"""Takes with more identical frames than this are of one recording: no body moves the same to the bit."""


@dataclass(frozen=True)
class Fold:
    """Training and test frames, as indices into the frames of all takes in a row.

    ``left_out`` are the takes of the test frames; ``whole``: no other frames of them are trained on.
    """

    left_out: tuple[int, ...]
    whole: bool
    train: I64
    test: I64

    @property
    def test_sample(self) -> I64:
        """An even subsample of a few hundred of the test frames."""
        return self.test[:: max(1, len(self.test) // TEST_FRAMES)]


def frame_ids(quats: npt.NDArray[np.float32]) -> I64:
    """A hash of the bits of each frame of rotations (T, J, 4): (T,); 0 for frames that occur repeatedly."""
    hashes = [
        int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=7).digest(), "little") + 1
        for row in np.ascontiguousarray(quats)
    ]
    ids = np.array(hashes, np.int64)
    # A pose that is held, or computed repeatedly, may be the same in unrelated takes.
    _, index, count = np.unique(ids, return_inverse=True, return_counts=True)
    return np.where(count[index] > 1, 0, ids)


def group_same_motion(take_ids: Sequence[I64]) -> list[tuple[int, ...]]:
    """Indices of takes, grouped by recording, from the :func:`frame_ids` of each take."""
    id_sets = [set(ids.tolist()) - {0} for ids in take_ids]
    groups: list[tuple[int, ...]] = []
    for i, mine in enumerate(id_sets):
        joined = [g for g in groups if any(len(mine & id_sets[j]) > _MAX_SHARED_FRAMES for j in g)]
        groups = [g for g in groups if g not in joined]
        groups.append((*(j for g in joined for j in g), i))
    return sorted(tuple(sorted(group)) for group in groups)


def same_motion(names: Sequence[str], groups: Sequence[tuple[int, ...]]) -> list[list[str]]:
    """For each group of several takes of one recording, their names."""
    return [[names[i] for i in group] for group in groups if len(group) > 1]


def unmatched_takes(targets: Sequence[F64], groups: Sequence[tuple[int, ...]] | None = None) -> list[int]:
    """Takes whose target values (frames, n) in 0..1 no other take demonstrates.

    A take is matched when, for four fifths of its frames, some frame of another take has target values
    within a tenth of each output's range; takes in one of the ``groups`` count as one.
    """
    if groups is not None:
        joined = [np.concatenate([targets[i] for i in group]) for group in groups]
        return sorted(i for g in unmatched_takes(joined) for i in groups[g])
    sampled = [y[:: max(1, len(y) // _COMPARED_FRAMES)] for y in targets]
    unmatched = []
    for i, y in enumerate(sampled):
        others = [z for j, z in enumerate(sampled) if j != i]
        if not others:
            unmatched.append(i)
            continue
        rest = np.concatenate(others)
        distance = np.array([np.abs(rest - frame).max(1).min() for frame in y])
        if (distance <= _NEAR_VALUE).mean() < _MIN_MATCHED:
            unmatched.append(i)
    return unmatched


def folds(
    targets: Sequence[F64],
    take_ids: Sequence[I64] | None = None,
    ids_before: Sequence[I64] | None = None,
) -> list[Fold]:
    """Folds over takes with target values (frames, n) each; none where nothing can be left out.

    At most ten folds leave out whole takes, at most five leave out blocks of time. An unmatched take that is
    shorter than two blocks is trained on, and never tested on.

    Args:
        take_ids: the :func:`frame_ids` (frames,) of the takes; None: all differ.
        ids_before: those of the frames before each take, up to the embargo; None: there are none.
    """
    take_ids = [np.zeros(len(y), np.int64) for y in targets] if take_ids is None else take_ids
    ids_before = [np.zeros(0, np.int64)] * len(targets) if ids_before is None else ids_before
    groups = group_same_motion(take_ids)
    edges = np.cumsum([0, *(len(y) for y in targets)])
    unmatched = unmatched_takes(targets, groups)
    matched = [group for group in groups if group[0] not in unmatched]
    if len(matched) > MAX_FOLDS:
        chosen = np.linspace(0, len(matched) - 1, MAX_FOLDS).round().astype(int)
        matched = [matched[i] for i in chosen]
    result = []
    for group in matched:
        mine = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in group])
        train = _train(mine, edges, take_ids, ids_before)
        if len(train) > 1:
            result.append(Fold(group, True, train, mine))
    unmatched = [i for i in unmatched if len(targets[i]) >= 2 * MIN_BLOCK_FRAMES]
    if unmatched:
        blocks = min(MAX_BLOCKS, *(len(targets[i]) // MIN_BLOCK_FRAMES for i in unmatched))
        for b in range(blocks):
            ends = [edges[i] + np.array([b, b + 1]) * len(targets[i]) // blocks for i in unmatched]
            test = np.concatenate([np.arange(low, high) for low, high in ends])
            train = _train(test, edges, take_ids, ids_before)
            if len(train) >= MIN_BLOCK_FRAMES:
                result.append(Fold(tuple(unmatched), False, train, test))
    return result


def _train(test: I64, edges: I64, take_ids: Sequence[I64], ids_before: Sequence[I64]) -> I64:
    """The frames that may be trained on beside these test frames: none of them, and none in the embargo.

    A frame before a take may be in another take, as its last one.
    """
    is_test = np.zeros(edges[-1], np.bool_)
    is_test[test] = True
    test_ids = np.setdiff1d(np.concatenate(take_ids)[test], 0)
    tested = np.split(is_test, edges[1:-1])
    # Frames before a take whose first frames are tested are in the embargo.
    near = [before[-EMBARGO_FRAMES:] for before, own in zip(ids_before, tested, strict=True) if own[:1].any()]
    near_ids = np.setdiff1d(np.concatenate([np.zeros(0, np.int64), *near]), 0)
    kernel = np.full(2 * EMBARGO_FRAMES + 1, 1.0)
    excluded = []
    for ids, before, own in zip(take_ids, ids_before, tested, strict=True):
        also_tested = np.isin(np.concatenate([before, ids]), test_ids)
        also_tested[len(before) :] |= own
        spread = np.convolve(also_tested, kernel)[EMBARGO_FRAMES:-EMBARGO_FRAMES] > 0.5
        excluded.append(spread[len(before) :] | np.isin(ids, near_ids))
    return np.flatnonzero(~np.concatenate(excluded))
