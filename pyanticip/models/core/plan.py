"""Plans: codes predicted for each step, and attention to them.

A plan has up to K codes per step. Materialised, their embeddings would take K times the memory of a sequence;
so they never exist all at once. Attention only needs their products with rows of one table, computed for a
few steps at a time, and the layer norm before it only needs the variance of each row.

Letters: n steps of all rows, h heads, k codes of a plan, D width of the stream, V codes in total.
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

MAX_CACHED_NUMBERS = 2**19
"""Maximum size of the table rows looked up together, in numbers, so that they stay in the CPU's cache."""


@dataclass(frozen=True)
class Plan:
    """Up to K predicted codes for each step.

    ``codes`` (B, L, K) int64; ``log_weights`` (B, L, K), -inf for an unused entry: a step may have an empty
    plan. Attention sees a code as ``norm(table[code] + mark)``, with ``table`` (V, D) and the step's row of
    ``marks`` (B or 1, L, D). ``paper``: whether :func:`attend_plan` weighs by the paper's formula.
    """

    codes: Tensor
    log_weights: Tensor
    table: Tensor
    marks: Tensor
    norm: nn.LayerNorm
    paper: bool = False

    def chunk(self, first: int, last: int) -> "Plan":
        """The plans of the steps ``first`` to ``last`` (excluded)."""
        steps = (each[:, first:last] for each in (self.codes, self.log_weights, self.marks))
        codes, log_weights, marks = steps
        return replace(self, codes=codes, log_weights=log_weights, marks=marks)


def attend_plan(q: Tensor, plan: Plan, weight: Tensor) -> Tensor:
    """``softmax(q k / sqrt(d) + log w) v`` over each step's own plan (B, L, H d); zero for an empty one.

    Keys and values are the plan's embeddings through the layer's own projections. Those are linear, so they
    are not computed for every entry: the query goes through the keys' projection instead, and the mean
    embedding through the values'.

    With ``plan.paper`` (Wang, equation 5) scores are divided by d instead, and the weights are applied after
    the softmax, not in it: ``(softmax(q k / d) * w) v``.

    Args:
        q: (B, L, H, d) queries, as projected.
        weight: (3 H d, D) of the layer's joint projection to queries, keys and values.
    """
    rows, length, heads, width = q.shape
    keys, values = weight.view(3, heads, width, -1)[1:].unbind(0)  # (H, d, D)
    queries = torch.einsum("blhd,hde->blhe", q * (1.0 / width if plan.paper else width**-0.5), keys)
    with torch.autocast(q.device.type, enabled=False):
        mean = _mean_embedding(plan, queries.to(plan.table.dtype).flatten(0, 1))
    return torch.einsum("nhe,hde->nhd", mean, values).reshape(rows, length, -1)


def _mean_embedding(plan: Plan, queries: Tensor) -> Tensor:
    """Attention-weighted mean embeddings (n, H, D) of the steps' plans, for ``queries`` (n, H, D)."""
    table, norm, codes = plan.table, plan.norm, plan.codes.flatten(0, 1)
    if codes.numel() < len(table):
        table = F.embedding(codes, table).flatten(0, 1)
        codes = torch.arange(len(table), device=table.device).view_as(codes)
    # The norm subtracts a row's mean: centring the other factor does the same. Its bias shifts all scores
    # alike.
    queries = _centred(queries * norm.weight)
    marks = _centred(plan.marks.expand(*plan.codes.shape[:2], -1).flatten(0, 1))
    result = _dots(torch.cat((queries, marks[:, None]), 1), table, codes)
    table_variance = table.var(-1, correction=0).index_select(0, codes.flatten()).view_as(codes)
    variance = table_variance + result[:, -1] * (2.0 / table.shape[1]) + marks.square().mean(-1, keepdim=True)
    scale = (variance.clamp(min=0.0) + norm.eps).rsqrt()[:, None]
    share = _shares(plan, (result[:, :-1] + queries @ marks[..., None]) * scale)
    scaled = share * scale
    mean = _mixed(scaled, table, codes) + scaled.sum(-1, keepdim=True) * marks[:, None]
    return _centred(mean) * norm.weight + share.sum(-1, keepdim=True) * norm.bias


def _shares(plan: Plan, scores: Tensor) -> Tensor:
    """Attention shares (n, H, K) of each code of a plan, from its scores and its weight."""
    log_weights = plan.log_weights.flatten(0, 1)
    present = log_weights > float("-inf")
    # Far below all others, with room to add scores; -inf would give nan for an empty plan.
    lowest = torch.finfo(scores.dtype).min / 2
    log_weights = torch.where(present, log_weights, torch.full_like(log_weights, lowest))
    if plan.paper:
        return F.softmax(scores.masked_fill(~present[:, None], lowest), -1) * log_weights.exp()[:, None]
    return F.softmax(scores + log_weights[:, None], -1) * present.any(-1)[:, None, None]


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _dots(queries: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    """Products (n, J, K) of ``queries`` (n, J, D) with the table rows ``codes`` (n, K)."""
    if torch.is_grad_enabled():
        result: Tensor = _TableProduct.apply(queries, table, codes, True)  # type: ignore[no-untyped-call]
        return result
    return _products(queries, table, codes)


def _mixed(shares: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    """Sums (n, J, D) of the table rows ``codes`` (n, K) weighted by ``shares`` (n, J, K)."""
    if torch.is_grad_enabled():
        result: Tensor = _TableProduct.apply(shares, table, codes, False)  # type: ignore[no-untyped-call]
        return result
    return _sums(shares, table, codes)


class _TableProduct(torch.autograd.Function):
    """:func:`_dots` or :func:`_mixed`; the gradient of either is the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, codes: Tensor, dots: bool) -> Tensor:
        ctx.save_for_backward(x, table, codes)
        ctx.dots = dots
        return (_products_in_core if dots else _sums)(x, table, codes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, table, codes = ctx.saved_tensors
        if ctx.dots:
            return _sums(grad, table, codes), _spread(grad, x, table, codes), None, None
        return _products_in_core(grad, table, codes), _spread(x, grad, table, codes), None, None


def _suits_core(table: Tensor) -> bool:
    exact = table.dtype in (torch.float32, torch.float64)
    return exact and table.device.type == "cpu" and not torch.compiler.is_compiling()


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.detach().contiguous().numpy()


def _chunks(table: Tensor, codes: Tensor) -> Iterator[slice]:
    steps, count = codes.shape
    on_cpu = table.device.type == "cpu"
    size = max(1, MAX_CACHED_NUMBERS // (count * table.shape[1]) if on_cpu else steps)
    return (slice(first, first + size) for first in range(0, steps, size))


def _products(queries: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    out = queries.new_empty(*queries.shape[:2], codes.shape[1])
    for part in _chunks(table, codes):
        out[part] = queries[part] @ F.embedding(codes[part], table).transpose(1, 2)
    return out


def _products_in_core(queries: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    """As :func:`_products`, for training: in the Rust core where possible, which copies no table rows."""
    if not _suits_core(table):
        return _products(queries, table, codes)
    out = queries.new_empty(*queries.shape[:2], codes.shape[1])
    _core.plan_products(*map(_array, (queries, table, codes, out)))
    return out


def _sums(shares: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    flat = codes[:, None].expand_as(shares).flatten(0, 1)
    result = F.embedding_bag(flat, table, per_sample_weights=shares.flatten(0, 1), mode="sum")
    return result.view(*shares.shape[:2], -1)


def _spread(shares: Tensor, grad: Tensor, table: Tensor, codes: Tensor) -> Tensor:
    """The table's gradient, from each row's ``shares`` (n, J, K) and the gradient ``grad`` (n, J, D)."""
    out = torch.zeros_like(table, memory_format=torch.contiguous_format)
    if _suits_core(table):
        _core.plan_spread(*map(_array, (shares, grad, codes, out)))
        return out
    for part in _chunks(table, codes):
        each = shares[part].transpose(1, 2) @ grad[part]
        out.index_add_(0, codes[part].flatten(), each.flatten(0, 1))
    return out
