"""The planning signal (Wang, Anticipating Future Tokens): targets, losses and selection of plans.

At every step a model may attend to a plan: a few codes (tokens, or codes of motion frames) that are likely in
the next K steps, each with a weight. Learned modules are in :mod:`pyanticip.models.parts.planning.heads`,
attention to plans in :mod:`pyanticip.models.core.plan`, and the plans of a running model in
:mod:`pyanticip.models.parts.planning.passes`.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip import _core

LOWEST = 1e-6
"""Scores are clamped to this distance from 0 and 1 before the logarithms of s and 1 - s."""


@dataclass(frozen=True)
class PlanChoice:
    """The codes of a plan: ``codes`` (..., K) int64 and ``weights`` (..., K) in [0, 1], 0 for an empty slot;
    the weights of a step sum to 1 or are all 0."""

    codes: Tensor
    weights: Tensor

    def __getitem__(self, index: Any) -> "PlanChoice":
        """The plans at an index of both tensors."""
        return PlanChoice(self.codes[index], self.weights[index])


@dataclass(frozen=True)
class Ahead:
    """The codes around every step, and the anticipator's targets for the next ones.

    ``around`` (B, L, 2 K): the last K codes, ending with the step's own, and the next K; -1 where there is
    none. ``targets`` (U,): the distinct target values, 0 first. ``place`` (B, L, K): index into them of the
    target of each slot of :attr:`codes`; 0 for a missing code and for one that is in an earlier slot.
    ``gone`` (B, L, K): whether the code in this one of the first K slots of ``around`` is in none of the
    slots after it. ``whole`` (B, L): whether all of the next K steps exist.
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
        """Targets (B, L, K), which sum to 1: a code's target in its first slot, 0 in its others."""
        return self.targets[self.place]


def look_ahead(codes: Tensor, horizon: int, length: int | None = None) -> Ahead:
    """Compute the codes around each of ``length`` steps, and the targets.

    A code d steps ahead weighs ``log(horizon + 2 - d)``; a code's target is its total weight over that of all
    codes. Missing codes, as at the end, have no weight.

    Args:
        codes: (B, N) integers, negative for none.
        horizon: K steps.
        length: number of steps, by default all N.
    """
    rows, count = codes.shape
    length = count if length is None else length
    place = torch.empty(rows, length, horizon, dtype=torch.int64)
    gone, whole = (torch.empty(*size, dtype=torch.bool) for size in (place.shape, place.shape[:2]))
    array = codes.long().contiguous().numpy(force=True)
    targets = torch.from_numpy(_core.plan_targets(array, place.numpy(), gone.numpy(), whole.numpy()))
    # At least one window, even for no step: ``unfold`` needs one.
    missing = max(0, max(length, 1) + horizon - count)
    padded = F.pad(codes.long().clamp(min=-1), (horizon - 1, missing), value=-1)
    around = padded.unfold(1, 2 * horizon, 1)[:, :length]
    targets = targets.to(torch.get_default_dtype())
    return Ahead(around, *(each.to(codes.device) for each in (targets, place, gone, whole)))


def anticipation_losses(log_scores: Tensor, ahead: Ahead) -> tuple[Tensor, Tensor]:
    """The anticipator's losses, (B, L) each: cross-entropy against the target, in nats, and unlikelihood,
    ``-sum log(1 - s)`` over the codes of the last K steps that do not return in the next K.

    Args:
        log_scores: (B, L, V).
        ahead: the codes around the steps, and their targets.
    """
    # One gather for both: the gradient of each is as large as all scores.
    past, future = log_scores.gather(-1, ahead.around.clamp(min=0)).chunk(2, -1)
    log_absent = torch.log1p(-past.exp().clamp(max=1.0 - LOWEST))
    return -(ahead.scores * future).sum(-1), -torch.where(ahead.gone, log_absent, 0.0).sum(-1)


def select(log_scores: Tensor, log_frequency: Tensor, slots: int, boost: Tensor | None = None) -> PlanChoice:
    """Select up to ``slots`` codes whose scores exceed their usual frequency most.

    A code's contrast is ``log s - log p``; those with the largest positive contrasts are selected, with
    weights proportional to the contrasts.

    Args:
        log_scores: (..., V).
        log_frequency: (V,) log frequencies of the codes, with their floor.
        boost: (V,) or (..., V) added to the contrasts: positive values favour a code, -inf forbids it.
    """
    contrast = log_scores - log_frequency
    if boost is not None:
        contrast = contrast + boost
    best, codes = contrast.topk(min(slots, contrast.shape[-1]), -1)
    return PlanChoice(codes, normalised(best))


def normalised(contrast: Tensor) -> Tensor:
    """Weights (..., K) of contrasts (..., K): the positive ones over their sum, all 0 if none is positive."""
    positive = contrast.clamp(min=0.0)
    total = positive.sum(-1, keepdim=True)
    return torch.where(total > 0.0, positive / total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)
