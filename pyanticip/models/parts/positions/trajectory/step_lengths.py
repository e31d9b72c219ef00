"""How far neighbouring embeddings lie apart, with gradients that keep no more than the lengths themselves."""

from typing import Any

import torch
from torch import Tensor

from pyanticip.models.parts.positions.trajectory.real_positions import chunk


def step_lengths(embedded: Tensor) -> Tensor:
    """(B, L - 1) Euclidean distances of embeddings (B, L, D) to the one before.

    The gradient of a step without length is 0. The way back takes the differences again: to keep them would
    take as much memory as the embeddings, which are there anyway.
    """
    if torch.is_grad_enabled() and embedded.requires_grad and not torch.compiler.is_compiling():
        found: Tensor = _Lengths.apply(embedded)  # type: ignore[no-untyped-call]
        return found
    return _lengths(embedded)


def _lengths(embedded: Tensor) -> Tensor:
    """Some steps at a time, so that their differences stay in the processor's cache."""
    parts = [torch.linalg.vector_norm(piece[:, 1:] - piece[:, :-1], dim=-1) for piece in _pieces(embedded)]
    return torch.cat(parts, 1) if parts else embedded.new_zeros(embedded.shape[0], 0)


def _pieces(embedded: Tensor, parts: int = 1) -> list[Tensor]:
    """Steps of a piece and the one before; ``parts`` times smaller than usual."""
    size = chunk(embedded, parts * embedded.shape[0] * embedded.shape[2])
    return [embedded[:, at : at + size + 1] for at in range(0, embedded.shape[1] - 1, size)]


class _Lengths(torch.autograd.Function):
    @staticmethod
    def forward(embedded: Tensor) -> Tensor:
        return _lengths(embedded)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        embedded, lengths = ctx.saved_tensors
        still = lengths == 0.0
        # Without a division by zero, whose derivative is none.
        share = (grad / lengths.masked_fill(still, 1.0)).masked_fill(still, 0.0)[..., None]
        if torch.is_grad_enabled():
            pull = share * (embedded[:, 1:] - embedded[:, :-1])
            none = torch.zeros_like(embedded[:, :1])
            return torch.cat((none, pull), 1) - torch.cat((pull, none), 1)
        found, at = torch.zeros_like(embedded), 0
        for piece in _pieces(embedded, 8):
            end = at + piece.shape[1] - 1
            pull = (piece[:, 1:] - piece[:, :-1]).mul_(share[:, at:end])
            found[:, at + 1 : end + 1] += pull
            found[:, at:end] -= pull
            at = end
        return found
