"""Distances of neighbouring embeddings: gradients in pieces, and the memory that they keep."""

import pytest
import torch

from pyanticip.bench.memory import peak_bytes
from pyanticip.models.parts.positions.trajectory.module import TrajectoryPositions
from pyanticip.models.parts.positions.trajectory.real_positions import RealPositions
from pyanticip.models.parts.positions.trajectory.step_lengths import step_lengths


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


@pytest.mark.parametrize("interpolation", ["linear", "cubic"])
def test_interpolations_keep_positions_only(interpolation):
    torch.manual_seed(0)
    places, cpu = RealPositions(128, 2050, interpolation), torch.device("cpu")
    x = (2047 * torch.rand(2048, dtype=torch.float64)).requires_grad_()
    encodings = 4 * 128 * len(x)
    for learning in (False, True):
        with torch.set_grad_enabled(learning):
            held = peak_bytes(lambda: places(x, torch.float32, inside=True), cpu)
        assert encodings <= held < 2.0 * encodings


@pytest.mark.parametrize("interpolation", ["linear", "cubic"])
@pytest.mark.parametrize("twice", [False, True])
def test_gradients_of_interpolations_in_pieces(interpolation, twice):
    torch.manual_seed(0)
    # Several pieces of 1,024 rows.
    places = RealPositions(16, 60, interpolation)
    x = (57 * torch.rand(2, 1500, dtype=torch.float64)).requires_grad_()
    weights = torch.randn(2, 1500, 16, dtype=torch.float64)
    plain = places.interpolate(x, torch.float64, True)
    assert torch.equal(places(x, torch.float64, True), plain)
    found = []
    for made in (plain, places(x, torch.float64, True)):
        (grad,) = torch.autograd.grad(made, x, weights, create_graph=twice)
        if twice and interpolation == "cubic":
            (grad,) = torch.autograd.grad(grad.sum(), x)
        found.append(grad)
    torch.testing.assert_close(found[1], found[0])
