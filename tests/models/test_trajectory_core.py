"""Trajectory positions in the Rust core: equal to torch, gradients in chunks, and memory use."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip.bench.train import peak_bytes
from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, build_language_model, load_checkpoint, save_checkpoint
from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.parts.positions.trajectory.config import TrajectoryConfig
from pyanticip.models.parts.positions.trajectory.module import TrajectoryPositions
from pyanticip.models.parts.positions.trajectory.real_positions import RealPositions
from pyanticip.models.parts.positions.trajectory.step_lengths import step_lengths


def made(width, length, **options):
    return TrajectoryPositions(width, TrajectoryConfig(**options), length)


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
    positions = made(width, length, strength=0.25, scale=scale)
    actual, _ = positions(e)
    assert actual.dtype == torch.float32
    moved, _ = positions.displacements(e.double())
    fallen = moved.isnan()
    expected = sinusoids(torch.arange(length) + moved.masked_fill(fallen, 0.0), width)
    torch.testing.assert_close(actual.double(), expected, atol=1e-6, rtol=0)
    standard = sinusoids(torch.arange(length), width).float().expand_as(actual)
    assert torch.equal(actual[fallen], standard[fallen])
    # With gradients, cached, and as a stream.
    learned, _ = positions(e.clone().requires_grad_())
    torch.testing.assert_close(learned.detach(), actual, atol=1e-6, rtol=0)
    cached = made(width, length, strength=0.25, scale=scale, cache=9)
    kept, _ = cached(e)
    # Torch computes step lengths in float32, the core in float64.
    torch.testing.assert_close(kept, actual, atol=1e-6, rtol=0)
    assert torch.equal(cached(e)[0], kept)
    state = positions.embed_state(rows, e)
    parts = []
    for part in e.split((length + 2) // 3, 1):
        out, state = positions(part, state)
        parts.append(out)
    torch.testing.assert_close(torch.cat(parts, 1), actual, atol=1e-6, rtol=0)


@torch.no_grad()
def test_embeddings_may_lie_in_memory_as_they_like():
    positions = made(6, 30)
    e = torch.randn(6, 30, 3).permute(2, 1, 0)
    assert torch.equal(positions(e)[0], positions(e.contiguous())[0])
    one = torch.randn(1, 30, 6).expand(4, -1, -1)
    assert torch.equal(positions(one)[0], positions(one.contiguous())[0])


@pytest.mark.parametrize("scale", ["none", "rms"])
@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("length", [64, 1024, 5000])
@torch.no_grad()
def test_memory_is_the_encodings_and_a_table(rows, length, scale):
    """At most twice the memory of a table look-up of as many rows: little besides table and encodings."""
    positions = made(32, length, scale=scale)
    e = torch.randn(rows, length, 32)
    peak = peak_bytes(lambda: positions(e), e.device)
    if peak is None:
        pytest.skip("this torch reports no allocations")
    table = sum(x.nbytes for x in positions.buffers())
    assert peak <= 1.01 * e.nbytes + 4096
    assert table + peak < 1.3 * (e[0].nbytes + e.nbytes)


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
    positions = made(64, 1024, strength=0.2)
    x = torch.randn(2, 1024, 64, requires_grad=True)
    encodings, cpu = 4 * x.numel(), torch.device("cpu")

    def both():
        x.grad = None
        positions(x)[0].sum().backward()

    both()
    x.grad = None
    assert encodings <= peak_bytes(lambda: positions(x), cpu) < 1.25 * encodings
    # The encodings, the gradient of the embeddings, and chunks of intermediate values.
    assert peak_bytes(both, cpu) < 2.6 * encodings


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


SIZES = {"d_model": 32, "ff": 24, "vocab": 50, "max_seq_len": 40, "dropout": 0.0}


def language(kind, **changes):
    torch.manual_seed(0)
    model = build_language_model(ModelConfig.small(**{**SIZES, **changes}), kind).eval()
    with torch.no_grad():
        model.token.weight.mul_(10.0)
    return model


@pytest.mark.parametrize("kind", ["anticipatory", "baseline"])
@pytest.mark.parametrize(
    "options", [{"trajectory_strength": 0.0}, {"trajectory_content": "random"}], ids=["given", "auto"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_zero_strength_is_the_sinusoidal_model_bit_for_bit(kind, options, dtype):
    ids = torch.randint(50, (2, 40))
    plain = language(kind, positions="sinusoidal").to(dtype)
    still = language(kind, positions="trajectory", **options).to(dtype)
    moved = language(kind, positions="trajectory").to(dtype)
    assert torch.equal(plain(ids).logits, still(ids).logits)
    assert not torch.equal(plain(ids).logits[:, 1:], moved(ids).logits[:, 1:])
    assert torch.equal(plain(ids[:, :1]).logits, moved(ids[:, :1]).logits)
    out, _ = still(ids, state=still.initial_state(2))
    torch.testing.assert_close(out.logits, plain(ids).logits, atol=1e-5, rtol=0)


def test_options_reach_the_module_and_the_checkpoint(tmp_path):
    options = {
        "trajectory_content": "code",
        "trajectory_magnitude": 0.5,
        "trajectory_interpolation": "linear",
        "trajectory_scale": "rms",
        "trajectory_cache": 7,
    }
    model = language("anticipatory", positions="trajectory", **options)
    moved = model.trunk.positions
    assert isinstance(moved, TrajectoryPositions)
    assert (moved.strength, moved.magnitude, moved.scale) == (0.25, 0.5, "rms")
    assert (moved.places.interpolation, moved.places.rows, moved.cache.entries) == ("linear", 51, 7)
    assert not any("positions" in name for name in model.state_dict())
    again = load_checkpoint(save_checkpoint(tmp_path / "model", model))
    assert again.cfg == model.cfg
    ids = torch.randint(50, (2, 40))
    with torch.no_grad():
        assert torch.equal(model(ids).logits, again(ids).logits)
    assert len(moved.cache) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"trajectory_strength": 1.5}, "less than or equal to 1"),
        ({"trajectory_strength": "strong"}, "auto"),
        ({"trajectory_strength": True}, "auto"),
        ({"trajectory_magnitude": 0.0}, "greater than 0"),
        ({"trajectory_interpolation": "nearest"}, "cubic"),
        ({"trajectory_scale": "max"}, "rms"),
        ({"trajectory_cache": -1}, "cache must be"),
        ({"trajectory_content": ""}, "at least 1 character"),
        ({"trajectory_content": "code", "trajectory_strength": 0.2}, "given"),
        ({"positions": "rope", "trajectory_scale": "rms"}, "positions='rope'"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises(OptionError, match=said):
        ModelConfig.small(**{"positions": "trajectory", **wrong})
