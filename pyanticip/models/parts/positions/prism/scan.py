"""The histogram scan of PRISM positions: as a plain loop, as kernels, and fused with the product that reads
position vectors from the histograms.

A cursor holds a histogram ``h`` over P places. In one step it moves up with weight ``inc``, down with
``dec``, stays with ``keep`` (mass that would leave either end stays there), and from any place to place 0
with ``to0``, to place 1 with ``to1`` and to place k with ``jump[k]``; then the histogram is sharpened:

    ``n[i] = keep h[i] + inc h[i-1] + dec h[i+1]``, ``n[0] += to0 S``, ``n[1] += to1 S``, ``n += jump S``,
    ``h' = (n + eps)^gamma / sum (n + eps)^gamma``, where ``S = sum h``.

If the weights of a step sum to one, a move conserves the mass (before sharpening).

:func:`scan_loop` is the definition. :func:`scan` runs in Rust on a CPU without gradients, in Triton on a GPU
where that is installed, and otherwise as the loop, with the same result up to rounding.
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

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def _uncompiled(function: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
    """Exclude a function from compilation. ``torch.compiler.disable`` imports the compiler, which takes more
    than a second: so it is only called while one is tracing."""

    @wraps(function)
    def call(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        if torch.compiler.is_compiling():
            uncompiled: Callable[_Params, _Result] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return uncompiled(*args, **kwargs)
        return function(*args, **kwargs)

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
    zero = torch.zeros_like(h[..., :1])
    up = torch.cat((zero, h[..., :-2], h[..., -2:].sum(-1, keepdim=True)), -1)
    down = torch.cat((h[..., :2].sum(-1, keepdim=True), h[..., 2:], zero), -1)
    n = keep * h + inc * up + dec * down
    n = torch.cat((n[..., :1] + to0 * total, n[..., 1:2] + to1 * total, n[..., 2:]), -1)
    if jump is None:
        return n
    first = jump.shape[-2]
    return torch.cat((n[..., :first, :] + jump * total[..., :first, :], n[..., first:, :]), -2)


def sharpen(n: Tensor, gamma: Tensor) -> Tensor:
    """``(n + eps)^gamma`` over its sum: histograms (..., C, P), exponents (C,). Half precision, in which eps
    would be 0, is computed in single precision."""
    wide = torch.promote_types(n.dtype, torch.float32)
    return (gamma[:, None].to(wide) * (n.to(wide) + EPS).log()).softmax(-1).to(n.dtype)


def scan_loop(
    moves: Tensor, start: Tensor, gamma: Tensor | None = None, jumps: Tensor | None = None
) -> Tensor:
    """The definition, step by step.

    Args:
        moves: (B, C, L, 5) weights.
        start: (B, C, P) histograms before the first step, P >= 2.
        gamma: (C,) exponents of sharpening; ``None`` for no sharpening.
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
    """A tensor as a NumPy array that shares its memory, for the Rust core."""
    return None if tensor is None else tensor.detach().numpy()


def large(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An uninitialised tensor on the CPU with the dtype of ``like``. Allocated by NumPy, which unlike torch
    requests huge pages: page faults would cost half as much as a scan."""
    return torch.from_numpy(np.empty(shape, np.float32 if like.dtype == torch.float32 else np.float64))


@_uncompiled
def _fused(moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None) -> Tensor:
    """Run the scan's kernel; not compiled."""
    if moves.device.type == "cuda":
        from pyanticip.models.parts.positions.prism.scan_triton import scan_triton

        return scan_triton(moves, start, gamma, jumps)
    inputs = [None if t is None else t.contiguous() for t in (moves, start, gamma, jumps)]
    out = large((*moves.shape[:3], start.shape[-1]), moves)
    _core.prism_scan(*map(array_view, (*inputs, out)))
    return out


def fused_available(moves: Tensor, start: Tensor) -> bool:
    """Whether :func:`scan` has a kernel for these tensors: none that ``torch.export`` could write out."""
    # A compiler leaves the kernel alone, and so needs no loop.
    if torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling():
        return False
    if moves.dtype != start.dtype or moves.dtype not in (torch.float32, torch.float64):
        return False
    if moves.device.type == "cpu":
        return True
    if moves.device.type != "cuda":
        return False
    return find_spec("triton") is not None


def scan(moves: Tensor, start: Tensor, gamma: Tensor | None = None, jumps: Tensor | None = None) -> Tensor:
    """As :func:`scan_loop`, by a kernel where there is one.

    On a CPU the loop computes gradients; training uses :func:`superpose`, whose kernel has gradients. The
    loop is also used for a single step that is being compiled.
    """
    is_compiled_step = torch.compiler.is_compiling() and moves.shape[2] == 1
    leaves = (t for t in (moves, start, gamma, jumps) if t is not None)
    needs_grad = (
        moves.device.type == "cpu" and torch.is_grad_enabled() and any(t.requires_grad for t in leaves)
    )
    if is_compiled_step or needs_grad or not fused_available(moves, start):
        return scan_loop(moves, start, gamma, jumps)
    return _fused(moves, start, gamma, jumps)


_SEGMENT = 16
"""Steps between saved histograms, a constant of the kernel."""


class _RustPlaces(torch.autograd.Function):
    """The scan fused with the superposition, so that the histograms are never all in memory.

    Those of a training batch would be its largest array (B 32, L 256, 16 cursors, P 256: 134 MB), read and
    written by the scan, by the product with the table and by both backward passes. The kernel computes the
    superpositions along the way, saves every sixteenth histogram, and computes the others again in the
    backward pass.
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
        saved = None
        if any(ctx.needs_input_grad):
            saved = large((rows, cursors, -(-steps // _SEGMENT), places), start)
        _core.prism_places(*map(array_view, (*inputs, out, last, saved)))
        ctx.set_materialize_grads(False)
        if saved is not None:
            ctx.save_for_backward(*inputs, saved)
        ctx.width = table.shape[-1]
        return out, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_last: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, saved = ctx.saved_tensors
        moves = inputs[0]
        grad = moves.new_zeros(*moves.shape[:3], ctx.width) if grad is None else grad.contiguous()
        grad_last = None if grad_last is None else grad_last.contiguous()
        grads = [None if t is None else torch.empty_like(t) for t in inputs[:4]]
        _core.prism_places_backward(*map(array_view, (*inputs, saved, grad, grad_last, *grads)))
        return *grads, None


@_uncompiled
def _places(
    moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None, table: Tensor
) -> tuple[Tensor, Tensor]:
    """Run the fused kernel; not compiled."""
    out: tuple[Tensor, Tensor] = _RustPlaces.apply(  # type: ignore[no-untyped-call]
        moves, start, gamma, jumps, table
    )
    return out


def places_available(moves: Tensor, start: Tensor, table: Tensor) -> bool:
    """Whether :func:`superpose` has a kernel for these tensors: on a CPU, with a fixed table and more than
    one step."""
    if moves.device.type != "cpu" or moves.shape[2] < 2 or table.requires_grad:
        return False
    return table.dtype == moves.dtype and fused_available(moves, start)


def superpose(
    moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None, table: Tensor
) -> tuple[Tensor, Tensor]:
    """``scan(...) @ table`` and the last histograms, with first derivatives of all inputs but the table.

    Args:
        table: (P, d) the vector of each place; the other arguments as in
            :func:`~pyanticip.models.parts.positions.prism.scan.scan_loop`.

    Returns:
        (B, C, L, d) superpositions and (B, C, P) histograms after the last step.
    """
    if not places_available(moves, start, table):
        histograms = scan_loop(moves, start, gamma, jumps)
        return histograms @ table, histograms[:, :, -1]
    return _places(moves, start, gamma, jumps, table)
