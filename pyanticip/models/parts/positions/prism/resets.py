"""Positions that start anew where a phrase does: PRISM cursors whose resets are taught.

A cursor of :class:`pyanticip.models.parts.positions.prism.module.PrismPositions` resets with a probability
that its recurrent network gives at every frame. Left alone, it resets where that helps the forecast. Here the
first cursor of the queries and the first of the keys are told where phrases begin.
"""

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TAUGHT: Final = 1
"""How many cursors of the queries, and of the keys, are told."""

LATE: Final = 5
"""Frames after a phrase's beginning in which a reset is right: it shows only as it comes."""


class Resets:
    """Remembers what the gates of a model's cursors said last.

    Args:
        gates: what says how the cursors move.
        pairs: how many cursors the keys have, and the queries that can not copy.
    """

    def __init__(self, gates: nn.Module, pairs: int) -> None:
        self.logits: Tensor | None = None
        """(B, L, cursors) of the resets, queries' first."""
        self.pairs = pairs
        self.handle = gates.register_forward_hook(self._note)

    def _note(self, module: nn.Module, given: Any, said: Tensor) -> None:
        self.logits = said.view(*said.shape[:-1], 4, -1)[..., 0, :]

    def taught(self) -> Tensor:
        """(B, L, 2 TAUGHT) logits of the resets of the cursors that are told."""
        assert self.logits is not None
        queries = self.logits.shape[-1] - self.pairs
        return torch.cat((self.logits[..., :TAUGHT], self.logits[..., queries : queries + TAUGHT]), -1)


def begun(phrase_bin: Tensor) -> Tensor:
    """Frames (B, L) at which a phrase begins or began up to :data:`LATE` frames before, 1 or 0.

    Args:
        phrase_bin: (B, L) bin of the next phrase: 0 for one in the next frame.
    """
    starts = F.pad((phrase_bin[:, :-1] == 0).float(), (1, 0))
    return F.max_pool1d(F.pad(starts, (LATE, 0))[:, None], LATE + 1, 1)[:, 0]


def reset_loss(resets: Resets, phrase_bin: Tensor, weight: Tensor, divisor: float | None = None) -> Tensor:
    """Negative log-likelihood of where phrases begin under the taught cursors' resets, nats a frame.

    Args:
        resets: what the model's gates have just said.
        phrase_bin: (B, L) bin of the next phrase.
        weight: (B, L) 1 for frames that are judged, else 0.
        divisor: what the sum is divided by to become a mean; by default the sum of the weights.
    """
    logits = resets.taught().float()
    labels = begun(phrase_bin)[..., None].expand_as(logits)
    each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(-1)
    frames = weight.sum().clamp(min=1.0) if divisor is None else max(divisor, 1e-6)
    return (each * weight).sum() / frames
