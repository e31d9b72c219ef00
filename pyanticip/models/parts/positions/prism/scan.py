"""The histogram scan of PRISM positions: a plain loop, and the same without a Python loop per step.

A cursor holds a histogram ``h`` over P places. In one step it moves up with weight ``inc``, down with
``dec``, stays with ``keep`` (what would leave either end stays there), and from wherever it is to place 0
with ``to0``, to place 1 with ``to1`` and to any place k with ``jump[k]``; then the histogram is sharpened:

    ``n[i] = keep h[i] + inc h[i-1] + dec h[i+1]``, ``n[0] += to0 S``, ``n[1] += to1 S``, ``n += jump S``,
    ``h' = (n + eps)^gamma / sum (n + eps)^gamma``, where ``S = sum h``.

Where the weights of a step add up to one, a move keeps the mass (before sharpening).

:func:`scan_loop` is the definition. :func:`scan` runs it in Rust on a CPU, in Triton on a GPU where that is
installed, and otherwise as the loop: for the same numbers, up to rounding, forward and backward.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip import _core
from pyanticip.models.parts.positions.prism.config import EPS


def move(h: Tensor, weights: Tensor, jump: Tensor | None = None) -> Tensor:
    """One step without sharpening.

    :param h: (..., C, P) histograms.
    :param weights: (..., C, 5).
    :param jump: (..., J, P) jumps of the first J <= C cursors.
    """
    inc, dec, keep, to0, to1 = weights[..., None].unbind(-2)
    total = h.sum(-1, keepdim=True)
    nothing = torch.zeros_like(h[..., :1])
    up = torch.cat((nothing, h[..., :-2], h[..., -2:].sum(-1, keepdim=True)), -1)
    down = torch.cat((h[..., :2].sum(-1, keepdim=True), h[..., 2:], nothing), -1)
    n = keep * h + inc * up + dec * down
    n = torch.cat((n[..., :1] + to0 * total, n[..., 1:2] + to1 * total, n[..., 2:]), -1)
    if jump is None:
        return n
    first = jump.shape[-2]
    return torch.cat((n[..., :first, :] + jump * total[..., :first, :], n[..., first:, :]), -2)


def sharpen(n: Tensor, gamma: Tensor) -> Tensor:
    """``(n + eps)^gamma`` over its sum: histograms (..., C, P), exponents (C,)."""
    return (gamma[:, None] * (n + EPS).log()).softmax(-1)


def scan_loop(
    moves: Tensor, start: Tensor, gamma: Tensor | None = None, jumps: Tensor | None = None
) -> Tensor:
    """The definition, step by step.

    :param moves: (B, C, L, 5) weights.
    :param start: (B, C, P) histograms before the first step, P >= 2.
    :param gamma: (C,) exponents of sharpening; without them there is none.
    :param jumps: (B, J, L, P) jumps of the first J cursors.
    :returns: (B, C, L, P) histograms after each step.
    """
    h, out = start, []
    for t in range(moves.shape[2]):
        h = move(h, moves[:, :, t], None if jumps is None else jumps[:, :, t])
        if gamma is not None:
            h = sharpen(h, gamma)
        out.append(h)
    return torch.stack(out, 2)


class _RustScan(torch.autograd.Function):
    """The scan over the tensors' own memory; the GIL is released."""

    @staticmethod
    def forward(ctx: Any, moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None) -> Tensor:
        single = moves.dtype == torch.float32
        inputs = [None if t is None else t.detach().contiguous() for t in (moves, start, gamma, jumps)]
        # NumPy asks the system for large pages, torch does not: their faults cost half as much as the scan.
        values = np.empty((*moves.shape[:3], start.shape[-1]), np.float32 if single else np.float64)
        moves_view, start_view, gamma_view, jumps_view = (array_view(t) for t in inputs)
        _core.prism_scan(moves_view, start_view, gamma_view, jumps_view, values)
        out = torch.from_numpy(values)
        ctx.save_for_backward(*inputs, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, out = ctx.saved_tensors
        grads = [None if t is None else torch.empty_like(t) for t in inputs]
        arrays = (array_view(t) for t in (*inputs, out, grad.contiguous(), *grads))
        _core.prism_scan_backward(*arrays)
        return tuple(grads)


def array_view(tensor: Tensor | None) -> Any:
    """The numbers of a tensor as an array that shares them, for the core."""
    return None if tensor is None else tensor.detach().numpy()


def _fused(moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None) -> Tensor:
    if moves.device.type == "cuda":
        from pyanticip.models.parts.positions.prism.scan_triton import scan_triton

        return scan_triton(moves, start, gamma, jumps)
    out: Tensor = _RustScan.apply(moves, start, gamma, jumps)  # type: ignore[no-untyped-call]
    return out


# The compiler leaves the kernels alone.
_untraced = torch.compiler.disable(_fused)  # type: ignore[no-untyped-call]


def fused_available(moves: Tensor, start: Tensor) -> bool:
    """Whether :func:`scan` has better than the loop for such tensors."""
    if moves.dtype != start.dtype or moves.dtype not in (torch.float32, torch.float64):
        return False
    if moves.device.type == "cpu":
        return True
    if moves.device.type != "cuda":
        return False
    return find_spec("triton") is not None


def scan(moves: Tensor, start: Tensor, gamma: Tensor | None = None, jumps: Tensor | None = None) -> Tensor:
    """The same as :func:`scan_loop`, without a Python loop wherever there is a kernel.

    Second derivatives exist in the loop only. A single step that is traced for export or compilation is the
    loop's, in plain tensor operations.
    """
    traced = torch.compiler.is_compiling() and moves.shape[2] == 1
    if traced or not fused_available(moves, start):
        return scan_loop(moves, start, gamma, jumps)
    out: Tensor = _untraced(moves, start, gamma, jumps)
    return out
