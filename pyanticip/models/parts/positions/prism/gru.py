"""The recurrent network that controls the cursors: a GRU whose recurrence can be kept orthogonal.

torch stacks the matrices of a GRU's three gates into one; an orthogonal parametrization of the stack gives
orthonormal columns of the whole, not three orthogonal matrices. Here each gate has its own matrix.

Over whole sequences on a CPU the recurrence runs in Rust, forward and backward: torch needs a dozen small
operations per step, each recorded for the backward pass, which for a hundred units costs more than the
arithmetic. The rest, input projections and the gradients of all weights, are products over all steps.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pyanticip import _core
from pyanticip.models.core.inputs import can_read_values
from pyanticip.models.parts.positions.prism.scan import array_view, large

_GATES = 4
"""Values saved per step for the backward pass: reset, update, new, and the input of new before the reset."""


class _RustGRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, hidden: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        rows, length, _ = projected.shape
        inputs = [t.detach().contiguous() for t in (projected, hidden, weights, bias)]
        out = large((rows, length, hidden.shape[-1]), projected)
        needed = any(ctx.needs_input_grad)
        gates = large((rows, length, _GATES * hidden.shape[-1]), projected) if needed else None
        _core.prism_gru(*map(array_view, (*inputs, out, gates)))
        if gates is not None:
            ctx.save_for_backward(*inputs[1:], out, gates)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        start, weights, bias, out, gates = (t.detach() for t in ctx.saved_tensors)
        hidden = start.shape[-1]
        d_inputs = out.new_empty(*out.shape[:2], 3 * hidden)
        d_recurrent, d_start = torch.empty_like(out), torch.empty_like(start)
        arrays = (start, weights, bias, out, gates, grad.contiguous(), d_inputs, d_recurrent, d_start)
        _core.prism_gru_backward(*map(array_view, arrays))
        before = torch.cat((start[:, None], out), 1)[:, :-1].flatten(0, 1)
        # The recurrent terms of reset and update have the input's gradients; that of new has its own.
        parts = d_inputs.flatten(0, 1)[:, : 2 * hidden], d_recurrent.flatten(0, 1)
        d_weights = torch.cat([part.T @ before for part in parts])
        return d_inputs, d_start, d_weights, torch.cat([part.sum(0) for part in parts])


def recurrence(inputs: Tensor, hidden: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Hidden states (B, L, H) after every step, with first derivatives.

    Args:
        inputs: (B, L, 3 H) projected inputs of reset, update and new; float32 or float64 on a CPU.
        hidden: (B, H) before the first step.
        weights: (3 H, H) recurrent weights.
        bias: (3 H,) recurrent bias.
    """
    out: Tensor = _RustGRU.apply(inputs, hidden, weights, bias)  # type: ignore[no-untyped-call]
    return out


def recurrence_available(x: Tensor) -> bool:
    """Whether :func:`recurrence` supports an input: on a CPU, and not while a compiler traces."""
    supported = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return supported and not torch.compiler.is_compiling()


class OrthogonalGRU(nn.Module):
    """A gated recurrent unit over whole sequences, chunks and single steps.

    Args:
        inputs: width of the input.
        hidden: width H of the hidden state.
        orthogonal: ``"exact"`` keeps the recurrence of each gate orthogonal (the Cayley transform of a skew
            matrix, times a fixed orthogonal matrix); ``"penalty"`` only initialises it orthogonal, see
            :meth:`penalty`; ``"none"`` initialises it as torch does.
    """

    base: Tensor
    folded: Tensor
    _folded: tuple[Tensor, ...]
    """Copies of the weights that were folded last, and of the result; empty before."""

    def __init__(self, inputs: int, hidden: int, orthogonal: str = "exact") -> None:
        super().__init__()
        self.hidden = hidden
        self.exact = orthogonal == "exact"
        self.start = orthogonal
        self.input = nn.Parameter(torch.empty(3 * hidden, inputs))
        self.recurrent = nn.Parameter(torch.empty(3, hidden, hidden))
        self.input_bias = nn.Parameter(torch.zeros(3 * hidden))
        self.recurrent_bias = nn.Parameter(torch.zeros(3 * hidden))
        # Part of the checkpoint.
        self.register_buffer("base", torch.empty(3, hidden, hidden))
        self.register_buffer("folded", torch.empty(3, hidden, hidden))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise input weights uniformly within 1 / sqrt(H), as torch does; recurrences by the option."""
        bound = 1.0 / math.sqrt(self.hidden)
        nn.init.uniform_(self.input, -bound, bound)
        nn.init.uniform_(self.recurrent, -bound, bound)
        nn.init.zeros_(self.input_bias)
        nn.init.zeros_(self.recurrent_bias)
        for gate in range(3):
            nn.init.orthogonal_(self.base[gate])
        if self.exact:
            self.recurrent.zero_()
        elif self.start == "penalty":
            self.recurrent.copy_(self.base)
        self._folded = ()
        self._fold()

    def _matrices(self) -> Tensor:
        """The three recurrences (3, H, H), with gradients."""
        if not self.exact:
            return self.recurrent
        skew = self.recurrent.triu(1)
        skew = skew - skew.transpose(1, 2)
        # The solver does not support half precision.
        skew = skew.to(torch.promote_types(skew.dtype, torch.float32))
        one = torch.eye(self.hidden, dtype=skew.dtype, device=skew.device).expand_as(skew)
        cayley: Tensor = torch.linalg.solve(one + skew, one - skew)
        return cayley.to(self.base.dtype) @ self.base

    @torch.inference_mode()
    def _fold(self) -> None:
        # Compare values: fused optimizers and copies into .data change neither address nor version counter.
        current = self.recurrent, self.base, self.folded
        if not (self._folded and all(map(_equal, current, self._folded))):
            self.folded.copy_(self._matrices())
            self._folded = tuple(tensor.detach().clone() for tensor in current)

    def weights(self) -> Tensor:
        """The three recurrences (3, H, H) in torch's order: reset, update, new.

        Without gradients they are cached, except under a compiler, which cannot read values.
        """
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self._matrices()
        if can_read_values(self.folded):
            self._fold()
        return self.folded

    def penalty(self) -> Tensor:
        """``sum |W^T W - 1|^2`` over the recurrences, with gradients; about zero where they are exact."""
        w = self._matrices()
        one = torch.eye(self.hidden, dtype=w.dtype, device=w.device)
        return torch.square(w.transpose(1, 2) @ w - one).sum()

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states (B, L, H) after every step of inputs (B, L, I), and the last of them (B, H).

        Args:
            hidden: (B, H) before the first step.
        """
        recurrent = self.weights().flatten(0, 1)
        if x.shape[1] == 1:
            hidden = self._step(x[:, 0], hidden, recurrent)
            return hidden[:, None], hidden
        if recurrence_available(x):
            inputs = nn.functional.linear(x, self.input, self.input_bias)
            out = recurrence(inputs, hidden, recurrent, self.recurrent_bias)
            return out, out[:, -1]
        parameters = [self.input, recurrent, self.input_bias, self.recurrent_bias]
        out, last = torch.gru(
            x, hidden[None].contiguous(), parameters, True, 1, 0.0, self.training, False, True
        )
        return out, last[0]

    def _step(self, x: Tensor, hidden: Tensor, recurrent: Tensor) -> Tensor:
        inputs = nn.functional.linear(x, self.input, self.input_bias).chunk(3, -1)
        recurrent_terms = nn.functional.linear(hidden, recurrent, self.recurrent_bias).chunk(3, -1)
        reset = torch.sigmoid(inputs[0] + recurrent_terms[0])
        update = torch.sigmoid(inputs[1] + recurrent_terms[1])
        new = torch.tanh(inputs[2] + reset * recurrent_terms[2])
        return new + update * (hidden - new)


def _equal(current: Tensor, before: Tensor) -> bool:
    same_kind = (current.dtype, current.device) == (before.dtype, before.device)
    return same_kind and torch.equal(current, before)
