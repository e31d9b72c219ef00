"""Attention whose keys are gated, over a whole sequence on a CPU, at next to the price of attention without.

A gate is added to the scores of its key as one more channel of queries and keys, which costs next to nothing
where heads do not fill their vectors anyway. Where they do, kernels are slower with a width of 33 than with
32: there the kernel adds the gates by itself, and the gradient by them, which it does not know, is taken
beside it, by the Rust core. The same up to rounding.
"""

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip import _core

_NAME = "_scaled_dot_product_flash_attention_for_cpu"
KERNELS = hasattr(torch.ops.aten, _NAME) and hasattr(torch.ops.aten, f"{_NAME}_backward")
"""Whether this torch has the kernels, which it does not promise to keep."""

_VECTOR = 16
"""Numbers that the kernels handle together."""


def can_gate(q: Tensor, log_gate: Tensor) -> bool:
    """Whether :func:`attend_gated` is there for such queries, and the quicker way: what is traced takes plain
    operations."""
    if not KERNELS or torch.compiler.is_compiling() or q.shape[-1] % _VECTOR:
        return False
    if not q.numel():  # the kernel divides by the length
        return False
    return q.device.type == "cpu" and q.dtype == log_gate.dtype and q.dtype in (torch.float32, torch.float64)


def attend_gated(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, scale: float) -> Tensor:
    """``softmax(scale q k + log_gate) v`` over all steps before, (B, H, L, d).

    Args:
        q: (B, H, L, d), and so ``k`` and ``v``.
        log_gate: (B, L), of the keys.
    """
    if torch.is_grad_enabled():
        mixed: Tensor = _Gated.apply(q, k, v, log_gate, scale)  # type: ignore[no-untyped-call]
        return mixed
    return _forward(q, k, v, log_gate, scale)[0]


def _forward(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    mixed, mass = kernel(q, k, v, 0.0, True, attn_mask=log_gate[:, None, None], scale=scale)
    return mixed, mass


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, scale: float) -> Tensor:
        mixed, mass = _forward(q, k, v, log_gate, scale)
        ctx.scale = scale
        ctx.save_for_backward(q, k, v, log_gate, mixed, mass)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, log_gate, mixed, mass = ctx.saved_tensors
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        mask = log_gate[:, None, None]
        found = kernel(grad, q, k, v, mixed, mass, 0.0, True, attn_mask=mask, scale=ctx.scale)
        tensors = (q, k, v, mixed, grad, found[2])
        of_gates = _of_gates(tensors, mass, log_gate, ctx.scale) if ctx.needs_input_grad[3] else None
        return (*found, of_gates, None)


def _of_gates(tensors: tuple[Tensor, ...], mass: Tensor, log_gate: Tensor, scale: float) -> Tensor:
    """The gradient (B, L) by the gates; ``tensors`` are queries, keys, values, what came out, its
    gradient, and the gradient of the values."""
    _, heads, _, width = tensors[0].shape
    gates = log_gate.detach().contiguous()
    found = torch.empty_like(gates)
    laid, threads = [_laid(t) for t in (*tensors, mass)], torch.get_num_threads()
    _core.field_gates(heads, width, scale, laid, gates.numpy(), threads > 1, found.numpy())
    return found


def _laid(x: Tensor) -> tuple[npt.NDArray[Any], tuple[int, int, int]]:
    """A tensor (B, H, L, d), or (B, H, L), as it lies: its numbers in a row, and how far rows, steps and
    heads are apart. Without gradients: this is asked for on the way back only."""
    rows, heads, length = x.shape[:3]
    width = 1
    if x.ndim == 4:
        width = x.shape[3]
        if x.stride(3) != 1:
            x = x.contiguous()
    by_row, by_head, by_step = x.stride()[:3]
    reach = (rows - 1) * by_row + (heads - 1) * by_head + (length - 1) * by_step + width
    return x.as_strided((reach,), (1,)).numpy(), (by_row, by_step, by_head)
