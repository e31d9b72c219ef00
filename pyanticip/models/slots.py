"""The layout of a single step without gradients: write into the ring, attend to it as it lies.

Slots are not put in order: each carries its age, and the bias follows the age. So a step copies nothing and
costs the same however long the stream has run.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip.models.attention import Ring
from pyanticip.models.positions import rotate
from pyanticip.models.steering import Steering


@dataclass(frozen=True)
class Slots:
    """What every layer of a pathway shares for one step.

    ``bias`` (B, H, 1, past + 1) by slot, -inf where nothing is stored; ``slot`` (B,) where the step goes and
    ``keep`` (B,) whether it is real (``None``: everywhere); ``ages`` (B, past + 1) of the slots.
    """

    bias: Tensor
    slot: Tensor
    keep: Tensor | None
    ages: Tensor
    rotary: float = 0.0

    def attend(self, q: Tensor, k: Tensor, v: Tensor, ring: Ring | None) -> tuple[Tensor, Ring | None]:
        """See :class:`~pyanticip.models.attention.Layout`. The ring is written in place."""
        assert ring is not None
        rows = torch.arange(q.shape[0], device=q.device)
        for stored, new in ((ring.k, k[:, 0]), (ring.v, v[:, 0])):
            if self.keep is not None:
                new = torch.where(self.keep[:, None, None], new, stored[rows, self.slot])
            stored[rows, self.slot] = new
        keys = ring.k.transpose(1, 2)  # (B, H, slots, d)
        if self.rotary:
            keys = rotate(keys, (-self.rotary * self.ages)[:, None])
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), keys, ring.v.transpose(1, 2), self.bias)
        return mixed.transpose(1, 2).flatten(2), ring


def make_slots(
    past: int, steering: Steering, *, count: Tensor, new: Tensor | None, dtype: torch.dtype
) -> Slots:
    """Prepare a pathway's attention for one step.

    :param past: past steps the query may see beside itself.
    :param count: (B,) steps since each row's start.
    :param new: (B,) 1 where the step is real, 0 where it is not stored; ``None``: real everywhere.
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
    return Slots(bias[:, :, None], slot, None if new is None else new > 0, ages, steering.rotary)
