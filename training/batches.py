"""Windows of examples as tensors: features in, targets at every horizon and event bins out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models.config import EVENT_BINS, HORIZONS_MS, SCALAR_COLUMNS
from training.data import Example
from training.filters import RATE

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
    """(B, L, 231)."""
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

    @property
    def scalars(self) -> Tensor:
        """(B, L, 7) the given scalars."""
        return self.features[..., slice(*SCALAR_COLUMNS)]


def event_targets(events: NDArray[np.int64], frames: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each of ``frames`` frames the bin of the next event, and the bins that lie inside the clip.

    Bin b of frame t is frame t + 1 + b, that is (20 b, 20 (b + 1)] ms ahead; ``EVENT_BINS`` stands for later.
    """
    now = np.arange(frames)
    following = np.append(np.sort(events), frames + EVENT_BINS + 1)
    upcoming = following[np.searchsorted(following, now, side="right")]
    return np.minimum(upcoming - now - 1, EVENT_BINS), np.minimum(frames - 1 - now, EVENT_BINS)


class Windows:
    """Draws windows from examples. All frames lie in one tensor; a window is gathered by index.

    Args:
        examples: at least one.

    Raises:
        OptionError: no examples.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        if not examples:
            raise OptionError("windows need at least one example")
        lengths = np.array([len(example) for example in examples])
        self.lengths = lengths
        self.starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        # Subjects count by the root of their frames: between all alike and all by length.
        of_subject: dict[str, int] = {}
        for example in examples:
            of_subject[example.subject] = of_subject.get(example.subject, 0) + len(example)
        self.share = np.array([len(e) / np.sqrt(of_subject[e.subject]) for e in examples])
        kind = np.searchsorted(np.array(LENGTHS[1:]) * 3 // 4, lengths, side="right")
        self.buckets = [np.flatnonzero(kind == bucket) for bucket in range(len(LENGTHS))]
        self.bucket_share = np.array([self.share[m].sum() for m in self.buckets]) / self.share.sum()
        self.features = torch.from_numpy(np.concatenate([example.features for example in examples]))
        self.params = torch.from_numpy(np.concatenate([example.params for example in examples]))
        bins, seen = [], []
        for example in examples:
            pairs = [event_targets(events, len(example)) for events in (example.onsets, example.phrases)]
            bins.append(np.stack([pair[0] for pair in pairs], axis=1))
            seen.append(np.stack([pair[1] for pair in pairs], axis=1))
        self.event_bin = torch.from_numpy(np.concatenate(bins))
        self.event_seen = torch.from_numpy(np.concatenate(seen))

    @property
    def frames(self) -> int:
        """Frames of all examples together."""
        return int(self.lengths.sum())

    def gather(self, chosen: NDArray[np.int64], first: NDArray[np.int64], length: int) -> Batch:
        """The windows of ``length`` frames that begin at frame ``first[b]`` of example ``chosen[b]``."""
        local = torch.from_numpy(first)[:, None] + torch.arange(length)
        size = torch.from_numpy(self.lengths[chosen])[:, None]
        base = torch.from_numpy(self.starts[chosen])[:, None]
        inside = local < size
        index = base + torch.minimum(local, size - 1)
        steps = torch.tensor(HORIZONS)
        ahead = local[..., None] + steps
        target = base[..., None] + torch.minimum(ahead, size[..., None] - 1)
        # A clip's own beginning is what a stream's beginning looks like: there the first frames count.
        warm = (torch.arange(length) >= WARM_UP) | (torch.from_numpy(first)[:, None] == 0)
        judged = inside & warm
        known = (ahead >= TARGET_EDGE) & (ahead < size[..., None] - TARGET_EDGE) & judged[..., None]
        return Batch(
            features=self.features[index],
            params=self.params[target].transpose(-1, -2),
            params_weight=known.float(),
            event_bin=self.event_bin[index],
            event_seen=self.event_seen[index] * judged[..., None],
            weight=judged.float(),
        )

    def draw(self, rng: np.random.Generator, frames: int) -> Batch:
        """Random windows of about ``frames`` frames altogether, all of one length.

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
        return self.gather(chosen, np.maximum(first, 0).astype(np.int64), length)
