"""A plan: what is foreseen to come, for the first attention layer to look at beside the past."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Plan:
    """For each step up to K things foreseen.

    ``embeddings`` (B, L, K, D) stand for them in attention; ``log_weights`` (B, L, K), -inf where there is
    nothing; ``codes`` (B, L, K) int64 say which they are. A step may have an empty plan. ``paper``: how
    :func:`attend_plan` reads it.
    """

    embeddings: Tensor
    log_weights: Tensor
    codes: Tensor
    paper: bool = False

    def chunk(self, first: int, last: int) -> "Plan":
        """The plans of the steps from ``first`` up to and without ``last``."""
        part = slice(first, last)
        return replace(
            self,
            embeddings=self.embeddings[:, part],
            log_weights=self.log_weights[:, part],
            codes=self.codes[:, part],
        )


def attend_plan(q: Tensor, plan: Plan, weight: Tensor) -> Tensor:
    """``softmax(q k / sqrt(d) + log w) v`` over each step's own plan (B, L, H d); zero for an empty one.

    Keys and values are the plan's embeddings through the layer's own projections. Those are linear, so they
    need not be computed for every entry: the query goes through the keys' projection instead, and the mean
    embedding through the values'.

    By the paper's letter (Wang, equation 5) scores are divided by d instead, and the weights count after the
    softmax, not in it: ``(softmax(q k / d) * w) v``.

    :param q: (B, L, H, d) queries, as projected.
    :param weight: (3 H d, D) of the layer's joint projection to queries, keys and values.
    """
    rows, length, heads, width = q.shape
    keys, values = weight.view(3, heads, width, -1)[1:].unbind(0)  # (H, d, D)
    asked = torch.einsum("blhd,hde->blhe", q * (1.0 / width if plan.paper else width**-0.5), keys)
    present = plan.log_weights > float("-inf")
    log_weights = torch.where(present, plan.log_weights, torch.full_like(plan.log_weights, -1e30))
    scores = asked @ plan.embeddings.transpose(-1, -2)
    if plan.paper:
        scores = scores.masked_fill(~present[:, :, None], -1e30)
        share = F.softmax(scores, -1) * log_weights.exp()[:, :, None]
    else:
        share = F.softmax(scores + log_weights[:, :, None], -1) * present.any(-1)[:, :, None, None]
    mixed = share.to(plan.embeddings.dtype) @ plan.embeddings  # (B, L, H, D)
    return torch.einsum("blhe,hde->blhd", mixed, values).reshape(rows, length, -1)
