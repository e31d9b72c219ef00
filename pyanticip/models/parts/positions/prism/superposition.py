"""The scan of PRISM positions with the superposition of its places, on a CPU: histograms never lie in memory.

The histograms of a training batch are its largest array (B 32, L 256, 16 cursors, P 256: 134 MB), read and
written by the scan, by the product with the table of places and by both ways back. Here the kernel in Rust
reads places out as it goes, keeps every sixteenth histogram and computes the others again on the way back."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip import _core
from pyanticip.models.parts.positions.prism.scan import array_view, fused_available, scan_loop

_SEGMENT = 16
"""Steps from one histogram that is kept to the next, in the kernel."""


class _RustPlaces(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None, table: Tensor
    ) -> tuple[Tensor, Tensor]:
        inputs = [None if t is None else t.detach().contiguous() for t in (moves, start, gamma, jumps, table)]
        rows, cursors, steps, _ = moves.shape
        places = start.shape[-1]
        out = start.new_empty(rows, cursors, steps, table.shape[-1])
        last = torch.empty_like(start, memory_format=torch.contiguous_format)
        kept = None
        if any(ctx.needs_input_grad):
            # NumPy asks the system for large pages, torch does not.
            shape = rows, cursors, -(-steps // _SEGMENT), places
            kept = torch.from_numpy(np.empty(shape, np.float32 if out.dtype == torch.float32 else np.float64))
        _core.prism_places(*map(array_view, (*inputs, out, last, kept)))
        ctx.set_materialize_grads(False)
        if kept is not None:
            ctx.save_for_backward(*inputs, kept)
        ctx.width = table.shape[-1]
        return out, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_last: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, kept = ctx.saved_tensors
        moves = inputs[0]
        grad = moves.new_zeros(*moves.shape[:3], ctx.width) if grad is None else grad.contiguous()
        grad_last = None if grad_last is None else grad_last.contiguous()
        grads = [None if t is None else torch.empty_like(t) for t in inputs[:4]]
        _core.prism_places_backward(*map(array_view, (*inputs, kept, grad, grad_last, *grads)))
        return *grads, None


def _fused(
    moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None, table: Tensor
) -> tuple[Tensor, Tensor]:
    out: tuple[Tensor, Tensor] = _RustPlaces.apply(  # type: ignore[no-untyped-call]
        moves, start, gamma, jumps, table
    )
    return out


# The compiler leaves the kernel alone.
_untraced = torch.compiler.disable(_fused)  # type: ignore[no-untyped-call]


def places_available(moves: Tensor, start: Tensor, table: Tensor) -> bool:
    """Whether :func:`superpose` is one kernel for such tensors here: on a CPU, with a fixed table and more
    than one step."""
    if moves.device.type != "cpu" or moves.shape[2] < 2 or table.requires_grad:
        return False
    return table.dtype == moves.dtype and fused_available(moves, start)


def superpose(
    moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None, table: Tensor
) -> tuple[Tensor, Tensor]:
    """``scan(...) @ table`` and the last histograms, with first derivatives of everything but the table.

    :param table: (P, d) what stands at the places; the others as in
        :func:`~pyanticip.models.parts.positions.prism.scan.scan_loop`.
    :returns: (B, C, L, d) superpositions and (B, C, P) histograms after the last step.
    """
    if not places_available(moves, start, table):
        histograms = scan_loop(moves, start, gamma, jumps)
        return histograms @ table, histograms[:, :, -1]
    out: tuple[Tensor, Tensor] = _untraced(moves, start, gamma, jumps, table)
    return out
