"""Position vectors: learned positions that queries and keys carry beside their content.

A scheme (:meth:`pyanticip.models.core.part.Positions.vectors`) looks at a trunk's input and says, for every
step, where the step is as a query and where it is as a key, once for each of its cursors. All layers of both
pathways share what it says; each weighs the cursors, and position against content, in its own way
(:class:`PositionMix`):

    ``score_hij = mu_h <q_i, k_j> / sqrt(d_head) + (1 - mu_h) sum_c |alpha_hc| <p_i^c, s_j^c> / sqrt(C d)``

with vectors p of queries and s of keys, C cursors of width d.
"""

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

    :param heads: heads H of the layer.
    :param cursors: cursors C of the source.
    :param start: mean of alpha at the start; it is spread by half of that to either side, so that heads
    differ."""

    def __init__(self, heads: int, cursors: int, start: float = 1.0) -> None:
        super().__init__()
        self.alpha = nn.Parameter(start * (0.5 + torch.rand(heads, cursors)))
        self.share = nn.Parameter(torch.zeros(heads))

    def forward(self) -> tuple[Tensor, Tensor]:
        """``alpha`` (H, C) and ``mu`` (H,) in (0, 1), the share of content."""
        return self.alpha, torch.sigmoid(self.share)
