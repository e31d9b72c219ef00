"""The layout of a single step without gradients: write into the ring, attend to it as it lies.

Slots are not put in order: each carries its age, and the bias follows the age. So a step copies nothing and
costs the same however long the stream has run.
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
    """What every layer of a pathway shares for one step.

    ``bias`` (B, H, 1, past + 1) by slot, -inf where nothing is stored; ``slot`` (B,) where the step goes and
    ``keep`` (B,) whether it is real (``None``: everywhere); ``ages`` (B, past + 1) of the slots. Where steps
    have places, ``query_places`` (B, 1, C, d) is the step's as a query and ``stored`` (B, past + 1, C, d) the
    ring of those of the keys, the step's among them.
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
        keys, values = (_store(r, new, self.slot, self.keep) for r, new in ((ring.k, k), (ring.v, v)))
        bias = self.bias
        if extras is not None and extras.log_gate is not None:
            assert isinstance(ring.gate, Tensor)
            gates = _store(ring.gate, extras.log_gate, self.slot, self.keep)
            bias = bias + gates[:, None, None]
        if extras is not None and self.query_places is not None and self.stored is not None:
            q, asked = extras.content(q), extras.asked(self.query_places)
            bias = bias + asked.transpose(1, 2) @ self.stored.flatten(2)[:, None].transpose(2, 3)
        keys = keys.transpose(1, 2)  # (B, H, slots, d)
        if self.rotary:
            keys = rotate(keys, (-self.rotary * self.ages)[:, None])
        if torch.compiler.is_compiling():
            return _mixed(q, keys, values, bias), ring
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), keys, values.transpose(1, 2), bias)
        return mixed.transpose(1, 2).flatten(2), ring


def _mixed(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """The same in sums that a compiler makes into a kernel each: for a single query a matrix product would
    first copy the whole ring."""
    scores = (q.transpose(1, 2) * keys).sum(-1) * q.shape[-1] ** -0.5 + bias[:, :, 0]  # (B, H, slots)
    values = values.permute(0, 2, 3, 1)  # (B, H, d, slots)
    # A share for every feature, though they are the same: so they are summed where the values are.
    shares = scores[:, :, None].expand_as(values).softmax(-1)
    mixed: Tensor = (shares * values).sum(-1)
    return mixed.flatten(1)[:, None]


def make_single_step(
    past: int, steering: Steering, *, count: Tensor, new: Tensor | None, dtype: torch.dtype
) -> SingleStep:
    """Prepare a pathway's attention for one step.

    Args:
        past: past steps the query may see beside itself.
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
        ring = _store(ring, places.keys, slot, keep)
    asked = None if places is None else places.queries
    return SingleStep(bias[:, :, None], slot, keep, ages, steering.rotary, asked, ring)


def _store(ring: Tensor, new: Tensor, slot: Tensor, keep: Tensor | None) -> Tensor:
    """The ring (B, past + 1, ...) with a step (B, 1, ...) in its slot, where it is real: written in place;
    the ring keeps its type."""
    new = new.to(ring.dtype)
    if torch.compiler.is_compiling():
        # The whole ring anew: a compiler does that in the kernels that read it.
        here = slot[:, None] == torch.arange(ring.shape[1], device=ring.device)
        if keep is not None:
            here = here & keep[:, None]
        return ring.copy_(torch.where(here.view(*here.shape, *(1,) * (ring.ndim - 2)), new, ring))
    rows, new = torch.arange(len(slot), device=slot.device), new[:, 0]
    if keep is not None:
        new = torch.where(keep.view(-1, *(1,) * (new.ndim - 1)), new, ring[rows, slot])
    ring[rows, slot] = new
    return ring
