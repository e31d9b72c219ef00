"""Sizes, initial values, each part against its formula, and refused inputs."""

import math

import pytest
import torch
from support import models

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.models.core.attention import TrajectoryAttention
from pyanticip.models.core.band import make_band
from pyanticip.models.core.bias import TrajectoryBias, orthogonality
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.gates import AnticipationHead, PathwayGate
from pyanticip.models.core.steering import Extras, PositionVectors, Steering
from pyanticip.models.core.trunk import StepSteering, Trunk


def test_motion_model_size_is_within_its_budget():
    count = sum(p.numel() for p in MotionTransformer().parameters())
    assert 1_000_000 <= count <= 2_000_000


def test_start_values():
    torch.manual_seed(0)
    trunk = Trunk(ModelConfig())
    torch.testing.assert_close(torch.nn.functional.softplus(trunk.bias.raw_alpha), torch.ones(4))
    assert not trunk.bias.beta.any()
    assert trunk.commitment.combine.weight.tolist() == [[1.0, 4.0]]
    assert trunk.commitment.combine.bias.item() == -2.5
    assert abs(trunk.fast[0].up.weight.std().item() - 0.02) < 1e-3


def test_bias_follows_its_formula():
    torch.manual_seed(0)
    bias = TrajectoryBias(4, 0.02).double()
    torch.nn.init.normal_(bias.beta)
    alpha = torch.nn.functional.softplus(bias.raw_alpha)
    for stride in (1, 10):
        kernel = bias.kernel(5, stride)
        for h in range(4):
            for distance in range(6):
                expected = math.exp(-alpha[h].item() * distance * stride * 0.02 + bias.beta[h].item())
                assert abs(kernel[h, distance].item() - expected) < 1e-12


@pytest.mark.parametrize("length", [1, 3, 4, 5, 9, 16])
@torch.no_grad()
def test_banded_attention_equals_plain_masked_attention(length):
    torch.manual_seed(0)
    past, heads = 4, 2
    attention = TrajectoryAttention(8, heads, past).double()
    x = torch.randn(3, length, 8, dtype=torch.float64)
    amplitude = torch.randn(3, length, heads, dtype=torch.float64)
    rate, beta = torch.rand(2, heads, dtype=torch.float64)
    steering = Steering(amplitude, rate, beta)
    kernel = steering.kernel(torch.arange(past + 1))
    band = make_band(length, past, steering, count=None, device=x.device, dtype=x.dtype)
    got, _ = attention(x, band, None)
    q, k, v = (t.view(3, length, heads, 4).transpose(1, 2) for t in attention.qkv(x).chunk(3, -1))
    i, j = torch.arange(length)[:, None], torch.arange(length)[None]
    allowed = (j <= i) & (i - j <= past)
    full = amplitude.transpose(1, 2)[..., None] * kernel[:, (i - j).clamp(0, past)]
    scores = q @ k.transpose(-1, -2) / math.sqrt(4) + full.masked_fill(~allowed, -math.inf)
    expected = attention.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(3, length, 8))
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=0)


@torch.no_grad()
def test_slow_pathway_holds_between_pools_and_is_zero_before_the_first(build):
    model = build(slow_stride=4)
    trunk = model.trunk
    x = torch.randn(1, 14, trunk.cfg.d_model, dtype=torch.float64)
    slow = trunk._slow(x, StepSteering(None, None), None, None).out
    assert not slow[:, :3].any()
    for start in (3, 7):
        assert slow[:, start].any()
        assert torch.equal(slow[:, start : start + 4], slow[:, start : start + 1].expand(-1, 4, -1))
    assert not torch.equal(slow[:, 6], slow[:, 7])


@torch.no_grad()
def test_anticipation_head_uses_native_ranges():
    head = AnticipationHead(16)
    torch.nn.init.normal_(head.last.weight, 0, 50)
    out = head(torch.randn(500, 16))
    others = out[:, [0, 1, 3, 4, 5, 6]]
    assert others.min() >= 0
    assert others.max() <= 1
    assert out[:, 2].min() < -1.9
    assert out[:, 2].max() > 1.9
    z = head.last(torch.nn.functional.gelu(head.first(head.norm(torch.ones(1, 16)))))
    torch.testing.assert_close(head(torch.ones(1, 16))[:, 2], 2 * torch.tanh(z[:, 2]))


def test_hazards_fall_back_to_the_base_rate_where_the_gate_is_shut():
    model = MotionTransformer()
    hidden = torch.randn(2, 3, 128)
    _, logits = model.control(hidden, torch.zeros(2, 3, 1))
    torch.testing.assert_close(torch.sigmoid(logits), torch.full((2, 3, 2, 25), 0.01))


def test_orthogonality_reports_floor_and_excess():
    few = orthogonality(torch.eye(7)[:4])
    assert few.penalty.item() == 0.0
    assert few.excess.item() == 0.0
    same = orthogonality(torch.ones(3, 7))
    assert abs(same.penalty.item() - 6.0) < 1e-5
    eight = orthogonality(torch.randn(8, 7))
    assert abs(eight.floor - (64 / 7 - 8)) < 1e-12
    assert eight.excess.item() >= -1e-5


def test_self_predicted_loop_does_not_drift(build):
    """Long after the window has filled, feeding the refined scalars back stays bounded and finite."""
    model = build(torch.float32, fast_layers=1, slow_layers=1, kinematics=False)
    state = model.initial_state(1)
    still = torch.zeros(1, 231)
    seen = []
    with torch.no_grad():
        for _ in range(300):
            out, state = model.step(still, state, mode="refined_prev")
            seen.append(out.scalars[0, 0])
    seen = torch.stack(seen)
    assert torch.isfinite(seen).all()
    assert (seen[-100:] - seen[-200:-100]).abs().max() < 1e-3


ROWS = torch.zeros(2, 5, 231, dtype=torch.float64)


def at(value, *place):
    rows = ROWS.clone()
    rows[place] = value
    return rows


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m(ROWS.numpy()), r"features must be a tensor \(B, L, 231 or 279\), got ndarray"),
        (lambda m: m.step([0.0], m.initial_state(1)), "features must be a tensor .*, got list"),
        (lambda m: m(ROWS.float()), "features must be torch.float64 as the weights are, got torch.float32"),
        (lambda m: m(ROWS.long()), "features must be torch.float64 as the weights are, got torch.int64"),
        (lambda m: m(ROWS[:0]), r"with B >= 1 and L >= 1, got \(0, 5, 231\)"),
        (lambda m: m(ROWS[0]), r"\(B, L, 231 or 279\) .*got \(5, 231\)"),
        (lambda m: m(ROWS[..., 1:]), r"\(B, L, 231 or 279\) .*got \(2, 5, 230\)"),
        (lambda m: m(ROWS[:, :0]), r"got \(2, 0, 231\)"),
        (lambda m: m(ROWS[:1], m.initial_state(2)), "2 rows"),
        (lambda m: m(at(torch.nan, 1, 2, 3)), r"features must be finite, got nan at \[1, 2, 3\]"),
        (lambda m: m(at(torch.inf, 0, 0, 230)), r"features must be finite, got inf at \[0, 0, 230\]"),
        (lambda m: m(ROWS, scalars=ROWS[..., :6]), r"scalars must be \(2, 5, 7\), got \(2, 5, 6\)"),
        (lambda m: m(ROWS, predicted=ROWS[..., 0]), "predicted must be .* of torch.bool"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(ShapeError, match=words):
        call(models.build("motion"))


@torch.no_grad()
def test_a_refused_frame_leaves_the_stream_as_it_was():
    model, x = models.build("motion"), torch.randn(1, 4, 231, dtype=torch.float64)
    state = model.initial_state(1)
    for frame in x.unbind(1):
        with pytest.raises(ShapeError, match="must be finite"):
            model.step(torch.full_like(frame, torch.nan), state)
        out, state = model.step(frame, state)
    torch.testing.assert_close(out.params[:, 0], model(x).params[:, -1])


def test_a_mode_or_normalisation_that_is_none_is_refused():
    model = models.build("motion", torch.float32)
    with pytest.raises(OptionError, match="refined_prev"):
        model(torch.zeros(1, 1, 231), mode="refined")
    with pytest.raises(ShapeError, match="231 finite"):
        model.set_normalisation(torch.zeros(231), torch.full((231,), float("nan")))


def test_the_share_is_the_fast_pathways():
    gate = PathwayGate(4)
    fast, slow, scalars = torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.rand(2, 3, 7)
    mixed, share = gate(scalars, fast, fast, slow)
    torch.testing.assert_close(mixed, share[..., None] * fast + (1.0 - share[..., None]) * slow)
    with torch.no_grad():
        gate.linear.bias.fill_(50.0)
    mixed, share = gate(scalars, fast, fast, slow)
    torch.testing.assert_close(share, torch.ones(2, 3))
    torch.testing.assert_close(mixed, fast)


CURSORS, WIDTH = 3, 4


@torch.no_grad()
def test_scores_are_those_of_the_definition():
    """Content, places and gates in one softmax, written out."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 9, 4, 6, dtype=torch.float64, generator=generator) for _ in range(3))
    places = PositionVectors(*(torch.randn(2, 9, CURSORS, WIDTH, dtype=torch.float64) for _ in range(2)))
    alpha, mu = torch.randn(4, CURSORS, dtype=torch.float64), torch.rand(4, dtype=torch.float64)
    gate = torch.rand(2, 9, dtype=torch.float64).log()
    content = torch.einsum("bihd,bjhd->bhij", q, k) * 6**-0.5
    place = torch.einsum("hc,bicd,bjcd->bhij", alpha.abs(), places.queries, places.keys)
    scores = mu[:, None, None] * content + (1 - mu)[:, None, None] * place / (CURSORS * WIDTH) ** 0.5
    scores = scores + gate[:, None, None]
    for past in (8, 4):
        distance = torch.arange(9)[:, None] - torch.arange(9)
        hidden = (distance < 0) | (distance > past)
        expected = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        expected = torch.einsum("bhij,bjhd->bihd", expected, v).flatten(2)
        options = {"device": q.device, "dtype": q.dtype}
        steering = Steering(places=places)
        for layout in (
            make_fused(9, past, steering, **options),
            make_band(9, past, steering, count=None, **options),
        ):
            got, _ = layout.attend(q, k, v, None, Extras(gate, alpha, mu))
            torch.testing.assert_close(got, expected)
