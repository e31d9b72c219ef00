"""Sums that forget, ``s_t = decay s_(t-1) + x_t``, and averages of them: in parallel and step by step."""

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

_BLOCK = 256


def decayed_sums(x: Tensor, decay: float, before: Tensor | None = None) -> Tensor:
    """``s_t = decay s_(t-1) + x_t`` along the last axis, in parallel and in linear time.

    Blocks of 256 are summed by a triangular matrix, and what blocks pass on to each other by this function
    itself.

    :param x: (B, L).
    :param before: (B,) the sum before the first step, 0 if absent.
    """
    rows, length = x.shape
    if length == 1:
        return x if before is None else x + decay * before[:, None]
    size = min(length, _BLOCK)
    reach = _constant(_reach, decay, size, x)
    if length <= _BLOCK:
        sums = x @ reach
        return sums if before is None else sums + before[:, None] * (reach[0] * decay)
    fall = reach[0] * decay
    blocks = -(-length // size)
    inner = F.pad(x, (0, blocks * size - length)).view(rows, blocks, size) @ reach
    ends = decayed_sums(inner[..., -1], decay**size, before) if decay**size else inner[..., -1]
    first = x.new_zeros(rows) if before is None else before
    carried = torch.cat((first[:, None], ends[:, :-1]), 1)
    return (inner + carried[..., None] * fall).flatten(1)[:, :length]


def mass(decay: float, length: int, like: Tensor) -> Tensor:
    """(1, L): how much of an average is filled at each step from the first on, ``1 - decay^(t + 1)``."""
    return _constant(_filled, decay, length, like)


def averages(x: Tensor, decay: float) -> Tensor:
    """The running average of (B, L) over the steps so far, free of any bias towards the start."""
    length = x.shape[1]
    if length <= _BLOCK:
        return x @ _constant(_shares, decay, length, x)
    return decayed_sums((1.0 - decay) * x, decay) / mass(decay, length, x)


def _reach(decay: float, length: int, like: Tensor) -> Tensor:
    """(i, t): how much of step i is left at step t."""
    steps = torch.arange(length, device=like.device)
    ages = (steps - steps[:, None]).to(like.dtype)
    return torch.exp(ages.clamp(min=0) * math.log(decay)).triu()


def _filled(decay: float, length: int, like: Tensor) -> Tensor:
    """(1, L): how much of the average is filled at each step from the first on."""
    steps = torch.arange(1, length + 1, device=like.device)
    return -torch.expm1(steps.to(like.dtype) * math.log(decay))[None]


def _shares(decay: float, length: int, like: Tensor) -> Tensor:
    """(i, t): the share of step i in the average at step t; those of a step add up to one."""
    return (1.0 - decay) * _reach(decay, length, like) / _filled(decay, length, like)


Make = Callable[[float, int, Tensor], Tensor]


def _constant(make: Make, decay: float, length: int, like: Tensor) -> Tensor:
    """What ``make`` computes of these numbers, made once for each type and device: it depends on nothing
    else, and making it takes longer than using it."""
    if torch.compiler.is_compiling():
        return make(decay, length, like)
    return _made(make, decay, length, like.dtype, like.device)


@lru_cache(maxsize=32)
def _made(make: Make, decay: float, length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return make(decay, length, torch.empty(0, dtype=dtype, device=device))
