"""The recurrence of a gated recurrent unit over whole sequences on a CPU: in Rust, forward and backward.

torch's own takes a dozen small operations a step, each with its record for the way back; for a hundred units
that is more than the arithmetic. Here the steps are one call, rows in parallel; what needs no recurrence, the
weights of the input and the gradients of all weights, are products over all steps."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip import _core

_GATES = 4
"""What is kept of a step for the way back: reset, update, new, and what new was given before the reset."""


class _RustGRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, hidden: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        rows, length, _ = given.shape
        inputs = [t.detach().contiguous() for t in (given, hidden, weights, bias)]
        dtype = np.float32 if given.dtype == torch.float32 else np.float64
        # NumPy asks the system for large pages, torch does not.
        out = np.empty((rows, length, hidden.shape[-1]), dtype)
        needed = any(ctx.needs_input_grad)
        gates = np.empty((rows, length, _GATES * hidden.shape[-1]), dtype) if needed else None
        given_view, hidden_view, weights_view, bias_view = (t.numpy() for t in inputs)
        _core.prism_gru(given_view, hidden_view, weights_view, bias_view, out, gates)
        found = torch.from_numpy(out)
        if gates is not None:
            ctx.save_for_backward(*inputs[1:], found, torch.from_numpy(gates))
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        start, weights, bias, out, gates = (t.detach() for t in ctx.saved_tensors)
        hidden = start.shape[-1]
        d_given = out.new_empty(*out.shape[:2], 3 * hidden)
        d_kept, d_start = torch.empty_like(out), torch.empty_like(start)
        arrays = (start, weights, bias, out, gates, grad.contiguous(), d_given, d_kept, d_start)
        _core.prism_gru_backward(*(t.numpy() for t in arrays))
        before = torch.cat((start[:, None], out[:, :-1]), 1).flatten(0, 1)
        # Reset and update have the gradients of what the input gives; new has its own.
        parts = d_given.flatten(0, 1)[:, : 2 * hidden], d_kept.flatten(0, 1)
        d_weights = torch.cat([part.T @ before for part in parts])
        return d_given, d_start, d_weights, torch.cat([part.sum(0) for part in parts])


def recurrence(given: Tensor, hidden: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Hidden states (B, L, H) after every step, with first derivatives.

    :param given: (B, L, 3 H) what the input gives to reset, update and new; float32 or float64 on a CPU.
    :param hidden: (B, H) before the first step.
    :param weights: (3 H, H) recurrent weights.
    :param bias: (3 H,) recurrent bias.
    """
    out: Tensor = _RustGRU.apply(given, hidden, weights, bias)  # type: ignore[no-untyped-call]
    return out


def recurrence_available(x: Tensor) -> bool:
    """Whether :func:`recurrence` takes such an input here: on a CPU, and not where a compiler
    traces."""
    known = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return known and not torch.compiler.is_compiling()
