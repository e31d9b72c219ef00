"""Distances of neighbouring embeddings: gradients in pieces, and the memory that they keep."""

import torch

from pyanticip.models.step_lengths import step_lengths
from pyanticip.models.trajectory_positions import TrajectoryPositions
from realtime.bench.memory import peak_bytes


def test_gradients_in_pieces_are_those_of_the_definition():
    torch.manual_seed(0)
    x = torch.randn(2, 3000, 16, dtype=torch.float64)
    x[:, 1025] = x[:, 1024]
    weights = torch.randn(2, 2999, dtype=torch.float64)
    found = []
    for way in ("plain", "pieces", "whole"):
        at = x.clone().requires_grad_()
        lengths = (at[:, 1:] - at[:, :-1]).norm(dim=-1) if way == "plain" else step_lengths(at)
        (grad,) = torch.autograd.grad(lengths, at, weights, create_graph=way == "whole")
        found.append((lengths, grad))
        with torch.no_grad():
            assert torch.equal(step_lengths(at), lengths)
    for lengths, grad in found[1:]:
        torch.testing.assert_close(lengths, found[0][0])
        torch.testing.assert_close(grad, found[0][1])


def test_one_step_has_no_length():
    x = torch.randn(2, 1, 4, requires_grad=True)
    assert step_lengths(x).shape == (2, 0)
    step_lengths(x).sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))


def test_gradients_keep_little_beside_the_encodings():
    positions = TrajectoryPositions(64, length=1024, strength=0.2, cache=0)
    x = torch.randn(2, 1024, 64, requires_grad=True)
    encodings, cpu = 4 * x.numel(), torch.device("cpu")

    def both():
        x.grad = None
        positions(x)[0].sum().backward()

    both()
    x.grad = None
    assert encodings <= peak_bytes(lambda: positions(x), cpu) < 1.25 * encodings
    # The encodings, the gradient by the embeddings, and pieces of what lies between.
    assert peak_bytes(both, cpu) < 2.6 * encodings
