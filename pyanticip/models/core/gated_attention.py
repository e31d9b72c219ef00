"""Attention with gated keys over a whole sequence on a CPU, at about the cost of plain attention.

A gate can be added to the scores of its key as one more channel of queries and keys, which costs next to
nothing where heads do not fill whole vectors. Where they do, kernels are slower with a width of 33 than with
32: there the gates are passed to the kernel as a mask, and the Rust core computes their gradient, which the
kernel does not return. Both ways agree up to rounding.
"""

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip import _core

_KERNEL_NAME = "_scaled_dot_product_flash_attention_for_cpu"
HAS_KERNELS = hasattr(torch.ops.aten, _KERNEL_NAME) and hasattr(torch.ops.aten, f"{_KERNEL_NAME}_backward")
"""Whether this version of torch has the kernels, which are not a public interface."""

_VECTOR_WIDTH = 16
"""Numbers that the kernels process together."""


def can_gate(q: Tensor, log_gate: Tensor) -> bool:
    """Whether :func:`attend_gated` supports these queries and is faster; not while a compiler traces, which
    needs plain operations."""
    if not HAS_KERNELS or torch.compiler.is_compiling() or q.shape[-1] % _VECTOR_WIDTH:
        return False
    if not q.numel():  # the kernel divides by the length
        return False
    return q.device.type == "cpu" and q.dtype == log_gate.dtype and q.dtype in (torch.float32, torch.float64)


def attend_gated(q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, scale: float) -> Tensor:
    """Causal ``softmax(scale q k + log_gate) v``, (B, H, L, d).

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
    mixed, log_sum_exp = kernel(q, k, v, 0.0, True, attn_mask=log_gate[:, None, None], scale=scale)
    return mixed, log_sum_exp


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, scale: float) -> Tensor:
        mixed, log_sum_exp = _forward(q, k, v, log_gate, scale)
        ctx.scale = scale
        ctx.save_for_backward(q, k, v, log_gate, mixed, log_sum_exp)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, log_gate, mixed, log_sum_exp = ctx.saved_tensors
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        mask = log_gate[:, None, None]
        gradients = kernel(grad, q, k, v, mixed, log_sum_exp, 0.0, True, attn_mask=mask, scale=ctx.scale)
        tensors = (q, k, v, mixed, grad, gradients[2])
        of_gates = None
        if ctx.needs_input_grad[3]:
            of_gates = _gate_gradient(tensors, log_sum_exp, log_gate, ctx.scale)
        return (*gradients, of_gates, None)


def _gate_gradient(
    tensors: tuple[Tensor, ...], log_sum_exp: Tensor, log_gate: Tensor, scale: float
) -> Tensor:
    """The gradient (B, L) of the log gates; ``tensors`` are queries, keys, values, the output, its gradient,
    and the gradient of the values."""
    _, heads, _, width = tensors[0].shape
    gates = log_gate.detach().contiguous()
    found = torch.empty_like(gates)
    views, threads = [_flat_view(t) for t in (*tensors, log_sum_exp)], torch.get_num_threads()
    _core.field_gates(heads, width, scale, views, gates.numpy(), threads > 1, found.numpy())
    return found


def _flat_view(x: Tensor) -> tuple[npt.NDArray[Any], tuple[int, int, int]]:
    """A flat view of a tensor (B, H, L, d), or (B, H, L), without gradients, and its strides by row, step and
    head."""
    rows, heads, length = x.shape[:3]
    width = 1
    if x.ndim == 4:
        width = x.shape[3]
        if x.stride(3) != 1:
            x = x.contiguous()
    row_stride, head_stride, step_stride = x.stride()[:3]
    extent = (rows - 1) * row_stride + (heads - 1) * head_stride + (length - 1) * step_stride + width
    return x.as_strided((extent,), (1,)).numpy(), (row_stride, step_stride, head_stride)
