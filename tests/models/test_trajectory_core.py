"""Trajectory positions in the Rust core: what tensors say, gradients in pieces, and the memory they keep."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip import _core
from pyanticip.bench.memory import peak_bytes
from pyanticip.errors import ShapeError
from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.parts.positions.trajectory.module import TrajectoryPositions
from pyanticip.models.parts.positions.trajectory.real_positions import RealPositions
from pyanticip.models.parts.positions.trajectory.step_lengths import step_lengths


@settings(max_examples=60)
@given(
    rows=st.integers(1, 4),
    length=st.integers(2, 70),
    width=st.integers(1, 40),
    scale=st.sampled_from(["none", "rms"]),
    spread=st.sampled_from([0.01, 0.2, 5.0]),
    seed=st.integers(0, 999),
    bad=st.none() | st.tuples(st.integers(0, 3), st.integers(0, 69)),
)
def test_the_core_says_what_tensors_say(rows, length, width, scale, spread, seed, bad):
    e = spread * torch.randn(rows, length, width, generator=torch.Generator().manual_seed(seed))
    if bad is not None:
        e[bad[0] % rows, bad[1] % length, -1] = torch.nan
    positions = TrajectoryPositions(width, length=length, strength=0.25, scale=scale, cache=0)
    got, _ = positions(e)
    assert got.dtype == torch.float32
    assert positions.counters.fallbacks == (bad is not None)
    moved, _ = positions.displacements(e.double())
    fallen = moved.isnan()
    wanted = sinusoids(torch.arange(length) + moved.masked_fill(fallen, 0.0), width)
    torch.testing.assert_close(got.double(), wanted, atol=1e-6, rtol=0)
    standard = sinusoids(torch.arange(length), width).float().expand_as(got)
    assert torch.equal(got[fallen], standard[fallen])
    # With gradients, cached, and as a stream.
    learned, _ = positions(e.clone().requires_grad_())
    torch.testing.assert_close(learned.detach(), got, atol=1e-6, rtol=0)
    cached = TrajectoryPositions(width, length=length, strength=0.25, scale=scale)
    assert torch.equal(cached(e)[0], got)
    assert torch.equal(cached(e)[0], got)
    state = positions.embed_state(rows, e)
    parts = []
    for part in e.split((length + 2) // 3, 1):
        out, state = positions(part, state)
        parts.append(out)
    torch.testing.assert_close(torch.cat(parts, 1), got, atol=1e-6, rtol=0)


@torch.no_grad()
def test_embeddings_may_lie_in_memory_as_they_like():
    positions = TrajectoryPositions(6, length=30, cache=0)
    e = torch.randn(6, 30, 3).permute(2, 1, 0)
    assert torch.equal(positions(e)[0], positions(e.contiguous())[0])
    one = torch.randn(1, 30, 6).expand(4, -1, -1)
    assert torch.equal(positions(one)[0], positions(one.contiguous())[0])


@pytest.mark.parametrize("scale", ["none", "rms"])
@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("length", [64, 1024, 5000])
@torch.no_grad()
def test_memory_is_the_encodings_and_a_table(rows, length, scale):
    """Below twice what a look-up of as many rows takes: table, encodings, hardly anything else."""
    positions = TrajectoryPositions(32, length=length, scale=scale, cache=0)
    e = torch.randn(rows, length, 32)
    peak = peak_bytes(lambda: positions(e), e.device)
    if peak is None:
        pytest.skip("this torch reports no allocations")
    table = sum(x.nbytes for x in positions.buffers())
    assert peak <= 1.01 * e.nbytes + 4096
    assert table + peak < 1.3 * (e[0].nbytes + e.nbytes)


def test_arrays_that_do_not_fit_are_refused():
    e, table, speeds = (np.zeros(s, np.float32) for s in ((2, 3, 4), (9, 4), (2,)))
    out, moved = np.zeros((2, 3, 4), np.float32), np.zeros((2, 3))
    assert _core.trajectory_encode(e, 0.2, 2.0, False, table, speeds, out) == 0
    for wrong in (
        (e, 0.2, 2.0, False, table, speeds, out[:1]),
        (e, 0.2, 2.0, False, table[:0], speeds, out),
        (e, 0.2, 2.0, False, table, speeds[:1], out),
    ):
        with pytest.raises(ShapeError):
            _core.trajectory_encode(*wrong)
    with pytest.raises(ShapeError):
        _core.trajectory_displacements(e, 0.2, 2.0, False, moved[:, :2].copy())
    with pytest.raises(ShapeError):
        _core.encode_positions(np.zeros(5), table, speeds, out[0].copy())
    for wrong in (e.astype(np.float64), e[0]):
        with pytest.raises(ShapeError):
            _core.trajectory_displacements(wrong, 0.2, 2.0, False, moved)


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
