"""The windows of every update: a function of seed and step, distributed over processes and parts."""

import multiprocessing
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from training.data.batches import LENGTHS, Batch, Windows
from training.tasks.motion.options import MotionTrainOptions

# Independent streams of random numbers from one seed; 3 is used by dropout.
DRAW: Final = 1
SAMPLING: Final = 2
INITIAL: Final = 4

PREFETCH: Final = 4
"""Updates that every worker prefetches."""


class Part(NamedTuple):
    """The share of one process in one accumulated part of an update."""

    batch: Batch
    own: Tensor
    """(b, L) bool: where the model is steered by its own scalars."""
    frames: int
    """Frames of the whole update, over all processes."""
    step: int
    """Index of the update."""
    part: int
    """Index of the accumulated part within the update."""
    beyond: Tensor | None = None
    """(b, K, 279) features of the frames after the window, if the model plans K frames ahead."""
    inside: Tensor | None = None
    """(b, L + K) bool: frames of the window and after it that lie inside the clip."""


class Feed:
    """The parts of a run from update ``start`` on, for one of ``world`` processes.

    The windows of an update, and which are steered by the model's own scalars, depend only on seed and step:
    a resumed run, or one with more processes or parts, sees the same. The loss of every part is normalised
    by the divisors of the whole update, so that their mean is the loss of a single process.

    Args:
        windows: source of the windows.
        options: options of the run.
        config: configuration of the model, which may come from a checkpoint rather than the options.
        start: first update.
        rank: index of this process.
        world: number of processes.

    Raises:
        OptionError: more processes and parts than an update has windows.
    """

    options: MotionTrainOptions

    def __init__(
        self,
        windows: Windows,
        options: MotionTrainOptions,
        config: ModelConfig,
        *,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        check_pieces(options, world)
        self.windows, self.options = windows, options
        self.start, self.rank, self.world = start, rank, world
        self.plan = 0 if config.planning is None else config.planning.tokens
        self.waited = 0.0
        """Time spent waiting for batches, seconds."""

    def __iter__(self) -> Iterator[Part]:
        source = self._workers() if self.options.run.workers else self.stretch(self.start, 1)
        while True:
            wait_start = time.perf_counter()
            parts = next(source, None)
            self.waited += time.perf_counter() - wait_start
            if parts is None:
                return
            yield from parts

    def stretch(self, first: int, stride: int) -> Iterator[list[Part]]:
        """The parts of every ``stride``-th update from ``first`` on."""
        return map(self.update, range(first, self.options.schedule.steps, stride))

    def update(self, step: int) -> list[Part]:
        """This process's parts of an update."""
        seed, accumulate = self.options.schedule.seed, self.options.run.accumulate
        rng = np.random.default_rng([seed, DRAW, step])
        chosen, first, length = self.windows.choose(rng, self.options.schedule.batch_frames)
        params_weight, weight = self.windows.loss_masks(chosen, first, length)
        pieces = self.world * accumulate
        divisors = (max(float(params_weight.sum()), 1.0) / pieces, max(float(weight.sum()), 1.0) / pieces)
        drawn = np.random.default_rng([seed, SAMPLING, step]).random(len(chosen))
        own = drawn < self.options.sampled(step)
        parts = []
        for part in range(accumulate):
            rows = np.array_split(np.arange(len(chosen)), pieces)[part * self.world + self.rank]
            batch = self.windows.gather(chosen[rows], first[rows], length)
            beyond, inside = self._beyond(chosen[rows], first[rows], length)
            parts.append(
                Part(
                    batch=Batch(**{**vars(batch), "divisors": divisors}),
                    # A whole window is steered either by the model's own scalars or by the computed ones,
                    # as in live use.
                    own=torch.from_numpy(own[rows])[:, None].expand(len(rows), length),
                    frames=len(chosen) * length,
                    step=step,
                    part=part,
                    beyond=beyond,
                    inside=inside,
                )
            )
        return parts

    def _beyond(self, chosen: Any, first: Any, length: int) -> tuple[Tensor | None, Tensor | None]:
        """See :class:`Part`."""
        if not self.plan:
            return None, None
        rows = []
        for number, begin in zip(chosen.tolist(), first.tolist(), strict=True):
            features = self.windows.examples[number].features
            indices = np.minimum(np.arange(begin + length, begin + length + self.plan), len(features) - 1)
            rows.append(np.asarray(features[indices[0] : indices[-1] + 1])[indices - indices[0]])
        inside = first[:, None] + np.arange(length + self.plan) < self.windows.lengths[chosen][:, None]
        return torch.from_numpy(np.stack(rows)), torch.from_numpy(inside)

    def _workers(self) -> Iterator[list[Part]]:
        fork = "fork" in multiprocessing.get_all_start_methods()
        return iter(
            DataLoader(
                _Stretches(self),
                batch_size=None,
                num_workers=self.options.run.workers,
                prefetch_factor=PREFETCH,
                multiprocessing_context="fork" if fork else None,
            )
        )


class _Stretches(IterableDataset[list[Part]]):
    """The updates of one worker: the loader takes one whole update from each worker in turn."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        number, stride = (0, 1) if info is None else (info.id, info.num_workers)
        return self.feed.stretch(self.feed.start + number, stride)


def check_pieces(options: MotionTrainOptions, world: int) -> None:
    """Refuse more processes and parts than an update has windows; see :class:`Feed`."""
    pieces, frames = world * options.run.accumulate, options.schedule.batch_frames
    if pieces > 1 and frames < pieces * LENGTHS[-1]:
        raise OptionError(
            f"option schedule.batch_frames: {world} processes in {options.run.accumulate} parts need at "
            f"least {pieces * LENGTHS[-1]}, a window of {LENGTHS[-1]} frames for each, got {frames}"
        )
