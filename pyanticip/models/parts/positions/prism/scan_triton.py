"""The histogram scan as Triton kernels: one program per cursor and row runs through the sequence.

Requires triton, which nothing else does. **Not yet run on a GPU**: tests run it in Triton's interpreter on a
CPU (``TRITON_INTERPRET=1``), against the plain loop.

A histogram's neighbours are loaded from memory rather than from other lanes, hence the barriers: a program
reads what it wrote, shifted by one."""

# A kernel's parameters have no Python types.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="arg-type,call-arg"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyanticip.models.parts.positions.prism.config import EPS, MOVES


@triton.jit
def _move(before, w, jumps, can_jump, index, in_range, places, JUMPS: tl.constexpr):
    """A histogram before and after a move, its sum, and the weights of the move."""
    h = tl.load(before + index, mask=in_range, other=0.0)
    below = tl.load(before + index - 1, mask=in_range & (index > 0), other=0.0)
    above = tl.load(before + index + 1, mask=index < places - 1, other=0.0)
    inc = tl.load(w)
    dec = tl.load(w + 1)
    keep = tl.load(w + 2)
    to0 = tl.load(w + 3)
    to1 = tl.load(w + 4)
    total = tl.sum(h, 0)
    n = keep * h + inc * below + dec * above
    n += tl.where(index == 0, dec * h + to0 * total, 0.0) + tl.where(index == 1, to1 * total, 0.0)
    n += tl.where(index == places - 1, inc * h, 0.0)
    if JUMPS:
        n += total * tl.load(jumps + index, mask=in_range & can_jump, other=0.0)
    return h, n, total, inc, dec, keep, to0, to1


@triton.jit
def _forward(
    moves, start, gamma, jumps, out, cursors, jump_cursors, steps, places,
    EPSILON: tl.constexpr, SHARPEN: tl.constexpr, JUMPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    row = i // cursors
    cursor = i % cursors
    index = tl.arange(0, BLOCK)
    in_range = index < places
    can_jump = cursor < jump_cursors
    before = start + i * places
    for t in range(steps):
        jump = jumps + ((row * jump_cursors + cursor) * steps + t) * places
        w = moves + (i * steps + t) * 5
        _, n, _, _, _, _, _, _ = _move(before, w, jump, can_jump, index, in_range, places, JUMPS)
        if SHARPEN:
            power = tl.where(in_range, tl.load(gamma + cursor) * tl.log(n + EPSILON), float("-inf"))
            n = tl.exp(power - tl.max(power, 0))
            n = n / tl.sum(n, 0)
        before = out + (i * steps + t) * places
        tl.store(before + index, n, mask=in_range)
        tl.debug_barrier()


@triton.jit
def _backward(
    moves, start, gamma, jumps, out, grad, d_moves, d_start, d_gamma, d_jumps, scratch,
    cursors, jump_cursors, steps, places,
    EPSILON: tl.constexpr, SHARPEN: tl.constexpr, JUMPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    row = i // cursors
    cursor = i % cursors
    index = tl.arange(0, BLOCK)
    in_range = index < places
    can_jump = cursor < jump_cursors
    scratch_row = scratch + i * places
    # The gradient that flows back into a histogram is stored where the start's gradient will be.
    flow = d_start + i * places
    tl.store(
        flow + index,
        tl.zeros_like(tl.load(start + i * places + index, mask=in_range, other=0.0)),
        mask=in_range,
    )
    exponent = tl.sum(tl.zeros_like(tl.load(start + i * places + index, mask=in_range, other=0.0)), 0)
    for back in range(steps):
        t = steps - 1 - back
        offset = (i * steps + t) * places
        before = out + offset - places
        if t == 0:
            before = start + i * places
        jump = jumps + ((row * jump_cursors + cursor) * steps + t) * places
        w = moves + (i * steps + t) * 5
        h, n, total, inc, dec, keep, to0, to1 = _move(
            before, w, jump, can_jump, index, in_range, places, JUMPS
        )
        d = tl.load(grad + offset + index, mask=in_range, other=0.0) + tl.load(
            flow + index, mask=in_range, other=0.0
        )
        if SHARPEN:
            after = tl.load(out + offset + index, mask=in_range, other=0.0)
            d = after * (d - tl.sum(d * after, 0))
            exponent += tl.sum(tl.where(in_range, d * tl.log(n + EPSILON), 0.0), 0)
            d = tl.load(gamma + cursor) * d / (n + EPSILON)
            d = tl.where(in_range, d, 0.0)
        tl.store(scratch_row + index, d, mask=in_range)
        tl.debug_barrier()
        below = tl.load(scratch_row + tl.maximum(index - 1, 0), mask=in_range, other=0.0)
        above = tl.load(scratch_row + tl.minimum(index + 1, places - 1), mask=in_range, other=0.0)
        d0 = tl.load(scratch_row)
        d1 = tl.load(scratch_row + 1)
        d_move = d_moves + (i * steps + t) * 5
        tl.store(d_move, tl.sum(above * h, 0))
        tl.store(d_move + 1, tl.sum(below * h, 0))
        tl.store(d_move + 2, tl.sum(d * h, 0))
        tl.store(d_move + 3, total * d0)
        tl.store(d_move + 4, total * d1)
        to_all = to0 * d0 + to1 * d1
        if JUMPS:
            to_all += tl.sum(d * tl.load(jump + index, mask=in_range & can_jump, other=0.0), 0)
            d_jump = d_jumps + ((row * jump_cursors + cursor) * steps + t) * places
            tl.store(d_jump + index, total * d, mask=in_range & can_jump)
        tl.debug_barrier()
        tl.store(flow + index, keep * d + dec * below + inc * above + to_all, mask=in_range)
        tl.debug_barrier()
    if SHARPEN:
        tl.store(d_gamma + i, exponent)


def _sizes(moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None) -> tuple[Any, Any, Any]:
    """Grid, sizes and constants of a launch."""
    rows, cursors, steps, _ = moves.shape
    places = start.shape[-1]
    constants = {
        "EPSILON": EPS,
        "SHARPEN": gamma is not None,
        "JUMPS": jumps is not None,
        "BLOCK": triton.next_power_of_2(places),
    }
    return (rows * cursors,), (cursors, 0 if jumps is None else jumps.shape[1], steps, places), constants


class _TritonScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None) -> Tensor:
        inputs = [None if t is None else t.detach().contiguous() for t in (moves, start, gamma, jumps)]
        out = start.new_empty(*moves.shape[:3], start.shape[-1])
        grid, sizes, constants = _sizes(moves, start, gamma, jumps)
        # The kernel needs a pointer even where it reads nothing through it.
        _forward[grid](*(out if t is None else t for t in inputs), out, *sizes, **constants)
        ctx.save_for_backward(*inputs, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, out = ctx.saved_tensors
        moves, start, gamma, jumps = inputs
        rows, cursors = moves.shape[:2]
        d_moves, d_start, scratch = torch.empty_like(moves), torch.empty_like(start), torch.empty_like(start)
        d_gamma = start.new_zeros(rows, cursors)
        d_jumps = None if jumps is None else torch.empty_like(jumps)
        grid, sizes, constants = _sizes(moves, start, gamma, jumps)
        pointers = (out if t is None else t for t in inputs)
        grads = (d_moves, d_start, d_gamma, out if d_jumps is None else d_jumps, scratch)
        _backward[grid](*pointers, out, grad.contiguous(), *grads, *sizes, **constants)
        return d_moves, d_start, None if gamma is None else d_gamma.sum(0), d_jumps


def scan_triton(moves: Tensor, start: Tensor, gamma: Tensor | None, jumps: Tensor | None) -> Tensor:
    """:func:`~pyanticip.models.parts.positions.prism.scan.scan_loop` as one kernel forward and one
    backward."""
    assert moves.shape[-1] == MOVES
    out: Tensor = _TritonScan.apply(moves, start, gamma, jumps)
    return out
