"""Attention whose keys are gated, over a whole sequence on a CPU, at next to the price of attention without.

A gate that is added to the scores of its key as one more channel of queries and keys makes them wider, and
kernels are slower with a width of 33 than with 32. The kernel can add it by itself, but then knows no
gradient by it; so here the channel exists in the backward pass only. The same up to rounding.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_NAME = "_scaled_dot_product_flash_attention_for_cpu"
KERNELS = hasattr(torch.ops.aten, _NAME) and hasattr(torch.ops.aten, f"{_NAME}_backward")
"""Whether this torch has the kernels, which it does not promise to keep."""


def can_gate(q: Tensor, log_gate: Tensor) -> bool:
    """Whether :func:`attend_gated` is there for such queries: what is traced takes plain operations."""
    if not KERNELS or torch.compiler.is_compiling():
        return False
    return q.device.type == "cpu" and q.dtype == log_gate.dtype and q.dtype in (torch.float32, torch.float64)


def attend_gated(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, scale: float) -> Tensor:
    """``softmax(scale q k + log_gate) v`` over all steps before, (B, H, L, d).

    :param q: (B, H, L, d), and so ``k`` and ``v``.
    :param log_gate: (B, L), of the keys.
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
        if not ctx.needs_input_grad[3]:
            mask = log_gate[:, None, None]
            found = kernel(grad, q, k, v, mixed, mass, 0.0, True, attn_mask=mask, scale=ctx.scale)
            return (*found, None, None)
        # One channel wider, in the order of memory: (B, L, H, d + 1).
        rows, heads, length, width = q.shape
        wide = q.new_empty(5, rows, length, heads, width + 1)
        for room, tensor in zip(wide, (q, k, v, mixed, grad), strict=True):
            room[..., :width] = tensor.transpose(1, 2)
        channel = wide[..., width].zero_()
        channel[0] = 1.0 / ctx.scale
        channel[1] = log_gate[..., None]
        q, k, v, mixed, grad = wide.transpose(2, 3).unbind()
        of_q, of_k, of_v = kernel(grad, q, k, v, mixed, mass, 0.0, True, scale=ctx.scale)
        return of_q[..., :width], of_k[..., :width], of_v[..., :width], of_k[..., width].sum(1), None
