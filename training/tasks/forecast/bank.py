"""Training windows of the benchmark, drawn from the 120 Hz takes and augmented on the fly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyanticip.errors import OptionError
from training.tasks.forecast.cmu import (
    COPIED,
    JOINTS,
    MIRROR,
    OBSERVED,
    PREDICTED,
    SHORTEST,
    STRIDE,
    TARGET,
    Take,
    positions,
)
from training.tasks.forecast.options import ForecastOptions, Variation

LENGTH: Final = OBSERVED + TARGET
ARMS: Final = (range(20, 29), range(29, 38))
"""Joints of the left and of the right arm, from the shoulder on."""
SPINE: Final = PREDICTED.index(15)
"""Index among the predicted joints of the one that both arms are attached to."""


def joint_weights() -> Tensor:
    """Weight of each predicted joint in the metric (25,): for itself and joints copied from it."""
    counts = [1 + sum(source == joint for source in COPIED.values()) for joint in PREDICTED]
    return torch.tensor(counts, dtype=torch.float32) / JOINTS


class WindowBank:
    """Draws windows (B, 35, 25, 3) from the takes of a training set.

    All actions are equally likely. Within an action, takes are weighted half by length and half evenly, so
    that neither long takes dominate nor short ones are memorised. A window starts at any fractional row and
    its frames are interpolated, so that both phases of the stride and all speeds within ``warp`` occur; three
    in ten keep the benchmark's stride.
    """

    def __init__(self, takes: Sequence[Take], variation: Variation, seed: int) -> None:
        # A window of the benchmark's stride must fit.
        usable = [take for take in takes if len(take.whole) >= SHORTEST]
        if not usable:
            raise OptionError(f"expected takes of at least {SHORTEST} rows, found none")
        self.variation = variation
        self.frames = torch.from_numpy(
            np.concatenate([joint_positions(take.whole) for take in usable]).astype(np.float32)
        )
        self.lengths = np.array([len(take.whole) for take in usable])
        self.starts = np.concatenate(([0], np.cumsum(self.lengths)[:-1]))
        actions = [take.action for take in usable]
        totals = {a: sum(n for b, n in zip(actions, self.lengths, strict=True) if b == a) for a in actions}
        share = np.array(
            [0.5 * n / totals[a] + 0.5 / actions.count(a) for a, n in zip(actions, self.lengths, strict=True)]
        )
        self.share = share / share.sum()
        self.draw = np.random.default_rng(seed)
        self.legs = torch.tensor([joint < 13 for joint in PREDICTED])[:, None]
        self.arms = [torch.tensor([joint in arm for joint in PREDICTED])[:, None] for arm in ARMS]

    def batch(self, size: int) -> Tensor:
        """Draw ``size`` windows."""
        variation, draw = self.variation, self.draw
        take = draw.choice(len(self.share), size, p=self.share)
        speed = np.exp(draw.uniform(-1.0, 1.0, size) * np.log(variation.warp))
        speed = np.where(draw.random(size) < 0.3, 1.0, speed)
        # The speed is limited so that a window fits into a short take.
        rows = np.minimum(STRIDE * speed, (self.lengths[take] - 1) / (LENGTH - 1 + 1e-3))
        first = self.starts[take] + draw.random(size) * (self.lengths[take] - 1 - (LENGTH - 1) * rows)
        at = first[:, None] + rows[:, None] * np.arange(LENGTH)
        below = np.floor(at).astype(np.int64)
        part = torch.from_numpy((at - below).astype(np.float32))[..., None, None]
        index = torch.from_numpy(below)
        windows = torch.lerp(self.frames[index], self.frames[index + 1], part)
        return self._vary(windows)

    def _vary(self, windows: Tensor) -> Tensor:
        variation, size = self.variation, len(windows)
        chosen = torch.from_numpy(self.draw.random(size) < variation.mirror)
        windows = torch.where(chosen[:, None, None, None], mirrored(windows), windows)
        if variation.swap:
            chosen = torch.from_numpy(self.draw.random(size) < variation.swap)
            other = windows[torch.from_numpy(self.draw.permutation(size))]
            windows = torch.where(chosen[:, None, None, None] & self.legs, other, windows)
        for arm in self.arms if variation.arms else ():
            chosen = torch.from_numpy(self.draw.random(size) < variation.arms)
            other = windows[torch.from_numpy(self.draw.permutation(size))]
            # Attach the other arm to the spine of this window.
            other = other - other[:, :, SPINE : SPINE + 1] + windows[:, :, SPINE : SPINE + 1]
            windows = torch.where(chosen[:, None, None, None] & arm, other, windows)
        return windows


class Batch(NamedTuple):
    """Windows (B, 35, 25, 3) of an update, the index of the update, and that of its part."""

    windows: Tensor
    step: int
    part: int = 0


class Batches:
    """The windows of a run from update ``start`` on."""

    options: ForecastOptions

    def __init__(self, bank: WindowBank, options: ForecastOptions, start: int) -> None:
        self.bank, self.options, self.start = bank, options, start

    def __iter__(self) -> Iterator[Batch]:
        """Windows of earlier updates are drawn and skipped, as the random numbers are a sequence."""
        for step in range(self.options.schedule.steps):
            windows = self.bank.batch(self.options.schedule.batch)
            if step >= self.start:
                yield Batch(windows, step)


def joint_positions(
    rows: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Positions (R, 25, 3) of the predicted joints, in the tables' "mm", from rows (R, 117)."""
    return positions(rows[:, 3:].reshape(-1, JOINTS, 3))[:, list(PREDICTED)]


def mirrored(windows: Tensor) -> Tensor:
    """Mirror windows (..., 25, 3)."""
    image: Tensor = windows[..., list(MIRROR), :] * windows.new_tensor([-1.0, 1.0, 1.0])
    return image
