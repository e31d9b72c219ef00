"""Additive terms and position vectors that enter the attention scores beside queries and keys."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pyanticip.models.core.streaming import State


@dataclass(frozen=True)
class PositionVectors:
    """Position vectors of steps: ``queries`` and ``keys`` (B, L, C, d); ``shown`` are the source's histograms
    for display, or a function that computes them."""

    queries: Tensor
    keys: Tensor
    shown: Tensor | Callable[[], Tensor] | None = None

    @property
    def histograms(self) -> Tensor | None:
        """The source's histograms (B, L, ...), ``None`` without any; may be computed at every access."""
        return self.shown() if callable(self.shown) else self.shown

    def pick(self, index: Tensor) -> "PositionVectors":
        """The vectors of the steps at ``index`` (B, n), without histograms."""
        at = index[..., None, None]
        return PositionVectors(
            *(torch.gather(t, 1, at.expand(-1, -1, *t.shape[2:])) for t in (self.queries, self.keys))
        )

    def every(self, stride: int) -> "PositionVectors":
        """The vectors of the last step in each whole group of ``stride``, without histograms."""
        return PositionVectors(self.queries[:, stride - 1 :: stride], self.keys[:, stride - 1 :: stride])


@dataclass
class PositionVectorsState(State):
    """The scheme's own state, and the keys' vectors (B, past + 1, C, d) of the last steps of either pathway,
    in rings like those of the keys."""

    source: State
    fast: Tensor
    slow: Tensor


class PositionMix(nn.Module):
    """One layer's weights of the cursors, and of content against position.

    Args:
        heads: heads H of the layer.
        cursors: cursors C of the source.
        start: initial mean of alpha; values are spread by half of it to either side, so that heads differ.
    """

    def __init__(self, heads: int, cursors: int, start: float = 1.0) -> None:
        super().__init__()
        self.alpha = nn.Parameter(start * (0.5 + torch.rand(heads, cursors)))
        self.share = nn.Parameter(torch.zeros(heads))

    def forward(self) -> tuple[Tensor, Tensor]:
        """``alpha`` (H, C), and ``mu`` (H,) in (0, 1), the weight of content."""
        return self.alpha, torch.sigmoid(self.share)


@dataclass(frozen=True)
class Steering:
    """Additive bias and positions of one pathway, for one call.

    The bias of query i on key j is ``amplitude_i exp(-rate (i - j) + beta) - slope (i - j)``, distances in
    the pathway's own steps.

    ``amplitude`` (B, L, H) of the trajectory bias with ``rate`` (H,), its decay per step, and ``beta`` (H,);
    all three ``None`` without it. ``slopes`` (H,) of the linear bias (ALiBi), per step. ``rotary``: distance
    of neighbouring steps in the rotary encoding, 0 for none. ``places``: position vectors of the chunk's
    steps, if any; after a state, ``place_ring`` (B, past + 1, C, d) holds those of the earlier keys.
    """

    amplitude: Tensor | None = None
    rate: Tensor | None = None
    beta: Tensor | None = None
    slopes: Tensor | None = None
    rotary: float = 0.0
    places: PositionVectors | None = None
    place_ring: Tensor | None = None

    def kernel(self, distance: Tensor) -> Tensor | None:
        """The decay (H, ...) at distances (...), ``None`` without a trajectory bias."""
        if self.rate is None or self.beta is None:
            return None
        shape = (-1,) + (1,) * distance.ndim
        steps = distance.to(self.rate.dtype)
        return torch.exp(-self.rate.view(shape) * steps + self.beta.view(shape))

    def linear(self, distance: Tensor) -> Tensor | None:
        """The linear bias (H, ...) at distances (...), ``None`` without one."""
        if self.slopes is None:
            return None
        return -self.slopes.view((-1,) + (1,) * distance.ndim) * distance.to(self.slopes.dtype)


@dataclass(frozen=True)
class Extras:
    """Score terms that belong to one layer.

    ``log_gate`` (B, L) of its control field is added to all scores of key j. ``alpha`` (H, C) and ``mu`` (H,)
    are its heads' weights of the position cursors, and of content against position.
    """

    log_gate: Tensor | None = None
    alpha: Tensor | None = None
    mu: Tensor | None = None

    def content(self, q: Tensor) -> Tensor:
        """Queries (B, L, H, d) scaled by the weight of content."""
        return q if self.mu is None else q * self.mu[:, None]

    def weighted_places(self, queries: Tensor) -> Tensor:
        """Position vectors of queries (B, L, C, d), weighted for each head: (B, L, H, C d)."""
        assert self.alpha is not None
        assert self.mu is not None
        width = queries.shape[-2] * queries.shape[-1]
        weights = (1 - self.mu)[:, None] * self.alpha.abs() / math.sqrt(width)
        weighted: Tensor = queries[:, :, None] * weights[..., None]
        return weighted.flatten(3)
