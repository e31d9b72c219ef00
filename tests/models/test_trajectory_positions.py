"""Trajectory positions: definition, limits, gradients, long streams, cache."""

import math

import pytest
import torch

from pyanticip.errors import ShapeError
from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.parts.positions.trajectory.config import TrajectoryConfig, auto_strength
from pyanticip.models.parts.positions.trajectory.module import DisplacementCache, TrajectoryPositions
from pyanticip.models.parts.positions.trajectory.real_positions import RealPositions

INTERPOLATIONS = ("exact", "linear", "cubic")
SCALES = ("none", "rms")


def make(width=16, dtype=torch.float64, length=0, **options):
    return TrajectoryPositions(width, TrajectoryConfig(**options), length).to(dtype)


def path(rows, length, width, dtype=torch.float64, scale=0.2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(rows, length, width, generator=generator, dtype=torch.float64)).to(dtype)


def by_hand(e, strength, magnitude=2.0, scale="none"):
    """The definition, in a loop."""
    moved, total, squares = [0.0], 0.0, 0.0
    for i in range(1, len(e)):
        step = math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(e[i], e[i - 1], strict=True)))
        squares += step * step
        if scale == "rms":
            step /= math.sqrt(squares / i)
        total += strength * math.tanh(magnitude * step)
        moved.append(total)
    return torch.tensor(moved, dtype=torch.float64)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("width", [5, 16])
def test_the_definition(scale, width):
    e = path(2, 23, width, scale=0.05)
    encoded, state = make(width, strength=0.25, magnitude=1.5, scale=scale)(e)
    assert state is None
    for row in range(2):
        moved = by_hand(e[row], 0.25, 1.5, scale)
        assert 0.5 < moved[-1] < 5.5
        expected = sinusoids(torch.arange(23) + moved, width)
        torch.testing.assert_close(encoded[row], expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize(("width", "length"), [(16, 64), (17, 200), (128, 7), (1, 9)])
def test_zero_strength_and_single_steps_are_the_standard_encoding_bit_for_bit(width, length, interpolation):
    e = path(3, length, width, torch.float32)
    table = sinusoids(torch.arange(length), width).float()
    for known in (length, 0):
        options = {"length": known, "interpolation": interpolation, "dtype": torch.float32}
        encoded, _ = make(width, strength=0.0, **options)(e)
        assert encoded.shape == e.shape
        assert all(torch.equal(row, table) for row in encoded)
        single, _ = make(width, strength=0.25, **options)(e[:, :1])
        assert all(torch.equal(row, table[:1]) for row in single)
        # A step of length 0 adds no displacement.
        still, _ = make(width, strength=0.25, **options)(e[:, :1].expand(-1, length, -1))
        torch.testing.assert_close(still, table.expand_as(still), atol=1e-7, rtol=0)


@pytest.mark.parametrize(("width", "length"), [(16, 32_768), (33, 4096), (512, 1024), (4095, 64), (4096, 64)])
def test_accuracy_of_angles_at_long_positions(width, length):
    """Float32 embeddings, against the definition in float64."""
    e = path(1, length, width, torch.float32, scale=1.0 / math.sqrt(width))
    encoded, _ = make(width, torch.float32, length=length, strength=0.25)(e)
    steps = torch.linalg.vector_norm(e[0].double().diff(dim=0), dim=-1)
    moved = torch.cat((steps.new_zeros(1), (0.25 * torch.tanh(2.0 * steps)).cumsum(0)))
    expected = sinusoids(torch.arange(length) + moved, width)
    assert (encoded[0] - expected).abs().max() < 1e-6
    assert bool((encoded[0] - expected).abs().max() > 0)


def test_the_error_of_each_interpolation():
    """The error is at most 1 - cos(1/2) for linear, far less for cubic; both are exact at whole positions."""
    positions = torch.linspace(0.0, 50.0, 5001, dtype=torch.float64)
    truth = sinusoids(positions, 32)
    errors = {}
    for name in INTERPOLATIONS:
        for rows in (53, 0):
            places = RealPositions(32, rows, name)
            found = places(positions, torch.float32, in_table=bool(rows)).double()
            errors[name] = (found - truth).abs().max()
            whole = places(torch.arange(50).double(), torch.float32, in_table=bool(rows))
            torch.testing.assert_close(whole, sinusoids(torch.arange(50), 32).float(), atol=1e-7, rtol=0)
    assert errors["exact"] < 5e-7
    assert 0.115 < errors["linear"] < 1 - math.cos(0.5)
    assert errors["cubic"] < 0.03


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_the_table_reaches_the_last_position(interpolation):
    """With maximal steps positions are not clamped: all neighbours have the same distance."""
    length, strength = 100, 0.3
    positions = make(4, torch.float32, length=length, strength=strength, interpolation=interpolation)
    rows = math.ceil(length * (1 + strength)) + 1
    assert len(positions.places.table) == rows + (interpolation == "cubic")
    far = torch.zeros(1, length, 4)
    far[:, ::2] = 1e4
    encoded, _ = positions(far)
    expected = sinusoids(torch.arange(length).double() * (1 + strength), 4)
    error = (encoded[0] - expected).abs().max()
    assert error < {"exact": 1e-6, "linear": 0.13, "cubic": 0.03}[interpolation]


@pytest.mark.parametrize(("scale", "width"), [("none", 4), ("rms", 5)])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_gradients(scale, interpolation, width):
    positions = make(width, strength=0.2, scale=scale, interpolation=interpolation)
    e = path(2, 4, width).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: positions(x)[0], e)
    state = positions(path(2, 3, width, seed=1), positions.embed_state(2, e))[1]
    assert torch.autograd.gradcheck(lambda x: positions(x, state)[0], e)
    if interpolation == "exact":
        assert torch.autograd.gradgradcheck(lambda x: positions(x)[0], e)


def test_gradients_of_the_looked_up_encoding():
    """Float32 with a table, where the gradient is computed from the encodings."""
    looked_up, computed = make(6, torch.float32, length=9), make(6)
    e = path(2, 9, 6)
    weights = path(2, 9, 6, seed=1)
    gradients = []
    for positions, dtype in ((looked_up, torch.float32), (computed, torch.float64)):
        x = e.to(dtype).requires_grad_()
        (positions(x)[0] * weights).sum().backward()
        gradients.append(x.grad.double())
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scale", SCALES)
def test_embeddings_that_repeat_have_finite_gradients(scale):
    e = path(1, 1, 6).expand(1, 8, 6).clone().requires_grad_()
    make(6, scale=scale)(e)[0].sum().backward()
    assert bool(e.grad.isfinite().all())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [0, 1, 6, 11])
@pytest.mark.parametrize("length", [12, 0])
@torch.no_grad()
def test_an_embedding_that_is_not_finite_falls_back(bad, at, length):
    positions = make(8, torch.float32, length=length, strength=0.2)
    e = path(3, 12, 8, torch.float32)
    whole, _ = positions(e)
    e[1, at, 3] = bad
    encoded, _ = positions(e)
    assert torch.equal(encoded[[0, 2]], whole[[0, 2]])
    assert torch.equal(encoded[1, :at], whole[1, :at])
    assert torch.equal(encoded[1, at:], sinusoids(torch.arange(12), 8).float()[at:])
    state, outs = positions.embed_state(3, e), []
    for step in e.split(1, 1):
        out, state = positions(step, state)
        outs.append(out)
    torch.testing.assert_close(torch.cat(outs, 1), encoded, atol=1e-6, rtol=0)
    # A reset ends the fallback.
    state.reset(torch.tensor([False, True, False]))
    again, _ = positions(path(3, 12, 8, torch.float32), state)
    torch.testing.assert_close(again[1], whole[1], atol=1e-6, rtol=0)


def test_a_fallback_leaves_gradients_finite():
    positions = make(4)
    e = path(2, 6, 4)
    e[0, 3, 1] = math.nan
    e.requires_grad_()
    encoded, _ = positions(e)
    encoded.sum().backward()
    assert bool(e.grad.isfinite().all())
    assert torch.count_nonzero(e.grad[1]) > 0


def test_finite_embeddings_too_far_apart_for_their_type_do_not_fall_back():
    positions = make(4, torch.float32, strength=0.5)
    e = torch.tensor([1e30, -1e30, 1e30]).view(1, 3, 1).expand(1, 3, 4)
    encoded, _ = positions(e)
    torch.testing.assert_close(encoded[0], sinusoids(torch.tensor([0.0, 1.5, 3.0]), 4).float())


@torch.no_grad()
def test_the_same_bytes_are_found_again_and_no_others():
    positions = make(8, torch.float32, length=16, cache=9)
    plain = make(8, torch.float32, length=16)
    e = path(3, 16, 8, torch.float32)
    first, _ = positions(e)
    assert len(positions.cache) == 3
    e2 = e.clone()
    e2[1, 4, 2] += 1e-7
    again, _ = positions(e2)
    assert len(positions.cache) == 4
    assert torch.equal(again[[0, 2]], first[[0, 2]])
    # Step lengths are float32 here, and float64 in the core, which encodes without a cache.
    torch.testing.assert_close(again, plain(e2)[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(first, plain(e)[0], atol=1e-6, rtol=0)


def test_the_cache_is_off_where_gradients_are_wanted_and_in_streams():
    positions = make(8, torch.float32, cache=9)
    e = path(1, 5, 8, torch.float32).requires_grad_()
    positions(e)
    with torch.no_grad():
        positions(e, positions.embed_state(1, e))
    assert len(positions.cache) == 0
    positions(e.detach())
    assert len(positions.cache) == 1


def test_the_cache_forgets_what_was_used_longest_ago():
    cache = DisplacementCache(2)
    for name in "ab":
        cache.put(name.encode(), torch.zeros(4))
    assert cache.get(b"a") is not None
    cache.put(b"c", torch.zeros(4))
    assert cache.get(b"b") is None
    assert cache.get(b"a") is not None
    small = DisplacementCache(10, size=40)
    for name in "abc":
        small.put(name.encode(), torch.zeros(4))
    small.put(b"huge", torch.zeros(40))
    assert (len(small), small.bytes) == (2, 32)


def test_half_precision_embeddings_are_placed_in_full_precision():
    positions = make(8, torch.float32, length=64).bfloat16()
    e = path(1, 64, 8, torch.float32).bfloat16()
    encoded, _ = positions(e)
    assert encoded.dtype == torch.bfloat16
    expected, _ = make(8, length=64)(e.double())
    torch.testing.assert_close(encoded.double(), expected, atol=4e-3, rtol=0)


def test_bad_input_is_refused():
    positions = make(4)
    with pytest.raises(ShapeError, match=r"\(B, L, 4\)"):
        positions(torch.zeros(1, 3, 5))
    with pytest.raises(ShapeError, match="2 rows"):
        positions(torch.zeros(1, 3, 4), positions.embed_state(2, torch.zeros(1)))


def test_strength_by_content():
    assert [auto_strength(k) for k in ("code", "dialogue", "random", "linear", "text")] == [
        0.25, 0.15, 0.0, 0.2, 0.2,
    ]  # fmt: skip
