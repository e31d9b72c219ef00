"""The histogram scan: what it conserves, and that the kernels are the loop."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip import _core
from pyanticip.errors import ShapeError
from pyanticip.models.parts.positions.prism.scan import move, scan, scan_loop, sharpen


def inputs(dtype, rows=3, cursors=4, steps=30, places=17, jumping=2, seed=0):
    """Weights that add up to one, as the gates give them; histograms and powers to go with them."""
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


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("sharpening", [True, False])
@pytest.mark.parametrize("jumping", [0, 2])
@pytest.mark.parametrize("places", [2, 3, 17, 64])
def test_the_kernel_is_the_loop_with_its_gradients(dtype, tolerance, sharpening, jumping, places):
    moves, start, gamma, jumps = inputs(dtype, places=places, jumping=jumping)
    gamma = gamma if sharpening else None
    wanted = scan_loop(moves, start, gamma, jumps)
    got = scan(moves, start, gamma, jumps)
    torch.testing.assert_close(got, wanted, atol=tolerance, rtol=0)
    leaves = [t for t in (moves, start, gamma, jumps) if t is not None]
    weights = torch.randn_like(wanted)
    pairs = zip(
        torch.autograd.grad((got * weights).sum(), leaves),
        torch.autograd.grad((wanted * weights).sum(), leaves),
        strict=True,
    )
    for mine, theirs in pairs:
        scale = float(theirs.abs().max())
        assert float((mine - theirs).abs().max()) <= tolerance * scale


def test_the_kernel_keeps_to_finite_differences():
    leaves = inputs(torch.float64, rows=1, cursors=2, steps=4, places=5, jumping=1)
    assert torch.autograd.gradcheck(lambda *t: scan(*t), leaves, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    places=st.integers(2, 40),
    steps=st.integers(1, 40),
    jumping=st.integers(0, 2),
    sharpness=st.floats(0.1, 30),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_mass_is_conserved(seed, places, steps, jumping, sharpness, dtype):
    """Before sharpening to 1e-6, at both ends too and whatever the gates; after it, histograms add up to
    one."""
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
    for run in (scan, scan_loop):
        mass = run(moves, start, None, jumps).sum(-1)
        assert float((mass - torch.cat((start.sum(-1)[..., None], mass[..., :-1]), -1)).abs().max()) <= 1e-6
        if dtype == torch.float64:
            assert float((mass - start.sum(-1)[..., None]).abs().max()) <= 1e-6
    sharp = scan(moves, start, torch.full((3,), 2.0, dtype=dtype), jumps)
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
    """Increments count steps, decrements count back, a reset starts over, a jump goes where it says."""
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
    for run in (scan, scan_loop):
        out = run(moves, start, gamma)
        assert bool(torch.isfinite(out).all())
        (gradient,) = torch.autograd.grad(out.square().sum(), gamma)
        assert bool(torch.isfinite(gradient).all())


def test_what_is_no_number_does_not_get_lost():
    moves, start, gamma, _ = inputs(torch.float32, jumping=0)
    moves = moves.detach().clone()
    moves[0, 0, 5, 0] = float("nan")
    got = scan(moves, start, gamma).detach()
    assert bool(torch.isnan(got[0, 0, 5:]).all())
    assert bool(torch.isfinite(got[0, 0, :5]).all())
    assert bool(torch.isfinite(got[1:]).all())


def test_parallel_cursors_add_up_in_one_order():
    moves, start, gamma, jumps = inputs(torch.float32, rows=8)
    outs = []
    for _ in range(3):
        for leaf in (moves, start, gamma, jumps):
            leaf.grad = None
        out = scan(moves, start, gamma, jumps)
        out.square().sum().backward()
        outs.append((out.detach(), gamma.grad.clone(), moves.grad.clone()))
    for one, other in itertools.pairwise(outs):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_arrays_that_do_not_fit_are_refused():
    moves, start = np.zeros((2, 3, 4, 5), np.float32), np.zeros((2, 3, 6), np.float32)
    out = np.zeros((2, 3, 4, 6), np.float32)
    _core.prism_scan(moves, start, None, None, out)
    with pytest.raises(ShapeError, match="start: expected 36 values, given 30"):
        _core.prism_scan(moves, np.zeros((1, 5, 6), np.float32), None, None, out)
    with pytest.raises(ShapeError, match="same float type"):
        _core.prism_scan(moves, start.astype(np.float64), None, None, out)
    with pytest.raises(ShapeError, match="C-contiguous"):
        _core.prism_scan(moves, start, None, None, out[..., ::2])
    with pytest.raises(ShapeError, match="places: expected at least 2, given 1"):
        _core.prism_scan(moves, start[..., :1].copy(), None, None, out)
    with pytest.raises(ShapeError, match="gamma: expected 3 values, given 2"):
        _core.prism_scan(moves, start, np.zeros(2, np.float32), None, out)
    with pytest.raises(ShapeError, match=r"moves \(batch, cursors, steps, 5\)"):
        _core.prism_scan(moves[..., :4].copy(), start, None, None, out)
