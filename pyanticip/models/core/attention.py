"""Attention over a finite past with additive steering, offline and streaming.

Projections are here; the layout computes the attention. Four layouts give the same result:
:class:`~pyanticip.models.core.band.Band` (blocks with an explicit bias; the reference, and chunks that follow
a state), :class:`~pyanticip.models.core.fused.Fused` (whole sequences, no score matrix in memory),
:class:`~pyanticip.models.core.chunked.Chunked` (sequences whose bias does not factor) and
:class:`~pyanticip.models.core.single_step.SingleStep` (single steps, directly on the ring).

Letters: b rows of the batch, h heads, i queries, j keys, d features of a head.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from pyanticip.models.core.plan import Plan, attend_plan
from pyanticip.models.core.steering import Extras
from pyanticip.models.core.streaming import State


@dataclass
class Ring(State):
    """Keys and values of the last ``past + 1`` steps, each (B, past + 1, H, d); a step is in slot ``count mod
    (past + 1)``. Keys are stored as projected, without positions.

    With a gate, ``gate`` (B, past + 1) holds the logarithms of those steps' gates and ``field`` the gate's
    state; without one both are empty.
    """

    k: Tensor
    v: Tensor
    gate: Tensor | tuple[()] = ()
    field: State | tuple[()] = ()


class Layout(Protocol):
    """Computes attention of the queries of a chunk."""

    @property
    def stored(self) -> Tensor | None:
        """The ring of the keys' position vectors, chunk included; ``None`` without vectors or a state."""
        ...

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, ring: Ring | None, extras: Extras | None = None
    ) -> tuple[Tensor, Ring | None]:
        """Mixed values (B, L, H d) of projections (B, L, H, d), and the ring with the chunk in it.

        Args:
            extras: the layer's own score terms.
        """
        ...


class TrajectoryAttention(nn.Module):
    """``softmax(q k / sqrt(d) + bias) v`` over a finite past; fused projections without bias terms.

    Args:
        d_model: width of the stream.
        heads: number of heads H.
        past: past steps each query may see.
    """

    def __init__(self, d_model: int, heads: int, past: int) -> None:
        super().__init__()
        self.heads = heads
        self.past = past
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def initial_state(self, batch: int, field: State | None = None) -> Ring:
        """An empty ring; ``field`` is the initial state of the layer's gate, if it has one."""
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
        """Attend from a chunk (B, L, D) to itself and, through the ring, to the steps before it.

        Args:
            extras: the layer's own score terms.
            plan: predicted codes that each step attends to besides the past.
        """
        rows, length, _ = x.shape
        q, k, v = self.qkv(x).view(rows, length, 3, self.heads, -1).unbind(2)
        mixed, ring = layout.attend(q, k, v, ring, extras)
        if plan is not None:
            mixed = mixed + attend_plan(q, plan, self.qkv.weight).to(mixed.dtype)
        return self.out(mixed), ring
