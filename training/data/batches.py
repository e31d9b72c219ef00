"""Windows of examples as tensors: features, targets at every horizon, and event bins."""

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
"""Frames at each end of a clip without parameter loss: over 2 % of the teacher's 1 Hz kernel is cut off."""

LENGTHS: Final = (160, 320, 640)
"""Window lengths in frames; each serves examples of at least three quarters of it."""

WARM_UP: Final = 64
"""First frames of a window from the middle of a clip, which fill the context and carry no loss."""


@dataclass(frozen=True)
class Batch:
    """B windows of L frames."""

    features: Tensor
    """(B, L, 279)."""
    params: Tensor
    """(B, L, 8, 5): the teacher's parameters at t + horizon."""
    params_weight: Tensor
    """(B, L, 5): 1 where the target is known and counts in the loss, else 0."""
    event_bin: Tensor
    """(B, L, 2): bin of the next event, 25 if it lies beyond the last bin."""
    event_seen: Tensor
    """(B, L, 2): number of bins ahead that lie inside the clip, 0 where the frame does not count."""
    weight: Tensor
    """(B, L): 1 where the frame counts in the loss, else 0."""
    divisors: tuple[float, float] | None = None
    """Divisors that turn sums weighted by ``params_weight`` and ``weight`` into means; None: their sums.
    Set where the batch is only a part of an update."""
    bad: Tensor | None = None
    """(B, L): 1 where the frame is known to be wrong, else 0; None if no example is labelled."""

    @property
    def scalars(self) -> Tensor:
        """(B, L, 7): the scalars among the features."""
        return self.features[..., slice(*SCALAR_COLUMNS)]


def event_targets(
    events: NDArray[np.int64], frames: int, now: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each frame of a clip: the bin of the next event, and the number of bins that lie inside the clip.

    Bin b of frame t is frame t + 1 + b, that is (20 b, 20 (b + 1)] ms ahead; ``EVENT_BINS`` means later.

    Args:
        events: frames of the events.
        frames: length of the clip in frames.
        now: frames to compute this for; all by default.
    """
    now = np.arange(frames) if now is None else now
    following = np.append(np.sort(events), frames + EVENT_BINS + 1)
    upcoming = following[np.searchsorted(following, now, side="right")]
    return np.minimum(upcoming - now - 1, EVENT_BINS), np.minimum(frames - 1 - now, EVENT_BINS)


class Windows:
    """Draws windows from examples. Their arrays are not copied: they stay in memory or mapped from a file.

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
        """Whether any example has labels of wrong frames; frames without labels then count as right."""
        self.lengths = np.array([len(example) for example in examples])
        # A subject's weight is the square root of its frames: between equal weights and weights by length.
        subject_frames: dict[str, int] = {}
        for example in examples:
            subject_frames[example.subject] = subject_frames.get(example.subject, 0) + len(example)
        self.share = np.array([len(e) / np.sqrt(subject_frames[e.subject]) for e in examples])
        bucket_of = np.searchsorted(np.array(LENGTHS[1:]) * 3 // 4, self.lengths, side="right")
        self.buckets = [np.flatnonzero(bucket_of == bucket) for bucket in range(len(LENGTHS))]
        self.bucket_share = np.array([self.share[m].sum() for m in self.buckets]) / self.share.sum()

    @property
    def frames(self) -> int:
        """Total number of frames of all examples."""
        return int(self.lengths.sum())

    def loss_masks(
        self, chosen: NDArray[np.int64], first: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """What counts in the loss: parameters (B, L, 5) and frames (B, L). Arguments as of :meth:`gather`."""
        local = first[:, None] + np.arange(length)
        size = self.lengths[chosen][:, None]
        ahead = local[..., None] + np.array(HORIZONS)
        # The beginning of a clip looks like the beginning of a stream: its first frames count.
        warm = (np.arange(length) >= WARM_UP) | (first[:, None] == 0)
        counted = (local < size) & warm
        params_counted = (ahead >= TARGET_EDGE) & (ahead < size[..., None] - TARGET_EDGE) & counted[..., None]
        return params_counted, counted

    def gather(self, chosen: NDArray[np.int64], first: NDArray[np.int64], length: int) -> Batch:
        """Cut windows of ``length`` frames; window b starts at ``first[b]`` of example ``chosen[b]``."""
        params_weight, weight = self.loss_masks(chosen, first, length)
        features, params, bins, seen, bad = [], [], [], [], []
        for index, start in zip(chosen.tolist(), first.tolist(), strict=True):
            example = self.examples[index]
            last = len(example) - 1
            now = np.minimum(np.arange(start, start + length), last)
            ahead = np.minimum(now[:, None] + np.array(HORIZONS), last)
            # Slices rather than single rows: a mapped file is read in one contiguous block.
            stop = start + length + HORIZONS[-1]
            features.append(np.asarray(example.features[start : start + length])[now - start])
            params.append(np.asarray(example.params[start:stop])[ahead - start])
            pairs = [event_targets(e, len(example), now) for e in (example.onsets, example.phrases)]
            bins.append(np.stack([pair[0] for pair in pairs], axis=1))
            seen.append(np.stack([pair[1] for pair in pairs], axis=1))
            bad.append(np.zeros(length) if example.bad is None else example.bad[now])
        return Batch(
            features=torch.from_numpy(np.stack(features)),
            params=torch.from_numpy(np.stack(params)).transpose(-1, -2),
            params_weight=torch.from_numpy(params_weight).float(),
            event_bin=torch.from_numpy(np.stack(bins)),
            event_seen=torch.from_numpy(np.stack(seen) * weight[..., None]),
            weight=torch.from_numpy(weight).float(),
            bad=torch.from_numpy(np.stack(bad)).float() if self.labelled else None,
        )

    def choose(
        self, rng: np.random.Generator, frames: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Draw random windows of one length, about ``frames`` frames in total: arguments of :meth:`gather`.

        The window length suits the clips: neither much padding nor truncated contexts.
        """
        bucket = int(rng.choice(len(LENGTHS), p=self.bucket_share))
        length = LENGTHS[bucket]
        members = self.buckets[bucket]
        share = self.share[members] / self.share[members].sum()
        chosen = members[rng.choice(len(members), size=max(frames // length, 1), p=share)]
        room = np.maximum(self.lengths[chosen] - length, 0)
        # Starts before the clip are clipped to 0, so that its first frames are drawn as often as others.
        first = rng.integers(-length // 4, room + 1)
        return chosen, np.maximum(first, 0).astype(np.int64), length


def sampling_weights(frames: Sequence[int], people: Sequence[str]) -> NDArray[np.float64]:
    """Sampling weight of each clip, summing to 1: a person's weight is the square root of their frames."""
    totals = {
        person: sum(n for n, p in zip(frames, people, strict=True) if p == person) for person in set(people)
    }
    weights = np.array([n / np.sqrt(totals[person]) for n, person in zip(frames, people, strict=True)])
    return np.asarray(weights / weights.sum())
