"""Attention over a finite past with additive steering, offline and streaming.

Projections live here; how queries meet keys is the layout's business, of which there are four that agree:
:class:`~pyanticip.models.core.band.Band` (blocks with an explicit bias; the reference, and chunks that follow
a state), :class:`~pyanticip.models.core.fused.Fused` (whole sequences, no score matrix in memory),
:class:`~pyanticip.models.core.chunked.Chunked` (those whose bias does not factor) and
:class:`~pyanticip.models.core.single_step.SingleStep` (single steps, straight on the ring).

Letters: b rows of the batch, h heads, i queries, j keys, d features of a head.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.core.steering import Extras
from pyanticip.models.core.streaming import State


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


@dataclass
class Ring(State):
    """Keys and values of the last ``past + 1`` steps, each (B, past + 1, H, d); a step sits at slot count mod
    capacity. Keys are stored as projected, without positions.

    With a gate ``gate`` (B, past + 1) holds the logarithm of the gates of those steps, and ``field`` what the
    gate remembers; without one both are empty.
    """

    k: Tensor
    v: Tensor
    gate: Tensor | tuple[()] = ()
    field: State | tuple[()] = ()


class Layout(Protocol):
    """How queries of a chunk meet keys."""

    @property
    def stored(self) -> Tensor | None:
        """The ring of the keys' places with the chunk in it, where steps have places and a past."""
        ...

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, ring: Ring | None, extras: Extras | None = None
    ) -> tuple[Tensor, Ring | None]:
        """Mixed values (B, L, H d) of projections (B, L, H, d), and the ring with the chunk in it.

        :param extras: what the layer adds to the scores of its own.
        """
        ...


class TrajectoryAttention(nn.Module):
    """``softmax(q k / sqrt(d) + bias) v`` over a finite past; fused projections without bias terms.

    :param d_model: width of the stream.
    :param heads: number of heads H.
    :param past: past steps each query may see.
    """

    def __init__(self, d_model: int, heads: int, past: int) -> None:
        super().__init__()
        self.heads = heads
        self.past = past
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, batch: int, field: State | None = None) -> Ring:
        """An empty ring, of a layer with this state of its gate."""
        weight = self.qkv.weight
        shape = (batch, self.past + 1, self.heads, weight.shape[1] // self.heads)
        ring = Ring(weight.new_zeros(shape), weight.new_zeros(shape))
        if field is not None:
            ring.gate, ring.field = weight.new_zeros(shape[:2]), field
        return ring

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        ring: Ring | None,
        extras: Extras | None = None,
        plan: Plan | None = None,
    ) -> tuple[Tensor, Ring | None]:
        """Attend from a chunk (B, L, D) to itself and, through the ring, to what came before.

        :param extras: what the layer adds to the scores of its own.
        :param plan: what each step looks at beside the past.
        """
        rows, length, _ = x.shape
        q, k, v = self.qkv(x).view(rows, length, 3, self.heads, -1).unbind(2)
        mixed, ring = layout.attend(q, k, v, ring, extras)
        if plan is not None:
            mixed = mixed + attend_plan(q, plan, self.qkv.weight).to(mixed.dtype)
        return self.out(mixed), ring
