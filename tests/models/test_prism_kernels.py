"""The kernels of PRISM positions equal the plain loop and torch's recurrent network, gradients included."""

import itertools
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip import _core
from pyanticip.errors import ShapeError
from pyanticip.models.config import ModelConfig
from pyanticip.models.parts.positions.prism.gru import OrthogonalGRU, recurrence, recurrence_available
from pyanticip.models.parts.positions.prism.module import PrismPositions
from pyanticip.models.parts.positions.prism.scan import (
    move,
    places_available,
    scan,
    scan_loop,
    sharpen,
    superpose,
)

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def inputs(dtype, rows=3, cursors=4, steps=30, places=17, jumping=2, seed=0):
    """Move weights that sum to one, as from the gates, with histograms and exponents."""
    generator = torch.Generator().manual_seed(seed)

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
    moves, start, gamma = (t.to(dtype).requires_grad_() for t in (moves, start, gamma))
    return moves, start, gamma, jumps


def assert_same(got, wanted, leaves, tolerance):
    """Values, and gradients relative to the largest of each leaf."""
    weights = [torch.randn_like(t) for t in wanted]
    found = []
    for outs in (got, wanted):
        loss = sum((out * weight).sum() for out, weight in zip(outs, weights, strict=True))
        found.append(torch.autograd.grad(loss, leaves))
    for actual, expected in zip(got, wanted, strict=True):
        torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)
    for actual, expected in zip(*found, strict=True):
        assert float((actual - expected).abs().max()) <= tolerance * float(expected.abs().max())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sharpening", [True, False])
@pytest.mark.parametrize("jumping", [0, 2])
@pytest.mark.parametrize("places", [2, 3, 17, 64])
def test_the_kernel_is_the_loop(dtype, sharpening, jumping, places):
    moves, start, gamma, jumps = inputs(dtype, places=places, jumping=jumping)
    gamma = gamma if sharpening else None
    wanted = scan(moves, start, gamma, jumps)  # the loop, as gradients are on
    assert wanted.requires_grad
    with torch.no_grad():
        got = scan(moves, start, gamma, jumps)
    torch.testing.assert_close(got, wanted.detach(), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_the_kernel_keeps_to_finite_differences():
    *leaves, table = with_table(torch.float64, rows=1, cursors=2, steps=4, places=5, jumping=1)
    assert torch.autograd.gradcheck(lambda *t: superpose(*t, table), leaves, atol=1e-7)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    places=st.integers(2, 40),
    steps=st.integers(1, 40),
    jumping=st.integers(0, 2),
    sharpness=st.floats(0.1, 30),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_mass_is_conserved(seed, places, steps, jumping, sharpness, dtype):
    """Before sharpening to 1e-6, at both ends and for all gates; after it histograms sum to one and equal the
    loop's."""
    generator = torch.Generator().manual_seed(seed)

    def shares(*shape):
        return (sharpness * torch.randn(*shape, generator=generator).double()).softmax(-1)

    # In double: weights that add up to one only in single precision lose 1e-6 in some dozens of steps.
    moves, start = shares(2, 3, steps, 5).to(dtype), shares(2, 3, places).to(dtype)
    jumps = None
    if jumping:
        chances = shares(2, jumping, steps, places + 1)
        jumps = chances[..., 1:].to(dtype)
        moves = moves.clone()
        moves[:, :jumping] *= chances[..., :1].to(dtype)
    table = torch.eye(places, dtype=dtype)
    given = moves, start, None, jumps
    for histograms in (superpose(*given, table)[0], scan(*given), scan_loop(*given)):
        mass = histograms.sum(-1)
        assert float((mass - torch.cat((start.sum(-1)[..., None], mass[..., :-1]), -1)).abs().max()) <= 1e-6
        if dtype == torch.float64:
            assert float((mass - start.sum(-1)[..., None]).abs().max()) <= 1e-6
    gamma = torch.full((3,), 2.0, dtype=dtype)
    sharp, _ = superpose(moves, start, gamma, jumps, table)
    torch.testing.assert_close(sharp, scan_loop(moves, start, gamma, jumps), atol=1e-5, rtol=1e-5)
    assert float((sharp.sum(-1) - 1).abs().max()) <= 1e-5
    assert bool((sharp >= 0).all())


def test_a_move_by_hand():
    h = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    inc, dec, keep, to0, to1 = 0.3, 0.2, 0.1, 0.25, 0.15
    wanted = [
        0.1 * 0.5 + 0.2 * (0.5 + 0.3) + 0.25,
        0.1 * 0.3 + 0.3 * 0.5 + 0.2 * 0.2 + 0.15,
        0.1 * 0.2 + 0.3 * (0.3 + 0.2),
    ]
    got = move(h, torch.tensor([[inc, dec, keep, to0, to1]], dtype=torch.float64))
    np.testing.assert_allclose(got[0], wanted, atol=1e-15)
    squared = (got + 1e-8) ** 2
    sharp = sharpen(got, torch.tensor([2.0], dtype=torch.float64))
    np.testing.assert_allclose(sharp, squared / squared.sum(), atol=1e-15)


def test_certain_gates_count():
    """Increments count up, decrements down, a reset returns to the start, a jump moves to its target."""
    names = {"inc": 0, "dec": 1, "keep": 2, "to0": 3, "to1": 4}
    program = ["inc"] * 6 + ["dec"] * 2 + ["keep", "to0", "inc", "to1", "dec", "dec"]
    moves = torch.zeros(1, 1, len(program), 5)
    for t, name in enumerate(program):
        moves[0, 0, t, names[name]] = 1
    start = torch.zeros(1, 1, 5)
    start[..., 0] = 1
    at = scan(moves, start, torch.tensor([2.0])).argmax(-1)[0, 0].tolist()
    assert at == [1, 2, 3, 4, 4, 4, 3, 2, 2, 0, 1, 1, 0, 0]
    jumps = torch.zeros(1, 1, len(program), 5)
    jumps[0, 0, 3, 2] = 1
    moves[0, 0, 3] = 0
    assert scan(moves, start, torch.tensor([2.0]), jumps).argmax(-1)[0, 0, 3] == 2


def test_high_powers_stay_finite():
    """Flat histograms to the 200th power vanish in float32 unless the largest is taken out first."""
    moves = torch.full((1, 1, 20, 5), 0.2)
    start = torch.full((1, 1, 400), 1 / 400)
    gamma = torch.tensor([200.0], requires_grad=True)
    for out in (scan(moves, start, gamma), superpose(moves, start, gamma, None, torch.eye(400))[0]):
        assert bool(torch.isfinite(out).all())
        (gradient,) = torch.autograd.grad(out.square().sum(), gamma)
        assert bool(torch.isfinite(gradient).all())


def test_what_is_no_number_does_not_get_lost():
    moves, start, gamma, _ = inputs(torch.float32, jumping=0)
    moves = moves.detach().clone()
    moves[0, 0, 5, 0] = float("nan")
    for exponents in (gamma, None):
        with torch.no_grad():
            given = moves, start, exponents, None
            found = superpose(*given, torch.ones(17, 3))[0], scan(*given)
        for got in found:
            assert bool(torch.isnan(got[0, 0, 5:]).all())
            assert bool(torch.isfinite(got[0, 0, :5]).all())
            assert bool(torch.isfinite(got[1:]).all())


def test_parallel_cursors_add_up_in_one_order():
    moves, start, gamma, jumps, table = with_table(torch.float32, rows=8)
    outs = []
    for _ in range(3):
        for leaf in (moves, start, gamma, jumps):
            leaf.grad = None
        out, _ = superpose(moves, start, gamma, jumps, table)
        out.square().sum().backward()
        outs.append((out.detach(), gamma.grad.clone(), moves.grad.clone()))
    for one, other in itertools.pairwise(outs):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def with_table(dtype, steps=37, places=33, **sizes):
    """Inputs of the scan, and a table of vectors."""
    table = torch.randn(places, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return *inputs(dtype, steps=steps, places=places, **sizes), table.to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sharpening", [True, False])
@pytest.mark.parametrize("jumping", [0, 2])
@pytest.mark.parametrize(("places", "steps"), [(2, 3), (17, 16), (64, 33)])
def test_places_are_the_loop_s(dtype, sharpening, jumping, places, steps):
    moves, start, gamma, jumps, table = with_table(dtype, places=places, steps=steps, jumping=jumping)
    gamma = gamma if sharpening else None
    leaves = [t for t in (moves, start, gamma, jumps) if t is not None]
    assert places_available(moves, start, table)
    histograms = scan_loop(moves, start, gamma, jumps)
    wanted = histograms @ table, histograms[:, :, -1]
    assert_same(superpose(moves, start, gamma, jumps, table), wanted, leaves, TOLERANCE[dtype])


def test_places_from_certain_starts():
    """Cursors near the start: nearly all of a histogram is empty, and the rest must not be dropped."""
    moves, _, gamma, _, table = with_table(torch.float32, places=200, jumping=0)
    start = torch.zeros(3, 4, 200)
    start[..., 0] = 1
    start.requires_grad_()
    histograms = scan_loop(moves, start, gamma)
    wanted = histograms @ table, histograms[:, :, -1]
    assert_same(superpose(moves, start, gamma, None, table), wanted, [moves, start, gamma], 1e-5)


def test_one_output_is_enough_for_gradients():
    moves, start, gamma, jumps, table = with_table(torch.float64)
    for index in range(2):
        histograms = scan_loop(moves, start, gamma, jumps)
        wanted = (histograms @ table, histograms[:, :, -1])[index]
        got = superpose(moves, start, gamma, jumps, table)[index]
        assert_same([got], [wanted], [moves, start, gamma, jumps], 1e-10)


def test_a_table_with_gradients_is_left_to_torch():
    moves, start, gamma, jumps, table = with_table(torch.float64)
    table.requires_grad_()
    assert not places_available(moves, start, table)
    got, _ = superpose(moves, start, gamma, jumps, table)
    torch.autograd.grad(got.sum(), table)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("rows", "hidden"), [(1, 3), (5, 100), (8, 16), (9, 37)])
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


@torch.no_grad()
def test_the_compiler_leaves_the_kernel_alone():
    moves, start, *_ = inputs(torch.float64, jumping=0)
    compiled = torch.compile(lambda moves: scan(2.0 * moves, start) + 1.0, backend="eager")(moves)
    assert torch.equal(compiled, scan(2.0 * moves, start) + 1.0)


@torch.no_grad()
def test_exported_positions_need_no_kernel():
    torch.manual_seed(0)
    cfg = ModelConfig(positions="prism", d_model=12, prism_places=5, prism_copy=True, prism_hidden=9)
    module, x = PrismPositions(cfg), torch.randn(2, 6, 12)

    class Both(torch.nn.Module):
        def forward(self, x):
            places, _ = module(x)
            return places.queries, places.keys

    both = Both()
    both.positions = module
    exported = torch.export.export(both, (x,), strict=False).module()
    torch.testing.assert_close(exported(x), both(x), atol=1e-5, rtol=0.0)


def test_no_steps_have_no_gradients():
    given, hidden, weights, bias = (
        torch.ones(size, requires_grad=True) for size in ((2, 0, 9), (2, 3), (9, 3), (9,))
    )
    recurrence(given, hidden, weights, bias).sum().backward()
    assert not hidden.grad.any()


def test_places_of_no_width_are_refused():
    """With width 0 the kernel would write neither the last histograms nor gradients."""
    moves, start = np.full((1, 1, 3, 5), 0.2), np.full((1, 1, 2), 0.5)
    with pytest.raises(ShapeError, match="width"):
        _core.prism_places(
            moves, start, None, None, np.zeros((2, 0)), np.zeros((1, 1, 3, 0)), np.zeros((1, 1, 2)), None
        )


PROGRAM = """
import torch
from pyanticip.models.parts.positions.prism.scan import scan_loop
from pyanticip.models.parts.positions.prism.scan_triton import scan_triton

torch.manual_seed(0)
for places, jumping, sharpening in ((5, 0, True), (8, 1, True), (6, 2, False)):
    moves = torch.randn(2, 2, 3, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    start = torch.randn(2, 2, places, dtype=torch.float64).softmax(-1).requires_grad_()
    gamma = (1 + torch.rand(2, dtype=torch.float64)).requires_grad_() if sharpening else None
    jumps = None
    if jumping:
        jumps = (torch.rand(2, jumping, 3, places, dtype=torch.float64) / places).requires_grad_()
    wanted, got = (run(moves, start, gamma, jumps) for run in (scan_loop, scan_triton))
    torch.testing.assert_close(got, wanted)
    leaves = [t for t in (moves, start, gamma, jumps) if t is not None]
    weights = torch.randn_like(wanted)
    for a, b in zip(*(torch.autograd.grad((t * weights).sum(), leaves) for t in (got, wanted))):
        torch.testing.assert_close(a, b)
print("equal")
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_the_kernels_are_the_loop_in_tritons_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    root = Path(__import__("pyanticip").__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=root, timeout=300
    )
    assert done.stdout.strip() == "equal", done.stderr[-2000:]
