"""The histogram scan of PRISM positions: a plain loop, the same without a Python loop per step, and places
read out of it as it goes.

A cursor holds a histogram ``h`` over P places. In one step it moves up with weight ``inc``, down with
``dec``, stays with ``keep`` (what would leave either end stays there), and from wherever it is to place 0
with ``to0``, to place 1 with ``to1`` and to any place k with ``jump[k]``; then the histogram is sharpened:

    ``n[i] = keep h[i] + inc h[i-1] + dec h[i+1]``, ``n[0] += to0 S``, ``n[1] += to1 S``, ``n += jump S``,
    ``h' = (n + eps)^gamma / sum (n + eps)^gamma``, where ``S = sum h``.

Where the weights of a step add up to one, a move keeps the mass (before sharpening).

:func:`scan_loop` is the definition. :func:`scan` runs it in Rust on a CPU where no gradient is wanted, in
Triton on a GPU where that is installed, and otherwise as the loop: for the same numbers, up to rounding.
"""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip import _core
from pyanticip.models.parts.positions.prism.config import EPS

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def _uncompiled(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """What the compiler leaves alone. ``torch.compiler.disable`` takes more than a second to import the
    compiler, which few need: so only where one is at work."""

    @wraps(function)
    def call(*given: _Given.args, **named: _Given.kwargs) -> _Found:
        if torch.compiler.is_compiling():
            left: Callable[_Given, _Found] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return left(*given, **named)
        return function(*given, **named)

    return call


def move(h: Tensor, weights: Tensor, jump: Tensor | None = None) -> Tensor:
    """One step without sharpening.

    Args:
        h: (..., C, P) histograms.
        weights: (..., C, 5).
        jump: (..., J, P) jumps of the first J <= C cursors.
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
    """``(n + eps)^gamma`` over its sum: histograms (..., C, P), exponents (C,). In half precision eps would
    be 0: what is lower than single precision is computed in that."""
    wide = torch.promote_types(n.dtype, torch.float32)
    return (gamma[:, None].to(wide) * (n.to(wide) + EPS).log()).softmax(-1).to(n.dtype)


def scan_loop(
    moves: Tensor, start: Tensor, gamma: Tensor | None = None, jumps: Tensor | None = None
) -> Tensor:
    """The definition, step by step.

    Args:
        moves: (B, C, L, 5) weights.
        start: (B, C, P) histograms before the first step, P >= 2.
        gamma: (C,) exponents of sharpening; without them there is none.
        jumps: (B, J, L, P) jumps of the first J cursors.

    Returns:
        (B, C, L, P) histograms after each step.
    """
    h, out = start, []
    for t in range(moves.shape[2]):
        h = move(h, moves[:, :, t], None if jumps is None else jumps[:, :, t])
        if gamma is not None:
            h = sharpen(h, gamma)
        out.append(h)
    return torch.stack(out, 2)


def array_view(tensor: Tensor | None) -> Any:
    """The numbers of a tensor as an array that shares them, for the core."""
    return None if tensor is None else tensor.detach().numpy()


def large(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An empty tensor on the CPU, of the type of ``like``. NumPy asks the system for large pages, torch does
    not: their faults cost half as much as a scan."""
    return torch.from_numpy(np.empty(shape, np.float32 if like.dtype == torch.float32 else np.float64))


@_uncompiled
def _fused(moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None) -> Tensor:
    """The compiler leaves the kernels alone."""
    if moves.device.type == "cuda":
        from pyanticip.models.parts.positions.prism.scan_triton import scan_triton

        return scan_triton(moves, start, gamma, jumps)
    inputs = [None if t is None else t.contiguous() for t in (moves, start, gamma, jumps)]
    out = large((*moves.shape[:3], start.shape[-1]), moves)
    _core.prism_scan(*map(array_view, (*inputs, out)))
    return out


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

    On a CPU gradients are the loop's: what is trained there takes :func:`superpose`, which has a kernel for
    them. So is a single step that is traced for compilation, in plain tensor operations.
    """
    traced = torch.compiler.is_compiling() and moves.shape[2] == 1
    leaves = (t for t in (moves, start, gamma, jumps) if t is not None)
    learned = moves.device.type == "cpu" and torch.is_grad_enabled() and any(t.requires_grad for t in leaves)
    if traced or learned or not fused_available(moves, start):
        return scan_loop(moves, start, gamma, jumps)
    out: Tensor = _fused(moves, start, gamma, jumps)
    return out


_SEGMENT = 16
"""Steps from one histogram that is kept to the next, in the kernel."""


class _RustPlaces(torch.autograd.Function):
    """The scan with the superposition of its places: histograms never lie in memory.

    Those of a training batch are its largest array (B 32, L 256, 16 cursors, P 256: 134 MB), read and written
    by the scan, by the product with the table of places and by both ways back. Here the kernel reads places
    out as it goes, keeps every sixteenth histogram and computes the others again on the way back.
    """

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
            kept = large((rows, cursors, -(-steps // _SEGMENT), places), start)
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


@_uncompiled
def _places(
    moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None, table: Tensor
) -> tuple[Tensor, Tensor]:
    """The compiler leaves the kernel alone."""
    out: tuple[Tensor, Tensor] = _RustPlaces.apply(  # type: ignore[no-untyped-call]
        moves, start, gamma, jumps, table
    )
    return out


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

    Args:
        table: (P, d) what stands at the places; the others as in
            :func:`~pyanticip.models.parts.positions.prism.scan.scan_loop`.

    Returns:
        (B, C, L, d) superpositions and (B, C, P) histograms after the last step.
    """
    if not places_available(moves, start, table):
        histograms = scan_loop(moves, start, gamma, jumps)
        return histograms @ table, histograms[:, :, -1]
    out: tuple[Tensor, Tensor] = _places(moves, start, gamma, jumps, table)
    return out
