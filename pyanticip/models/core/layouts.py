"""Chooses the attention layout of a chunk: see :mod:`pyanticip.models.core.attention`."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from pyanticip.models.core.attention import Layout
from pyanticip.models.core.band import make_band
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.single_step import make_single_step
from pyanticip.models.core.steering import Steering


def make_layout(
    length: int,
    past: int,
    steering: Steering,
    like: Tensor,
    *,
    count: Tensor | None = None,
    new: Tensor | None = None,
    reference: bool = False,
) -> Layout:
    """Choose how a pathway attends over ``length`` of its steps.

    Args:
        past: past steps that each step may see.
        like: the pathway's input.
        count: (B,) earlier steps; ``None`` for a sequence from its start.
        new: (B,) how many of the steps are real in each row; ``None``: all of them.
        reference: whether a whole sequence takes the reference layout too.
    """
    if count is None and not reference:
        dtype = compute_dtype(like)
        whole = make_fused(length, past, steering, device=like.device, dtype=dtype)
        if whole is not None:
            return whole
    if count is not None and length == 1 and not torch.is_grad_enabled():
        return make_single_step(past, steering, count=count, new=new, dtype=like.dtype)
    return make_band(length, past, steering, count=count, new=new, device=like.device, dtype=like.dtype)


def exact(x: Tensor) -> AbstractContextManager[object]:
    """Context in which autocast is off, so that full precision is used."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def compute_dtype(like: Tensor) -> torch.dtype:
    """The dtype that attention will run in: autocast's where it is on."""
    device = like.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return like.dtype
