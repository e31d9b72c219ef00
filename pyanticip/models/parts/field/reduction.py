"""What a control field feels over a whole sequence: in tensor operations, and in Rust.

:func:`reduce_field_plainly` is the definition, and what GPUs, compilers and higher derivatives take.
:func:`reduce_field` computes the same, up to rounding, on a CPU: a field has some thirty numbers for each
step and a dozen functions of them, and between the large products of its block, which empty all caches,
calling so many small operations takes longer than what they do.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip import _core

_BLOCK = 256


def decayed_sums(x: Tensor, decay: float, before: Tensor | None = None) -> Tensor:
    """``s_t = decay s_(t-1) + x_t`` along the last axis, in parallel and in linear time.

    Blocks of 256 are summed by a triangular matrix, and what blocks pass on to each other by this function
    itself.

    Args:
        x: (B, L).
        before: (B,) the sum before the first step, 0 if absent.
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


GATE_FLOOR = 1e-8
"""What is added to a gate before its logarithm."""


class FieldWeights(NamedTuple):
    """A field's parameters: ``fibre`` (W, D), ``inner`` (N, D + W) with ``bias`` (N,), ``last`` (1, N) with
    ``end`` (1,), and ``raw`` () whose softplus is the strength of the gate."""

    fibre: Tensor
    inner: Tensor
    bias: Tensor
    last: Tensor
    end: Tensor
    raw: Tensor


class FieldSeries(NamedTuple):
    """All (B, L): see :class:`~pyanticip.models.parts.field.control_field.FieldOutput`."""

    log_gate: Tensor
    scale: Tensor
    held: Tensor
    risk: Tensor
    kappa: Tensor


def reduce_field(x: Tensor, weights: FieldWeights, decay: float, bend: float) -> FieldSeries:
    """The field over sequences (B, L, D) from their start.

    Args:
        decay: of the average.
        bend: how much curvature scales the feed-forward layer down.
    """
    precise = x.dtype in (torch.float32, torch.float64) and weights.fibre.dtype == x.dtype
    if x.device.type != "cpu" or not precise or torch.compiler.is_compiling():
        return reduce_field_plainly(x, weights, decay, bend)
    if torch.is_grad_enabled():
        return FieldSeries(*_Reduce.apply(x, *weights, decay, bend))  # type: ignore[no-untyped-call]
    return FieldSeries(*_reduce_field(x, weights, decay, bend)[3].unbind()[:5])


def reduce_field_plainly(x: Tensor, weights: FieldWeights, decay: float, bend: float) -> FieldSeries:
    """The same by its definition."""
    phi, pre_risk = read(x, weights)
    risk = F.softplus(F.linear(F.gelu(pre_risk), weights.last, weights.end).squeeze(-1))
    held = averages(risk, decay)
    kappa = curvature(phi)
    return FieldSeries(log_gates(held, weights.raw), scales(kappa, bend), held, risk, kappa)


def read(x: Tensor, weights: FieldWeights) -> tuple[Tensor, Tensor]:
    """The fibre (B, L, W) and the hidden layer (B, L, N) before its nonlinearity.

    Both are linear in the step, the second one by way of the first as well: so one product does it.
    """
    seen = F.linear(x, _joint(weights))
    width = len(weights.fibre)
    return seen[..., :width], seen[..., width:] + weights.bias


def curvature(phi: Tensor) -> Tensor:
    """(B, L) half the way between the fibres of a step and the one before the last; 0 for the first two."""
    way = torch.linalg.vector_norm(phi[:, 2:] - phi[:, :-2], dim=-1)
    return 0.5 * F.pad(way, (min(2, phi.shape[1]), 0))


def log_gates(held: Tensor, raw: Tensor) -> Tensor:
    """The logarithm of the gates at these held risks."""
    return torch.log(torch.sigmoid(-F.softplus(raw) * held) + GATE_FLOOR)


def scales(kappa: Tensor, bend: float) -> Tensor:
    """What the feed-forward layer's output is multiplied by."""
    return torch.sigmoid(1.0 - bend * kappa)


def _joint(weights: FieldWeights) -> Tensor:
    """(W + N, D): fibre and hidden layer as one product."""
    fibre, inner = weights.fibre, weights.inner
    return torch.cat((fibre, torch.addmm(inner[:, : fibre.shape[1]], inner[:, fibre.shape[1] :], fibre)))


class _Reduce(torch.autograd.Function):
    """The field in Rust, on the tensors' own memory; gradients of the gradient go by the definition."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        weights, (ctx.decay, ctx.bend) = FieldWeights(*rest[:6]), rest[6:]
        ctx.arrays, joint, seen, series = _reduce_field(x, weights, ctx.decay, ctx.bend)
        ctx.save_for_backward(x, *weights, joint, seen, series)
        ctx.set_materialize_grads(False)
        return series.unbind()[:5]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, *rest, joint, seen, series = ctx.saved_tensors
        weights = FieldWeights(*rest)
        if torch.is_grad_enabled():
            return (*_by_definition(x, weights, grads, ctx.decay, ctx.bend), None, None)
        fibres, width = len(weights.fibre), x.shape[-1]
        bias, last, end, raw = ctx.arrays
        of_seen, found = torch.empty_like(seen), [torch.from_numpy(np.empty_like(a)) for a in ctx.arrays]
        given = [None if g is None else g.contiguous().numpy() for g in grads]
        _core.field_backward(
            seen.numpy(),
            fibres,
            bias,
            last,
            end,
            raw,
            ctx.decay,
            ctx.bend,
            series.numpy(),
            given,
            [of_seen.numpy(), *(t.numpy() for t in found)],
        )
        of_joint = torch.mm(of_seen, x.reshape(-1, width))
        of_first, of_rest = of_joint[:fibres], of_joint[fibres:]
        of_fibre = torch.addmm(of_first, weights.inner[:, width:].t(), of_rest)
        of_inner = torch.cat((of_rest, torch.mm(of_rest, weights.fibre.t())), 1)
        of_x = torch.mm(of_seen.t(), joint).view(x.shape) if ctx.needs_input_grad[0] else None
        return (of_x, of_fibre, of_inner, *found, None, None)


def _reduce_field(
    x: Tensor, weights: FieldWeights, decay: float, bend: float
) -> tuple[list[Any], Tensor, Tensor, Tensor]:
    """The arrays of bias, last, end and raw, the joint matrix, what it makes of the steps (W + N, B L), and
    the field's series (6, B, L): last the risk before its softplus."""
    bias, last, end, raw = arrays = [t.detach().contiguous().numpy() for t in weights[2:]]
    joint = _joint(weights).detach()
    seen = torch.mm(joint, x.detach().reshape(-1, x.shape[-1]).t())
    series = x.new_empty(6, *x.shape[:2])
    fibres = len(weights.fibre)
    _core.field_forward(seen.numpy(), fibres, bias, last, end, raw, decay, bend, series.numpy())
    return arrays, joint, seen, series


def _by_definition(
    x: Tensor, weights: FieldWeights, grads: tuple[Tensor | None, ...], decay: float, bend: float
) -> tuple[Tensor | None, ...]:
    """The gradients as functions that can be differentiated again."""
    series = reduce_field_plainly(x, weights, decay, bend)
    pairs = [(value, grad) for value, grad in zip(series, grads, strict=True) if grad is not None]
    inputs = [t for t in (x, *weights) if t.requires_grad]
    values, given = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(values, inputs, given, create_graph=True, allow_unused=True))
    return tuple(next(found) if t.requires_grad else None for t in (x, *weights))
