"""Distances of neighbouring embeddings, with gradients that save only the lengths and the embeddings."""

from typing import Any

import torch
from torch import Tensor

from pyanticip.models.parts.positions.trajectory.real_positions import chunk


def step_lengths(embedded: Tensor) -> Tensor:
    """Euclidean distances (B, L - 1) of embeddings (B, L, D) to the previous one.

    The gradient of a step of length 0 is 0. The backward pass computes the differences again: saving them
    would take as much memory as the embeddings, which exist anyway.
    """
    if torch.is_grad_enabled() and embedded.requires_grad and not torch.compiler.is_compiling():
        grad_embedded: Tensor = _Lengths.apply(embedded)  # type: ignore[no-untyped-call]
        return grad_embedded
    return _lengths(embedded)


def _lengths(embedded: Tensor) -> Tensor:
    """Computed in chunks of steps, whose differences stay in the CPU's cache."""
    parts = [torch.linalg.vector_norm(piece[:, 1:] - piece[:, :-1], dim=-1) for piece in _pieces(embedded)]
    return torch.cat(parts, 1) if parts else embedded.new_zeros(embedded.shape[0], 0)


def _pieces(embedded: Tensor, parts: int = 1) -> list[Tensor]:
    """Chunks of steps, each with the step before it; smaller by the factor ``parts``."""
    size = chunk(embedded, parts * embedded.shape[0] * embedded.shape[2])
    return [embedded[:, start : start + size + 1] for start in range(0, embedded.shape[1] - 1, size)]


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
        is_zero = lengths == 0.0
        # Avoids a division by zero.
        share = (grad / lengths.masked_fill(is_zero, 1.0)).masked_fill(is_zero, 0.0)[..., None]
        if torch.is_grad_enabled():
            pull = share * (embedded[:, 1:] - embedded[:, :-1])
            zero = torch.zeros_like(embedded[:, :1])
            return torch.cat((zero, pull), 1) - torch.cat((pull, zero), 1)
        grad_embedded, start = torch.zeros_like(embedded), 0
        for piece in _pieces(embedded, 8):
            end = start + piece.shape[1] - 1
            pull = (piece[:, 1:] - piece[:, :-1]).mul_(share[:, start:end])
            grad_embedded[:, start + 1 : end + 1] += pull
            grad_embedded[:, start:end] -= pull
            start = end
        return grad_embedded
