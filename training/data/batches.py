"""Windows of examples as tensors: features in, targets at every horizon and event bins out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.vocabulary import EVENT_BINS, HORIZONS_MS, RATE, SCALAR_COLUMNS
from training.data.examples import Example

HORIZONS: Final = tuple(round(ms * RATE / 1000.0) for ms in HORIZONS_MS)
"""The horizons in frames: 0, 2, 5, 10, 20."""

TARGET_EDGE: Final = 14
"""Frames at the ends of a clip whose parameters are not taught: the 1 Hz kernel has lost over 2 % there."""

LENGTHS: Final = (160, 320, 640)
"""Window lengths, each for examples from three quarters of it upwards."""

WARM_UP: Final = 64
"""Frames of a window cut out of the middle of a clip that fill the context and are not judged."""


@dataclass(frozen=True)
class Batch:
    """B windows of L frames."""

    features: Tensor
    """(B, L, 279)."""
    params: Tensor
    """(B, L, 8, 5): what the teacher says at t + horizon."""
    params_weight: Tensor
    """(B, L, 5): 1 where that is known and judged, else 0."""
    event_bin: Tensor
    """(B, L, 2): bin of the next event, 25 where it lies beyond."""
    event_seen: Tensor
    """(B, L, 2): how many bins ahead lie inside the clip, 0 where nothing is judged."""
    weight: Tensor
    """(B, L): 1 where the frame is judged at all."""
    divisors: tuple[float, float] | None = None
    """What sums weighed by ``params_weight`` and by ``weight`` are divided by to become means. None: by the
    sums of these weights; another number where the batch is a part of what an update is computed from."""
    bad: Tensor | None = None
    """(B, L): 1 where the frame is known to be wrong, else 0; None where nobody knows of any example."""

    @property
    def scalars(self) -> Tensor:
        """(B, L, 7) the given scalars."""
        return self.features[..., slice(*SCALAR_COLUMNS)]


def event_targets(
    events: NDArray[np.int64], frames: int, now: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each frame of a clip of ``frames`` the bin of the next event, and bins that lie inside the clip.

    Bin b of frame t is frame t + 1 + b, that is (20 b, 20 (b + 1)] ms ahead; ``EVENT_BINS`` stands for later.

    Args:
        events: frames of the events.
        frames: length of the clip.
        now: which frames are asked about; all by default.
    """
    now = np.arange(frames) if now is None else now
    following = np.append(np.sort(events), frames + EVENT_BINS + 1)
    upcoming = following[np.searchsorted(following, now, side="right")]
    return np.minimum(upcoming - now - 1, EVENT_BINS), np.minimum(frames - 1 - now, EVENT_BINS)


class Windows:
    """Draws windows from examples, whose frames stay where they are: in memory, or mapped from a file.

    Args:
        examples: at least one.

    Raises:
        OptionError: no examples.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        if not examples:
            raise OptionError("windows need at least one example")
        self.examples = tuple(examples)
        self.labelled = any(example.bad is not None for example in examples)
        """Whether some example says which of its frames are wrong; those that say nothing then count as
        right."""
        self.lengths = np.array([len(example) for example in examples])
        # Subjects count by the root of their frames: between all alike and all by length.
        of_subject: dict[str, int] = {}
        for example in examples:
            of_subject[example.subject] = of_subject.get(example.subject, 0) + len(example)
        self.share = np.array([len(e) / np.sqrt(of_subject[e.subject]) for e in examples])
        kind = np.searchsorted(np.array(LENGTHS[1:]) * 3 // 4, self.lengths, side="right")
        self.buckets = [np.flatnonzero(kind == bucket) for bucket in range(len(LENGTHS))]
        self.bucket_share = np.array([self.share[m].sum() for m in self.buckets]) / self.share.sum()

    @property
    def frames(self) -> int:
        """Frames of all examples together."""
        return int(self.lengths.sum())

    def judged(
        self, chosen: NDArray[np.int64], first: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where windows are judged: parameters (B, L, 5), and anything at all (B, L); see :meth:`gather`."""
        local = first[:, None] + np.arange(length)
        size = self.lengths[chosen][:, None]
        ahead = local[..., None] + np.array(HORIZONS)
        # A clip's own beginning is what a stream's beginning looks like: there the first frames count.
        warm = (np.arange(length) >= WARM_UP) | (first[:, None] == 0)
        judged = (local < size) & warm
        known = (ahead >= TARGET_EDGE) & (ahead < size[..., None] - TARGET_EDGE) & judged[..., None]
        return known, judged

    def gather(self, chosen: NDArray[np.int64], first: NDArray[np.int64], length: int) -> Batch:
        """The windows of ``length`` frames that begin at frame ``first[b]`` of example ``chosen[b]``."""
        known, judged = self.judged(chosen, first, length)
        features, params, bins, seen, wrong = [], [], [], [], []
        for number, begin in zip(chosen.tolist(), first.tolist(), strict=True):
            example = self.examples[number]
            last = len(example) - 1
            now = np.minimum(np.arange(begin, begin + length), last)
            ahead = np.minimum(now[:, None] + np.array(HORIZONS), last)
            # Slices and not single rows: what is mapped from a file is read in one stretch.
            stop = begin + length + HORIZONS[-1]
            features.append(np.asarray(example.features[begin : begin + length])[now - begin])
            params.append(np.asarray(example.params[begin:stop])[ahead - begin])
            pairs = [event_targets(e, len(example), now) for e in (example.onsets, example.phrases)]
            bins.append(np.stack([pair[0] for pair in pairs], axis=1))
            seen.append(np.stack([pair[1] for pair in pairs], axis=1))
            wrong.append(np.zeros(length) if example.bad is None else example.bad[now])
        return Batch(
            features=torch.from_numpy(np.stack(features)),
            params=torch.from_numpy(np.stack(params)).transpose(-1, -2),
            params_weight=torch.from_numpy(known).float(),
            event_bin=torch.from_numpy(np.stack(bins)),
            event_seen=torch.from_numpy(np.stack(seen) * judged[..., None]),
            weight=torch.from_numpy(judged).float(),
            bad=torch.from_numpy(np.stack(wrong)).float() if self.labelled else None,
        )

    def choose(
        self, rng: np.random.Generator, frames: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Random windows of about ``frames`` frames altogether, all of one length, as :meth:`gather` takes
        them.

        Windows suit the length of their clip: neither much padding nor contexts cut short.
        """
        bucket = int(rng.choice(len(LENGTHS), p=self.bucket_share))
        length = LENGTHS[bucket]
        members = self.buckets[bucket]
        share = self.share[members] / self.share[members].sum()
        chosen = members[rng.choice(len(members), size=max(frames // length, 1), p=share)]
        room = np.maximum(self.lengths[chosen] - length, 0)
        # Beginning a little before the clip would be the fair thing for its first frames: clipped to 0.
        first = rng.integers(-length // 4, room + 1)
        return chosen, np.maximum(first, 0).astype(np.int64), length


def shares(frames: Sequence[int], people: Sequence[str]) -> NDArray[np.float64]:
    """How often each clip is drawn, summing to 1: everybody by the root of their frames."""
    of = {who: sum(n for n, p in zip(frames, people, strict=True) if p == who) for who in set(people)}
    found = np.array([n / np.sqrt(of[who]) for n, who in zip(frames, people, strict=True)])
    return np.asarray(found / found.sum())
