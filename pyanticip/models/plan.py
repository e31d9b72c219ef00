"""A plan: what is foreseen to come, for the first attention layer to look at beside the past."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Plan:
    """For each step up to K things foreseen.

    ``embeddings`` (B, L, K, D) stand for them in attention; ``log_weights`` (B, L, K), -inf where there is
    nothing; ``codes`` (B, L, K) int64 say which they are. A step may have an empty plan.
    """

    embeddings: Tensor
    log_weights: Tensor
    codes: Tensor

    def chunk(self, first: int, last: int) -> "Plan":
        """The plans of the steps from ``first`` up to and without ``last``."""
        return Plan(*(t[:, first:last] for t in (self.embeddings, self.log_weights, self.codes)))


def attend_plan(q: Tensor, plan: Plan, weight: Tensor) -> Tensor:
    """``softmax(q k / sqrt(d) + log w) v`` over each step's own plan (B, L, H d); zero for an empty one.

    Keys and values are the plan's embeddings through the layer's own projections. Those are linear, so they
    need not be computed for every entry: the query goes through the keys' projection instead, and the mean
    embedding through the values'.

    :param q: (B, L, H, d) queries, as projected.
    :param weight: (3 H d, D) of the layer's joint projection to queries, keys and values.
    """
    rows, length, heads, width = q.shape
    keys, values = weight.view(3, heads, width, -1)[1:].unbind(0)  # (H, d, D)
    asked = torch.einsum("blhd,hde->blhe", q * width**-0.5, keys)
    present = plan.log_weights > float("-inf")
    log_weights = torch.where(present, plan.log_weights, torch.full_like(plan.log_weights, -1e30))
    scores = asked @ plan.embeddings.transpose(-1, -2) + log_weights[:, :, None]
    share = F.softmax(scores, -1) * present.any(-1)[:, :, None, None]
    mixed = share.to(plan.embeddings.dtype) @ plan.embeddings  # (B, L, H, D)
    return torch.einsum("blhe,hde->blhd", mixed, values).reshape(rows, length, -1)
