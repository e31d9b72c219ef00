"""What steers the attention scores of one pathway beside queries and keys."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pyanticip.models.core.streaming import State


@dataclass(frozen=True)
class PositionVectors:
    """Where steps are: ``queries`` and ``keys`` (B, L, C, d); ``shown``, what the source shows of itself, or
    what computes it."""

    queries: Tensor
    keys: Tensor
    shown: Tensor | Callable[[], Tensor] | None = None

    @property
    def histograms(self) -> Tensor | None:
        """Whatever the source shows of itself (B, L, ...); a source may compute it each time it is asked."""
        return self.shown() if callable(self.shown) else self.shown

    def pick(self, index: Tensor) -> "PositionVectors":
        """The places of some steps, by index (B, n), without histograms."""
        at = index[..., None, None]
        return PositionVectors(
            *(torch.gather(t, 1, at.expand(-1, -1, *t.shape[2:])) for t in (self.queries, self.keys))
        )

    def every(self, stride: int) -> "PositionVectors":
        """The places of the last step in each whole group of ``stride``, without histograms."""
        return PositionVectors(self.queries[:, stride - 1 :: stride], self.keys[:, stride - 1 :: stride])


@dataclass
class PositionVectorsState(State):
    """The scheme's own state, and the keys' vectors (B, past + 1, C, d) of the last steps of either pathway,
    in rings like those of the keys."""

    source: State
    fast: Tensor
    slow: Tensor


class PositionMix(nn.Module):
    """One layer's weights of the cursors, and of content against place.

    Args:
        heads: heads H of the layer.
        cursors: cursors C of the source.
        start: mean of alpha at the start; it is spread by half of that to either side, so that heads differ.
    """

    def __init__(self, heads: int, cursors: int, start: float = 1.0) -> None:
        super().__init__()
        self.alpha = nn.Parameter(start * (0.5 + torch.rand(heads, cursors)))
        self.share = nn.Parameter(torch.zeros(heads))

    def forward(self) -> tuple[Tensor, Tensor]:
        """``alpha`` (H, C) and ``mu`` (H,) in (0, 1), the share of content."""
        return self.alpha, torch.sigmoid(self.share)


@dataclass(frozen=True)
class Steering:
    """Additive bias and positions of one pathway, for one call.

    The bias of query i on key j is ``amplitude_i exp(-rate (i - j) + beta) - slope (i - j)``, distances in
    the pathway's own steps.

    ``amplitude`` (B, L, H) of the trajectory bias with ``rate`` (H,), its decay per step, and ``beta`` (H,);
    all three ``None`` without it. ``slopes`` (H,) of the linear bias (ALiBi), per step. ``rotary``: distance
    of neighbouring steps in the rotary encoding, 0 for none. ``places`` of the chunk's steps, where they have
    some, and after a state ``place_ring`` (B, past + 1, C, d), those of the keys before it.
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
    """What one layer adds to the scores of its own.

    ``log_gate`` (B, L) of its control field: key j is worth that much more to every query. ``alpha`` (H, C)
    and ``mu`` (H,): how its heads weigh the cursors of the places, and content against them.
    """

    log_gate: Tensor | None = None
    alpha: Tensor | None = None
    mu: Tensor | None = None

    def content(self, q: Tensor) -> Tensor:
        """Queries (B, L, H, d) with the weight of content."""
        return q if self.mu is None else q * self.mu[:, None]

    def asked(self, queries: Tensor) -> Tensor:
        """PositionVectors of queries (B, L, C, d), weighed for each head: (B, L, H, C d)."""
        assert self.alpha is not None
        assert self.mu is not None
        width = queries.shape[-2] * queries.shape[-1]
        weights = (1 - self.mu)[:, None] * self.alpha.abs() / math.sqrt(width)
        asked: Tensor = queries[:, :, None] * weights[..., None]
        return asked.flatten(3)
