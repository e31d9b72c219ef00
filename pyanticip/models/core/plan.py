"""What each step is told to expect, and how a layer looks at it.

A plan names up to K codes a step. Written out, their embeddings are K times what a model keeps of a sequence;
they are never all there. What attention needs of them are products with rows of one table, a few steps at a
time, and the layer norm that they go through needs a row's variance only.

Letters: n steps of all rows, h heads, k codes of a plan, D width of the stream, V codes that there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from pyanticip import _core

NUMBERS = 2**19
"""Of so many numbers the rows that are looked up together may be: they stay in the processor's cache."""


@dataclass(frozen=True)
class Plan:
    """For each step up to K things foreseen.

    ``codes`` (B, L, K) int64 say which they are; ``log_weights`` (B, L, K), -inf where there is nothing: a
    step may have an empty plan. What stands for a code in attention is ``norm(table[code] + mark)``, of a
    ``table`` (V, D) and the step's own of the ``marks`` (B or 1, L, D). ``paper``: how :func:`attend_plan`
    reads it.
    """

    codes: Tensor
    log_weights: Tensor
    table: Tensor
    marks: Tensor
    norm: nn.LayerNorm
    paper: bool = False

    def chunk(self, first: int, last: int) -> "Plan":
        """The plans of the steps from ``first`` up to and without ``last``."""
        steps = (each[:, first:last] for each in (self.codes, self.log_weights, self.marks))
        codes, log_weights, marks = steps
        return replace(self, codes=codes, log_weights=log_weights, marks=marks)


def attend_plan(q: Tensor, plan: Plan, weight: Tensor) -> Tensor:
    """``softmax(q k / sqrt(d) + log w) v`` over each step's own plan (B, L, H d); zero for an empty one.

    Keys and values are the plan's embeddings through the layer's own projections. Those are linear, so they
    need not be computed for every entry: the query goes through the keys' projection instead, and the mean
    embedding through the values'.

    By the paper's letter (Wang, equation 5) scores are divided by d instead, and the weights count after the
    softmax, not in it: ``(softmax(q k / d) * w) v``.

    Args:
        q: (B, L, H, d) queries, as projected.
        weight: (3 H d, D) of the layer's joint projection to queries, keys and values.
    """
    rows, length, heads, width = q.shape
    keys, values = weight.view(3, heads, width, -1)[1:].unbind(0)  # (H, d, D)
    asked = torch.einsum("blhd,hde->blhe", q * (1.0 / width if plan.paper else width**-0.5), keys)
    with torch.autocast(q.device.type, enabled=False):
        mean = _mean_embedding(plan, asked.to(plan.table.dtype).flatten(0, 1))
    return torch.einsum("nhe,hde->nhd", mean, values).reshape(rows, length, -1)


def _mean_embedding(plan: Plan, asked: Tensor) -> Tensor:
    """The embeddings (n, H, D) of the steps' plans, each weighed by what is ``asked`` (n, H, D) of it."""
    table, norm, codes = plan.table, plan.norm, plan.codes.flatten(0, 1)
    if codes.numel() < len(table):
        table = F.embedding(codes, table).flatten(0, 1)
        codes = torch.arange(len(table), device=table.device).view_as(codes)
    # The norm's mean is taken off what a row is multiplied with, its bias adds the same to all scores.
    asked = _centred(asked * norm.weight)
    marks = _centred(plan.marks.expand(*plan.codes.shape[:2], -1).flatten(0, 1))
    found = _dots(torch.cat((asked, marks[:, None]), 1), table, codes)
    of_rows = table.var(-1, correction=0).index_select(0, codes.flatten()).view_as(codes)
    variance = of_rows + found[:, -1] * (2.0 / table.shape[1]) + marks.square().mean(-1, keepdim=True)
    scale = (variance.clamp(min=0.0) + norm.eps).rsqrt()[:, None]
    share = _shares(plan, (found[:, :-1] + asked @ marks[..., None]) * scale)
    scaled = share * scale
    mean = _mixed(scaled, table, codes) + scaled.sum(-1, keepdim=True) * marks[:, None]
    return _centred(mean) * norm.weight + share.sum(-1, keepdim=True) * norm.bias


def _shares(plan: Plan, scores: Tensor) -> Tensor:
    """How much each code of a plan counts, (n, H, K), by its scores and its weight."""
    log_weights = plan.log_weights.flatten(0, 1)
    present = log_weights > float("-inf")
    # Far below all others, with room for scores: -inf of an empty plan would be nan.
    least = torch.finfo(scores.dtype).min / 2
    log_weights = torch.where(present, log_weights, torch.full_like(log_weights, least))
    if plan.paper:
        return F.softmax(scores.masked_fill(~present[:, None], least), -1) * log_weights.exp()[:, None]
    return F.softmax(scores + log_weights[:, None], -1) * present.any(-1)[:, None, None]


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _dots(asked: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    """Products (n, J, K) of ``asked`` (n, J, D) with the rows of the table that ``codes`` (n, K) name."""
    if torch.is_grad_enabled():
        found: Tensor = _Dots.apply(asked, table, codes)  # type: ignore[no-untyped-call]
        return found
    return _products(asked, table, codes)


def _mixed(shares: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    """Sums (n, J, D) of the rows of the table that ``codes`` (n, K) name, times ``shares`` (n, J, K)."""
    if torch.is_grad_enabled():
        found: Tensor = _Mixed.apply(shares, table, codes)  # type: ignore[no-untyped-call]
        return found
    return _sums(shares, table, codes)


class _Dots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, asked: Tensor, table: Tensor, codes: Tensor) -> Tensor:
        ctx.save_for_backward(asked, table, codes)
        return _products_in_core(asked, table, codes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        asked, table, codes = ctx.saved_tensors
        return _sums(grad, table, codes), _spread(grad, asked, table, codes), None


class _Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shares: Tensor, table: Tensor, codes: Tensor) -> Tensor:
        ctx.save_for_backward(shares, table, codes)
        return _sums(shares, table, codes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        shares, table, codes = ctx.saved_tensors
        return _products_in_core(grad, table, codes), _spread(shares, grad, table, codes), None


def _suits_core(table: Tensor) -> bool:
    exact = table.dtype in (torch.float32, torch.float64)
    return exact and table.device.type == "cpu" and not torch.compiler.is_compiling()


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.detach().contiguous().numpy()


def _chunks(table: Tensor, codes: Tensor) -> Iterator[slice]:
    steps, count = codes.shape
    size = max(1, NUMBERS // (count * table.shape[1])) if table.device.type == "cpu" else max(1, steps)
    return (slice(first, first + size) for first in range(0, steps, size))


def _products(asked: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    out = asked.new_empty(*asked.shape[:2], codes.shape[1])
    for part in _chunks(table, codes):
        out[part] = asked[part] @ F.embedding(codes[part], table).transpose(1, 2)
    return out


def _products_in_core(asked: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    """The same while training, in the core where it can be: no rows are copied out of the table."""
    if not _suits_core(table):
        return _products(asked, table, codes)
    out = asked.new_empty(*asked.shape[:2], codes.shape[1])
    _core.plan_products(*map(_array, (asked, table, codes, out)))
    return out


def _sums(shares: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    flat = codes[:, None].expand_as(shares).flatten(0, 1)
    found = F.embedding_bag(flat, table, per_sample_weights=shares.flatten(0, 1), mode="sum")
    return found.view(*shares.shape[:2], -1)


def _spread(shares: Tensor, grad: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    """The gradient of the table where its rows took part by ``shares`` (n, J, K) in ``grad`` (n, J, D)."""
    out = torch.zeros_like(table, memory_format=torch.contiguous_format)
    if _suits_core(table):
        _core.plan_spread(*map(_array, (shares, grad, codes, out)))
        return out
    for part in _chunks(table, codes):
        each = shares[part].transpose(1, 2) @ grad[part]
        out.index_add_(0, codes[part].flatten(), each.flatten(0, 1))
    return out
