"""Attention layout of a single step without gradients: writes into the ring and attends to it in place.

Slots are not sorted: the bias is looked up by each slot's age. So a step copies nothing, and its cost does
not depend on the length of the stream.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip.models.core.attention import Ring
from pyanticip.models.core.encodings import rotate
from pyanticip.models.core.steering import Extras, Steering


@dataclass(frozen=True)
class SingleStep:
    """Data shared by every layer of a pathway for one step.

    ``bias`` (B, H, 1, past + 1) by slot, -inf in empty slots; ``slot`` (B,) the step's slot and ``keep`` (B,)
    whether it is real (``None``: in all rows); ``ages`` (B, past + 1) of the slots, in steps. With position
    vectors, ``query_places`` (B, 1, C, d) are the step's as a query and ``stored`` (B, past + 1, C, d) the
    ring of those of the keys, the step's included.
    """

    bias: Tensor
    slot: Tensor
    keep: Tensor | None
    ages: Tensor
    rotary: float = 0.0
    query_places: Tensor | None = None
    stored: Tensor | None = None

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, ring: Ring | None, extras: Extras | None = None
    ) -> tuple[Tensor, Ring | None]:
        """See :class:`~pyanticip.models.core.attention.Layout`. The ring is written in place."""
        assert ring is not None
        keys, values = (_store_step(r, new, self.slot, self.keep) for r, new in ((ring.k, k), (ring.v, v)))
        bias = self.bias
        if extras is not None and extras.log_gate is not None:
            assert isinstance(ring.gate, Tensor)
            gates = _store_step(ring.gate, extras.log_gate, self.slot, self.keep)
            bias = bias + gates[:, None, None]
        if extras is not None and self.query_places is not None and self.stored is not None:
            q, place_queries = extras.content(q), extras.weighted_places(self.query_places)
            bias = bias + place_queries.transpose(1, 2) @ self.stored.flatten(2)[:, None].transpose(2, 3)
        keys = keys.transpose(1, 2)  # (B, H, slots, d)
        if self.rotary:
            keys = rotate(keys, (-self.rotary * self.ages)[:, None])
        if torch.compiler.is_compiling():
            return _attend_elementwise(q, keys, values, bias), ring
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), keys, values.transpose(1, 2), bias)
        return mixed.transpose(1, 2).flatten(2), ring


def _attend_elementwise(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """Attention as sums, each of which a compiler turns into one kernel: for a single query a matrix product
    would first copy the whole ring."""
    scores = (q.transpose(1, 2) * keys).sum(-1) * q.shape[-1] ** -0.5 + bias[:, :, 0]  # (B, H, slots)
    values = values.permute(0, 2, 3, 1)  # (B, H, d, slots)
    # The shares are repeated for every feature, so that they are summed in the same kernel as the values.
    shares = scores[:, :, None].expand_as(values).softmax(-1)
    mixed: Tensor = (shares * values).sum(-1)
    return mixed.flatten(1)[:, None]


def make_single_step(
    past: int, steering: Steering, *, count: Tensor, new: Tensor | None, dtype: torch.dtype
) -> SingleStep:
    """Prepare a pathway's attention for one step.

    Args:
        past: past steps the query may see besides itself.
        count: (B,) steps since each row's start.
        new: (B,) 1 where the step is real, 0 where it is not stored; ``None``: real everywhere.
    """
    capacity = past + 1
    slot = count % capacity
    ages = (slot[:, None] - torch.arange(capacity, device=count.device)) % capacity  # (B, slots)
    stored = ages <= count[:, None]
    bias = torch.zeros((), device=count.device, dtype=dtype)
    if steering.amplitude is not None:
        steps = torch.arange(capacity, device=count.device)
        table = steering.kernel(steps)
        assert table is not None
        bias = steering.amplitude[:, 0, :, None] * table[:, ages].transpose(0, 1)
    if steering.slopes is not None:
        bias = bias - steering.slopes[:, None] * ages[:, None].to(steering.slopes.dtype)
    bias = torch.where(stored[:, None], bias.to(dtype), torch.full_like(bias, float("-inf"), dtype=dtype))
    keep = None if new is None else new > 0
    places, ring = steering.places, steering.place_ring
    if places is not None and ring is not None:
        ring = _store_step(ring, places.keys, slot, keep)
    place_queries = None if places is None else places.queries
    return SingleStep(bias[:, :, None], slot, keep, ages, steering.rotary, place_queries, ring)


def _store_step(ring: Tensor, new: Tensor, slot: Tensor, keep: Tensor | None) -> Tensor:
    """Write a step (B, 1, ...) into its slot of the ring (B, past + 1, ...), in rows where it is real; the
    ring keeps its dtype."""
    new = new.to(ring.dtype)
    if torch.compiler.is_compiling():
        # Rewrite the whole ring: a compiler fuses this into the kernels that read it.
        is_slot = slot[:, None] == torch.arange(ring.shape[1], device=ring.device)
        if keep is not None:
            is_slot = is_slot & keep[:, None]
        return ring.copy_(torch.where(is_slot.view(*is_slot.shape, *(1,) * (ring.ndim - 2)), new, ring))
    rows, new = torch.arange(len(slot), device=slot.device), new[:, 0]
    if keep is not None:
        new = torch.where(keep.view(-1, *(1,) * (new.ndim - 1)), new, ring[rows, slot])
    ring[rows, slot] = new
    return ring
