"""The windows of every update: functions of seed and step, shared out among processes and parts."""

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

# Independent streams of random numbers from one seed; 3 is dropout's.
DRAW: Final = 1
SAMPLING: Final = 2
INITIAL: Final = 4

PREFETCH: Final = 4
"""Updates that every worker keeps ready."""


class Part(NamedTuple):
    """One process's part of what an update, or one of its accumulated parts, is computed from."""

    batch: Batch
    own: Tensor
    """(b, L) bool: where the model is steered by its own scalars."""
    frames: int
    """Of the whole update, over all processes."""
    step: int
    """Number of the update, from 0."""
    part: int
    """Number of the accumulated part within the update."""
    beyond: Tensor | None = None
    """(b, K, 279) features of the frames after the window, where the model plans K frames ahead."""
    inside: Tensor | None = None
    """(b, L + K) bool: which frames of the window and after it lie inside the clip."""


class Feed:
    """The parts of a run from update ``start`` on, for one of ``world`` processes.

    Which windows an update takes, and which of them steer themselves, follows from seed and step alone: a run
    that is resumed, or computed by more processes or in more parts, sees the same. The loss of every part is
    divided by what the whole update's would be: their mean is the loss of one process with everything.

    Args:
        windows: where they are drawn from.
        options: of the run.
        config: of the model; a checkpoint that the run begins with decides it, not the options.
        start: update to begin with.
        rank: number of this process.
        world: how many there are.

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
        """Seconds that the model has waited for its batches."""

    def __iter__(self) -> Iterator[Part]:
        source = self._workers() if self.options.run.workers else self.stretch(self.start, 1)
        while True:
            begun = time.perf_counter()
            parts = next(source, None)
            self.waited += time.perf_counter() - begun
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
        known, judged = self.windows.judged(chosen, first, length)
        pieces = self.world * accumulate
        divisors = (max(float(known.sum()), 1.0) / pieces, max(float(judged.sum()), 1.0) / pieces)
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
                    # A whole window is steered by the model's own scalars or by the given ones: as it will
                    # be live.
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
            wanted = np.minimum(np.arange(begin + length, begin + length + self.plan), len(features) - 1)
            rows.append(np.asarray(features[wanted[0] : wanted[-1] + 1])[wanted - wanted[0]])
        there = first[:, None] + np.arange(length + self.plan) < self.windows.lengths[chosen][:, None]
        return torch.from_numpy(np.stack(rows)), torch.from_numpy(there)

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
    """What one worker of many gathers: whole updates, for the loader asks each for one thing in turn."""

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
            f"least {pieces * LENGTHS[-1]}, a window of {LENGTHS[-1]} frames for each, given {frames}"
        )
