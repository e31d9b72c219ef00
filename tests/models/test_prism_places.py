"""The kernels of whole sequences are the plain loop and torch's recurrent network, with their gradients."""

import numpy as np
import pytest
import torch

from pyanticip import _core
from pyanticip.errors import ShapeError
from pyanticip.models.config import ModelConfig
from pyanticip.models.parts.positions.prism.gru import OrthogonalGRU
from pyanticip.models.parts.positions.prism.module import PrismPositions
from pyanticip.models.parts.positions.prism.recurrence import recurrence, recurrence_available
from pyanticip.models.parts.positions.prism.scan import scan_loop
from pyanticip.models.parts.positions.prism.superposition import places_available, superpose

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def inputs(dtype, rows=3, cursors=4, steps=37, places=33, jumping=2, width=6):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    moves = (2 * draw(rows, cursors, steps, 5)).softmax(-1)
    start = draw(rows, cursors, places).softmax(-1)
    gamma = 1 + draw(cursors).abs()
    jumps = None
    if jumping:
        chances = draw(rows, jumping, steps, places + 1).softmax(-1)
        jumps = chances[..., 1:].to(dtype).requires_grad_()
        moves[:, :jumping] *= chances[..., :1]
    table = draw(places, width).to(dtype)
    moves, start, gamma = (t.to(dtype).requires_grad_() for t in (moves, start, gamma))
    return moves, start, gamma, jumps, table


def assert_same(got, wanted, leaves, tolerance):
    """Values, and gradients relative to the largest of each leaf."""
    weights = [torch.randn_like(t) for t in wanted]
    found = []
    for outs in (got, wanted):
        loss = sum((out * weight).sum() for out, weight in zip(outs, weights, strict=True))
        found.append(torch.autograd.grad(loss, leaves))
    for mine, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, atol=tolerance, rtol=tolerance)
    for mine, theirs in zip(*found, strict=True):
        assert float((mine - theirs).abs().max()) <= tolerance * float(theirs.abs().max())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sharpening", [True, False])
@pytest.mark.parametrize("jumping", [0, 2])
@pytest.mark.parametrize(("places", "steps"), [(2, 3), (17, 16), (64, 33)])
def test_places_are_the_loop_s(dtype, sharpening, jumping, places, steps):
    moves, start, gamma, jumps, table = inputs(dtype, places=places, steps=steps, jumping=jumping)
    gamma = gamma if sharpening else None
    leaves = [t for t in (moves, start, gamma, jumps) if t is not None]
    assert places_available(moves, start, table)
    histograms = scan_loop(moves, start, gamma, jumps)
    wanted = histograms @ table, histograms[:, :, -1]
    assert_same(superpose(moves, start, gamma, jumps, table), wanted, leaves, TOLERANCE[dtype])


def test_places_from_certain_starts():
    """Cursors that have not gone far yet: nearly all of a histogram is empty, and what is there counts."""
    moves, _, gamma, _, table = inputs(torch.float32, places=200, jumping=0)
    start = torch.zeros(3, 4, 200)
    start[..., 0] = 1
    start.requires_grad_()
    histograms = scan_loop(moves, start, gamma)
    wanted = histograms @ table, histograms[:, :, -1]
    assert_same(superpose(moves, start, gamma, None, table), wanted, [moves, start, gamma], 1e-5)


def test_one_output_is_enough_for_gradients():
    moves, start, gamma, jumps, table = inputs(torch.float64)
    for index in range(2):
        histograms = scan_loop(moves, start, gamma, jumps)
        wanted = (histograms @ table, histograms[:, :, -1])[index]
        got = superpose(moves, start, gamma, jumps, table)[index]
        assert_same([got], [wanted], [moves, start, gamma, jumps], 1e-10)


def test_a_table_with_gradients_is_left_to_torch():
    moves, start, gamma, jumps, table = inputs(torch.float64)
    table.requires_grad_()
    assert not places_available(moves, start, table)
    got, _ = superpose(moves, start, gamma, jumps, table)
    torch.autograd.grad(got.sum(), table)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "hidden"), [(1, 3), (5, 100), (8, 16)])
def test_the_recurrence_is_torch_s(dtype, rows, hidden):
    torch.manual_seed(0)
    gru = OrthogonalGRU(11, hidden).to(dtype)
    for parameter in gru.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(rows, 30, 11, dtype=dtype, requires_grad=True)
    start = torch.randn(rows, hidden, dtype=dtype, requires_grad=True)
    recurrent = gru.weights().flatten(0, 1)
    parameters = [gru.input, recurrent, gru.input_bias, gru.recurrent_bias]
    wanted, last = torch.gru(x, start[None], parameters, True, 1, 0.0, True, False, True)
    assert recurrence_available(x)
    leaves = [x, start, *gru.parameters()]
    assert_same(gru(x, start), (wanted, last[0]), leaves, TOLERANCE[dtype])


def test_the_recurrence_keeps_to_finite_differences():
    generator = torch.Generator().manual_seed(0)
    shapes = (3, 4, 9), (3, 3), (9, 3), (9,)
    leaves = [torch.randn(s, dtype=torch.float64, generator=generator, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(recurrence, leaves, atol=1e-7)


@pytest.mark.parametrize("copying", [False, True])
def test_the_module_is_its_reference(copying):
    torch.manual_seed(0)
    cfg = ModelConfig(positions="prism", d_model=12, prism_places=40, prism_copy=copying, prism_hidden=9)
    module = PrismPositions(cfg).double()
    x = torch.randn(2, 35, 12, dtype=torch.float64, requires_grad=True)
    outs = []
    for reference in (False, True):
        module.reference = reference
        places, state = module(x, module.initial_state(2))
        outs.append((places.queries, places.keys, places.histograms, state.histograms))
    leaves = [x, *module.parameters()]
    assert_same(outs[0], outs[1], leaves, 1e-9)


def test_arrays_that_do_not_fit_are_refused():
    moves, start, gamma, _, table = (
        None if t is None else t.detach().numpy() for t in inputs(torch.float32, jumping=0)
    )
    out, last = np.zeros((3, 4, 37, 6), np.float32), np.zeros((3, 4, 33), np.float32)
    _core.prism_places(moves, start, gamma, None, table, out, last, None)
    with pytest.raises(ShapeError, match="places: expected 2664 values, given 2592"):
        _core.prism_places(moves, start, gamma, None, table, out[:, :, 1:, :3].repeat(2, 3), last, None)
    with pytest.raises(ShapeError, match=r"table \(places, width\)"):
        _core.prism_places(moves, start, gamma, None, table[0], out, last, None)
    with pytest.raises(ShapeError, match="table: expected a C-contiguous array of the same float type"):
        _core.prism_places(moves, start, gamma, None, table.astype(np.float64), out, last, None)
    given, hidden, weights, bias = (np.zeros(s, np.float32) for s in ((2, 5, 9), (2, 3), (9, 3), (9,)))
    out = np.zeros((2, 5, 3), np.float32)
    _core.prism_gru(given, hidden, weights, bias, out, None)
    with pytest.raises(ShapeError, match="weights: expected 27 values, given 24"):
        _core.prism_gru(given, hidden, weights[1:], bias, out, None)
    with pytest.raises(ShapeError, match=r"start \(batch, hidden\)"):
        _core.prism_gru(given, hidden[0], weights, bias, out, None)
    with pytest.raises(ShapeError, match=r"hidden states \(2, steps, 3\)"):
        _core.prism_gru(given, hidden, weights, bias, out[..., 1:].copy(), None)
