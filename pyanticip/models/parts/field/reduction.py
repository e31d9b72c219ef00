"""The control field over a whole sequence: in tensor operations, and in Rust.

:func:`reduce_field_reference` is the definition, used on GPUs, by compilers and for higher derivatives.
:func:`reduce_field` computes the same, up to rounding, in one call of the Rust core on a CPU: a field has
about thirty numbers per step and a dozen functions of them, and the overhead of so many small tensor
operations would exceed their work.
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

    Blocks of 256 steps are summed by a triangular matrix; the sums carried between blocks by recursion.

    Args:
        x: (B, L).
        before: (B,) the sum before the first step, 0 if absent.
    """
    rows, length = x.shape
    if length == 1:
        return x if before is None else x + decay * before[:, None]
    size = min(length, _BLOCK)
    decays = _constant(_decay_table, decay, size, x)
    if length <= _BLOCK:
        sums = x @ decays
        return sums if before is None else sums + before[:, None] * (decays[0] * decay)
    decay_from_start = decays[0] * decay
    blocks = -(-length // size)
    inner = F.pad(x, (0, blocks * size - length)).view(rows, blocks, size) @ decays
    ends = decayed_sums(inner[..., -1], decay**size, before) if decay**size else inner[..., -1]
    first = x.new_zeros(rows) if before is None else before
    carried_sums = torch.cat((first[:, None], ends[:, :-1]), 1)
    return (inner + carried_sums[..., None] * decay_from_start).flatten(1)[:, :length]


def averages(x: Tensor, decay: float) -> Tensor:
    """The bias-corrected running average of (B, L) over the steps so far."""
    length = x.shape[1]
    if length <= _BLOCK:
        return x @ _constant(_shares, decay, length, x)
    return decayed_sums((1.0 - decay) * x, decay) / _constant(_total_weight, decay, length, x)


def _decay_table(decay: float, length: int, like: Tensor) -> Tensor:
    """(i, t): weight of step i at step t, ``decay^(t - i)``."""
    steps = torch.arange(length, device=like.device)
    ages = (steps - steps[:, None]).to(like.dtype)
    return torch.exp(ages.clamp(min=0) * math.log(decay)).triu()


def _total_weight(decay: float, length: int, like: Tensor) -> Tensor:
    """(1, L): total weight of the steps so far in a running average, ``1 - decay^(t + 1)``."""
    steps = torch.arange(1, length + 1, device=like.device)
    return -torch.expm1(steps.to(like.dtype) * math.log(decay))[None]


def _shares(decay: float, length: int, like: Tensor) -> Tensor:
    """(i, t): the share of step i in the average at step t; the shares of a step t sum to one."""
    return (1.0 - decay) * _decay_table(decay, length, like) / _total_weight(decay, length, like)


Make = Callable[[float, int, Tensor], Tensor]


def _constant(make: Make, decay: float, length: int, like: Tensor) -> Tensor:
    """The result of ``make``, cached by its arguments, dtype and device: computing it takes longer than using
    it."""
    if torch.compiler.is_compiling():
        return make(decay, length, like)
    return _cached(make, decay, length, like.dtype, like.device)


@lru_cache(maxsize=32)
def _cached(make: Make, decay: float, length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return make(decay, length, torch.empty(0, dtype=dtype, device=device))


GATE_FLOOR = 1e-8
"""Added to a gate before its logarithm."""


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
        decay: of the running average, per step.
        bend: scale of the curvature in the feed-forward gate.
    """
    precise = x.dtype in (torch.float32, torch.float64) and weights.fibre.dtype == x.dtype
    if x.device.type != "cpu" or not precise or torch.compiler.is_compiling():
        return reduce_field_reference(x, weights, decay, bend)
    if torch.is_grad_enabled():
        return FieldSeries(*_Reduce.apply(x, *weights, decay, bend))  # type: ignore[no-untyped-call]
    return FieldSeries(*_reduce_field(x, weights, decay, bend)[3].unbind()[:5])


def reduce_field_reference(x: Tensor, weights: FieldWeights, decay: float, bend: float) -> FieldSeries:
    """The definition of :func:`reduce_field`, in tensor operations."""
    phi, pre_risk = project(x, weights)
    risk = F.softplus(F.linear(F.gelu(pre_risk), weights.last, weights.end).squeeze(-1))
    held = averages(risk, decay)
    kappa = curvature(phi)
    return FieldSeries(log_gates(held, weights.raw), scales(kappa, bend), held, risk, kappa)


def project(x: Tensor, weights: FieldWeights) -> tuple[Tensor, Tensor]:
    """The fibre (B, L, W) and the hidden layer (B, L, N) before its nonlinearity.

    Both are linear in the step, so that one matrix product computes them.
    """
    projected = F.linear(x, _joint(weights))
    width = len(weights.fibre)
    return projected[..., :width], projected[..., width:] + weights.bias


def curvature(phi: Tensor) -> Tensor:
    """(B, L): half the distance between the fibres of steps t and t - 2; 0 for the first two steps."""
    distance = torch.linalg.vector_norm(phi[:, 2:] - phi[:, :-2], dim=-1)
    return 0.5 * F.pad(distance, (min(2, phi.shape[1]), 0))


def log_gates(held: Tensor, raw: Tensor) -> Tensor:
    """The logarithm of the gates at these held risks; half precision, in which the floor would be 0, is
    computed in single precision."""
    wide = torch.promote_types(held.dtype, torch.float32)
    gates = torch.sigmoid(-F.softplus(raw.to(wide)) * held.to(wide)) + GATE_FLOOR
    return gates.log().to(held.dtype)


def scales(kappa: Tensor, bend: float) -> Tensor:
    """The factors of the feed-forward output."""
    return torch.sigmoid(1.0 - bend * kappa)


def _joint(weights: FieldWeights) -> Tensor:
    """(W + N, D): fibre and hidden layer as one product."""
    fibre, inner = weights.fibre, weights.inner
    return torch.cat((fibre, torch.addmm(inner[:, : fibre.shape[1]], inner[:, fibre.shape[1] :], fibre)))


class _Reduce(torch.autograd.Function):
    """The field in Rust, on the tensors' own memory; second derivatives use the reference."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        weights, (ctx.decay, ctx.bend) = FieldWeights(*rest[:6]), rest[6:]
        ctx.arrays, joint, projected, series = _reduce_field(x, weights, ctx.decay, ctx.bend)
        ctx.save_for_backward(x, *weights, joint, projected, series)
        ctx.set_materialize_grads(False)
        return series.unbind()[:5]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, *rest, joint, projected, series = ctx.saved_tensors
        weights = FieldWeights(*rest)
        if torch.is_grad_enabled():
            return (*_reference_gradients(x, weights, grads, ctx.decay, ctx.bend), None, None)
        fibres, width = len(weights.fibre), x.shape[-1]
        bias, last, end, raw = ctx.arrays
        d_projected = torch.empty_like(projected)
        d_rest = [torch.from_numpy(np.empty_like(a)) for a in ctx.arrays]
        grad_arrays = [None if g is None else g.contiguous().numpy() for g in grads]
        _core.field_backward(
            projected.numpy(),
            fibres,
            bias,
            last,
            end,
            raw,
            ctx.decay,
            ctx.bend,
            series.numpy(),
            grad_arrays,
            [d_projected.numpy(), *(t.numpy() for t in d_rest)],
        )
        d_joint = torch.mm(d_projected, x.reshape(-1, width))
        d_fibre_direct, d_inner_direct = d_joint[:fibres], d_joint[fibres:]
        d_fibre = torch.addmm(d_fibre_direct, weights.inner[:, width:].t(), d_inner_direct)
        d_inner = torch.cat((d_inner_direct, torch.mm(d_inner_direct, weights.fibre.t())), 1)
        d_x = torch.mm(d_projected.t(), joint).view(x.shape) if ctx.needs_input_grad[0] else None
        return (d_x, d_fibre, d_inner, *d_rest, None, None)


def _reduce_field(
    x: Tensor, weights: FieldWeights, decay: float, bend: float
) -> tuple[list[Any], Tensor, Tensor, Tensor]:
    """The arrays of bias, last, end and raw, the joint matrix, its products with the steps (W + N, B L), and
    the field's series (6, B, L), the last of which is the risk before its softplus."""
    bias, last, end, raw = arrays = [t.detach().contiguous().numpy() for t in weights[2:]]
    joint = _joint(weights).detach()
    projected = torch.mm(joint, x.detach().reshape(-1, x.shape[-1]).t())
    series = x.new_empty(6, *x.shape[:2])
    fibres = len(weights.fibre)
    _core.field_forward(projected.numpy(), fibres, bias, last, end, raw, decay, bend, series.numpy())
    return arrays, joint, projected, series


def _reference_gradients(
    x: Tensor, weights: FieldWeights, grads: tuple[Tensor | None, ...], decay: float, bend: float
) -> tuple[Tensor | None, ...]:
    """Differentiable gradients, computed by the reference."""
    series = reduce_field_reference(x, weights, decay, bend)
    pairs = [(value, grad) for value, grad in zip(series, grads, strict=True) if grad is not None]
    inputs = [t for t in (x, *weights) if t.requires_grad]
    values, outer = zip(*pairs, strict=True)
    gradients = iter(torch.autograd.grad(values, inputs, outer, create_graph=True, allow_unused=True))
    return tuple(next(gradients) if t.requires_grad else None for t in (x, *weights))
