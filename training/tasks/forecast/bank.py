"""Training windows of the benchmark: drawn from the whole 120 Hz takes, and varied as they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pyanticip.errors import OptionError
from training.tasks.forecast.cmu import COPIED, JOINTS, OBSERVED, PREDICTED, STRIDE, TARGET, Take, positions

LENGTH: Final = OBSERVED + TARGET

_LEFT: Final = (1, 2, 3, 4, 5, 6, 20, 21, 22, 23, 24, 25, 26, 27, 28)
_RIGHT: Final = (7, 8, 9, 10, 11, 12, 29, 30, 31, 32, 33, 34, 35, 36, 37)
_OTHER: Final = dict(zip(_LEFT + _RIGHT, _RIGHT + _LEFT, strict=True))
MIRROR: Final = tuple(PREDICTED.index(_OTHER.get(joint, joint)) for joint in PREDICTED)
"""For each predicted joint the one on the other side; the skeleton's bones differ by 3 % at most."""


def joint_weights() -> Tensor:
    """What each predicted joint weighs in the metric (25,): by its own place and those copied from it."""
    counts = [1 + sum(source == joint for source in COPIED.values()) for joint in PREDICTED]
    return torch.tensor(counts, dtype=torch.float32) / JOINTS


@dataclass(frozen=True)
class Variation:
    """How drawn windows differ from the recorded ones.

    ``warp`` the largest factor of speed, either way; ``mirror`` the share of mirrored windows; ``swap``
    the share whose legs come from another window; ``turn`` the standard deviation (rad) of a rotation of
    the whole body; ``noise`` that of a jitter of the observed positions ("mm").
    """

    warp: float = 1.25
    mirror: float = 0.5
    swap: float = 0.25
    turn: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        if not 1.0 <= self.warp <= 2.0:
            raise OptionError(f"warp must be in [1, 2], got {self.warp!r}")
        for name in ("mirror", "swap"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise OptionError(f"{name} must be in [0, 1], got {getattr(self, name)!r}")
        for name in ("turn", "noise"):
            if not getattr(self, name) >= 0.0:
                raise OptionError(f"{name} must not be negative, got {getattr(self, name)!r}")


class WindowBank:
    """All takes of a training set, to draw windows (B, 35, 25, 3) from.

    Every action is as likely as another. Within an action a take is drawn half by its length and half
    evenly, so that neither a long take drowns the others nor a short one is learned by heart. A window
    begins anywhere between two rows and its frames are interpolated, so that both phases of the stride and
    all speeds within ``warp`` occur; three in ten keep the benchmark's own stride.
    """

    def __init__(self, takes: Sequence[Take], variation: Variation, seed: int) -> None:
        # A window of the benchmark's own stride must fit.
        usable = [take for take in takes if len(take.whole) > STRIDE * (LENGTH - 1)]
        if not usable:
            raise OptionError(f"expected takes of more than {STRIDE * (LENGTH - 1)} rows, found none")
        self.variation = variation
        self.frames = torch.from_numpy(
            np.concatenate([places(take.whole) for take in usable]).astype(np.float32)
        )
        self.lengths = np.array([len(take.whole) for take in usable])
        self.starts = np.concatenate(([0], np.cumsum(self.lengths)[:-1]))
        actions = [take.action for take in usable]
        total = {a: sum(n for b, n in zip(actions, self.lengths, strict=True) if b == a) for a in actions}
        share = np.array(
            [0.5 * n / total[a] + 0.5 / actions.count(a) for a, n in zip(actions, self.lengths, strict=True)]
        )
        self.share = share / share.sum()
        self.draw = np.random.default_rng(seed)
        self.torch_draw = torch.Generator().manual_seed(seed)
        self.legs = torch.tensor([joint < 13 for joint in PREDICTED])[:, None]

    def batch(self, size: int) -> Tensor:
        """Draw ``size`` windows."""
        how, draw = self.variation, self.draw
        take = draw.choice(len(self.share), size, p=self.share)
        speed = np.exp(draw.uniform(-1.0, 1.0, size) * np.log(how.warp))
        speed = np.where(draw.random(size) < 0.3, 1.0, speed)
        # A short take is never played faster than it lasts.
        rows = np.minimum(STRIDE * speed, (self.lengths[take] - 1) / (LENGTH - 1 + 1e-3))
        first = self.starts[take] + draw.random(size) * (self.lengths[take] - 1 - (LENGTH - 1) * rows)
        at = first[:, None] + rows[:, None] * np.arange(LENGTH)
        below = np.floor(at).astype(np.int64)
        part = torch.from_numpy((at - below).astype(np.float32))[..., None, None]
        index = torch.from_numpy(below)
        windows = torch.lerp(self.frames[index], self.frames[index + 1], part)
        return self._vary(windows)

    def _vary(self, windows: Tensor) -> Tensor:
        how, size = self.variation, len(windows)
        chosen = torch.from_numpy(self.draw.random(size) < how.mirror)
        windows = torch.where(chosen[:, None, None, None], mirrored(windows), windows)
        if how.swap:
            chosen = torch.from_numpy(self.draw.random(size) < how.swap)
            other = windows[torch.from_numpy(self.draw.permutation(size))]
            windows = torch.where(chosen[:, None, None, None] & self.legs, other, windows)
        if how.turn:
            x, y, z = (how.turn * torch.randn(3, size, generator=self.torch_draw)).unbind()
            zero = torch.zeros(size)
            cross = torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), -1).view(size, 3, 3)
            turns = torch.linalg.matrix_exp(cross)
            windows = (windows.flatten(1, 2) @ turns).view(windows.shape)
        if how.noise:
            windows = windows.clone()
            jitter = torch.randn(size, 1, *windows.shape[2:], generator=self.torch_draw)
            windows[:, :OBSERVED] += how.noise * jitter
        return windows


def places(
    rows: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Positions (R, 25, 3) of the predicted joints, "mm", from rows (R, 117)."""
    return positions(rows[:, 3:].reshape(-1, JOINTS, 3))[:, list(PREDICTED)]


def mirrored(windows: Tensor) -> Tensor:
    """The mirror image of windows (..., 25, 3)."""
    image: Tensor = windows[..., list(MIRROR), :] * windows.new_tensor([-1.0, 1.0, 1.0])
    return image
