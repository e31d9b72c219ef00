"""The planning signal (Wang, Anticipating Future Tokens): what a plan is, and the arithmetic around it.

At every step a model may look at a plan: a few codes (tokens, or codes of motion frames) that are likely to
come within the next K steps, each with a weight. This module is the arithmetic: targets, losses, selection.
What is learned is in :mod:`pyanticip.models.parts.planning.heads`, how plans are attended to in
:mod:`pyanticip.models.core.attention`, where they come from when a model runs in
:mod:`pyanticip.models.parts.planning.passes`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip import _core

LOWEST = 1e-6
"""Scores are kept this far from 0 and from 1 where logarithms of both are taken."""


@dataclass(frozen=True)
class PlanChoice:
    """What a plan names: ``codes`` (..., K) int64 and ``weights`` (..., K) in [0, 1], 0 for an empty slot;
    those of a step sum to 1 or are all 0."""

    codes: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Ahead:
    """The codes around every step, and what an anticipator should say about those that come.

    ``around`` (B, L, 2 K): the last K codes, the step's own last, and the next K; -1 where there is none.
    ``targets`` (U,): the values that targets of codes have, 0 before all others. ``place`` (B, L, K): which
    of them is the target of the code in this slot of :attr:`codes`; 0 where there is none, or the code has a
    slot before this one. ``gone`` (B, L, K): whether the code in this one of the first K slots of ``around``
    is in none of the slots after it. ``whole`` (B, L): whether all of the next K steps exist.
    """

    around: Tensor
    targets: Tensor
    place: Tensor
    gone: Tensor
    whole: Tensor

    @property
    def codes(self) -> Tensor:
        """The next K codes of every step, (B, L, K), -1 where the sequence has ended."""
        return self.around[..., self.place.shape[-1] :]

    @property
    def scores(self) -> Tensor:
        """Targets (B, L, K), which sum to 1: of each code in its first slot, 0 in others."""
        return self.targets[self.place]


def look_ahead(codes: Tensor, horizon: int, length: int | None = None) -> Ahead:
    """What is around each of ``length`` steps. What comes d steps after one counts ``log(horizon + 2 - d)``,
    and a code's target is what it counts in all over the sum of all codes.

    Near the end of the codes, what is missing takes no part.

    Args:
        codes: (B, N) whole numbers, negative for none.
        horizon: K steps.
        length: how many steps, by default all N.
    """
    rows, count = codes.shape
    length = count if length is None else length
    place = torch.empty(rows, length, horizon, dtype=torch.int64)
    gone, whole = (torch.empty(*size, dtype=torch.bool) for size in (place.shape, place.shape[:2]))
    given = codes.long().contiguous().numpy(force=True)
    targets = torch.from_numpy(_core.plan_targets(given, place.numpy(), gone.numpy(), whole.numpy()))
    # Also of no step: there is no window of less than one.
    missing = max(0, max(length, 1) + horizon - count)
    padded = F.pad(codes.long().clamp(min=-1), (horizon - 1, missing), value=-1)
    around = padded.unfold(1, 2 * horizon, 1)[:, :length]
    targets = targets.to(torch.get_default_dtype())
    return Ahead(around, *(each.to(codes.device) for each in (targets, place, gone, whole)))


def anticipation_losses(log_scores: Tensor, ahead: Ahead) -> tuple[Tensor, Tensor]:
    """What an anticipator minimises, (B, L) each: the cross-entropy against the target, nats, and the
    unlikelihood, ``-sum log(1 - s)`` over the codes of the last K steps that do not return in the next K.

    Args:
        log_scores: (B, L, V).
        ahead: what is around the steps.
    """
    # Looked up at once: each look-up's gradient is as large as all scores.
    found = log_scores.gather(-1, ahead.around.clamp(min=0))
    past, future = found.chunk(2, -1)
    said = torch.log1p(-past.exp().clamp(max=1.0 - LOWEST))
    return -(ahead.scores * future).sum(-1), -torch.where(ahead.gone, said, 0.0).sum(-1)


def select(log_scores: Tensor, log_frequency: Tensor, slots: int, boost: Tensor | None = None) -> PlanChoice:
    """The codes that stand out most against their usual frequency, at most ``slots`` of them.

    A code's contrast is ``log s - log p``; those with the largest positive contrasts are taken, weighted by
    their contrast over the sum.

    Args:
        log_scores: (..., V).
        log_frequency: (V,) of the codes, with its floor.
        boost: (V,) or (..., V) added to the contrasts: positive ones favour, -inf forbids a code.
    """
    contrast = log_scores - log_frequency
    if boost is not None:
        contrast = contrast + boost
    best, codes = contrast.topk(min(slots, contrast.shape[-1]), -1)
    return PlanChoice(codes, normalised(best))


def normalised(contrast: Tensor) -> Tensor:
    """Weights (..., K) of contrasts (..., K): the positive ones over their sum, all 0 where there is none."""
    positive = contrast.clamp(min=0.0)
    total = positive.sum(-1, keepdim=True)
    return torch.where(total > 0.0, positive / total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)
