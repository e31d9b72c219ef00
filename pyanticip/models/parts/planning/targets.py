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
    """The codes of the next K steps of every step, and what an anticipator should say about them.

    ``codes`` (B, L, K): slot d - 1 holds the code d steps ahead, -1 where the sequence has ended. ``shares``
    (B, L, K): ``s(d)``, over its sum. ``scores`` (B, L, K): the target of the code in this slot, its shares
    over all of its slots summed. ``first`` (B, L, K): whether this is the first slot of its code; over those,
    the scores sum to 1. ``whole`` (B, L): whether all K steps exist.
    """

    codes: Tensor
    shares: Tensor
    scores: Tensor
    first: Tensor
    whole: Tensor


def look_ahead(codes: Tensor, horizon: int, length: int | None = None) -> Ahead:
    """What comes in the ``horizon`` steps after each of ``length`` steps: ``s(d) ~ log(horizon + 2 - d)``.

    Near the end of the codes, what is missing takes no part: the remaining shares are normalised.

    Args:
        codes: (B, N) int64.
        horizon: K steps.
        length: how many steps, by default all N.
    """
    count = codes.shape[1]
    length = count if length is None else length
    missing = max(0, length + horizon - count)
    padded = F.pad(codes, (0, missing), value=-1)[:, 1:]
    found = padded.unfold(1, horizon, 1)[:, :length]  # (B, L, K)
    distance = torch.arange(1, horizon + 1, device=codes.device, dtype=torch.float64)
    raw = torch.log(horizon + 2 - distance).to(torch.get_default_dtype())
    there = found >= 0
    raw = torch.where(there, raw, 0.0)
    shares = raw / raw.sum(-1, keepdim=True).clamp(min=LOWEST)
    # Sorted, the slots of a code lie side by side, its first one first; what is missing has no share.
    ordered, slot = found.sort(dim=-1, stable=True)
    begins = ordered != F.pad(ordered[..., :-1], (1, 0), value=-2)
    group = begins.cumsum(-1) - 1
    totals = torch.zeros_like(shares).scatter_add_(-1, group, shares.gather(-1, slot)).gather(-1, group)
    scores = torch.zeros_like(shares).scatter_(-1, slot, totals)
    earliest = torch.zeros_like(begins).scatter_(-1, slot, begins)
    return Ahead(found, shares, scores, there & earliest, there.all(-1))


def look_back(codes: Tensor, horizon: int, length: int | None = None) -> Tensor:
    """The last ``horizon`` codes of each of the first ``length`` steps, its own included, newest last:
    (B, L, K), -1 before the start."""
    length = codes.shape[1] if length is None else length
    return F.pad(codes[:, :length], (horizon - 1, 0), value=-1).unfold(1, horizon, 1)


def anticipation_losses(log_scores: Tensor, recent: Tensor, ahead: Ahead) -> tuple[Tensor, Tensor]:
    """What an anticipator minimises, (B, L) each: the cross-entropy against the target, nats, and the
    unlikelihood, ``-sum log(1 - s)`` over the codes of the last K steps that do not return in the next K.

    Args:
        log_scores: (B, L, V).
        recent: (B, L, K) of :func:`look_back`.
        ahead: the next K steps.
    """
    slots = recent.shape[-1]
    codes = torch.cat((recent, ahead.codes), -1)
    # Looked up at once: each look-up's gradient is as large as all scores.
    found = log_scores.gather(-1, codes.clamp(min=0))
    past, future = torch.split(found, [slots, ahead.codes.shape[-1]], -1)
    # Sorted, the slots of a code lie side by side, the latest last: it is gone if that one is past.
    ordered, slot = codes.sort(dim=-1, stable=True)
    ends = ordered != F.pad(ordered[..., 1:], (0, 1), value=-2)
    gone = torch.zeros_like(ends).scatter_(-1, slot, ends & (ordered >= 0))[..., :slots]
    said = torch.log1p(-past.exp().clamp(max=1.0 - LOWEST))
    return -(ahead.shares * future).sum(-1), -torch.where(gone, said, 0.0).sum(-1)


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
