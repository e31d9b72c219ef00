"""The token models: sizes by the formula, and equal outputs, fused or not, offline or streaming."""

from contextlib import nullcontext

import pytest
import torch
from support import models

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models import (
    AnticipatoryTransformer,
    BaselineTransformer,
    ModelConfig,
    MotionTransformer,
    build_language_model,
)
from pyanticip.models.core.bias import RandomScalars
from pyanticip.models.core.encodings import rotate, sinusoids
from pyanticip.models.parts.positions.fixed import alibi_slopes

POSITIONS = ("none", "sinusoidal", "rope", "alibi", "trajectory")


def build(kind="anticipatory", **changes):
    sizes = {"slow_layers": 2, "window": 12, "vocab": 30, "max_seq_len": 64}
    return models.build(kind, **{**sizes, **changes})


def tokens(rows=2, length=60, seed=1, vocab=30):
    return torch.randint(vocab, (rows, length), generator=torch.Generator().manual_seed(seed))


def given(rows=2, length=60, dtype=torch.float64):
    draw = torch.rand(rows, length, 7, generator=torch.Generator().manual_seed(2), dtype=dtype)
    draw[..., 2] = 4 * draw[..., 2] - 2
    return draw


def broken():
    scalars = given()
    scalars[1, 2, 3] = float("nan")
    return scalars


def formula(vocab, d, heads, layers, ff):
    """The parameters of each component, as the paper's appendix A derives them."""
    return {
        "token": vocab * d,
        "layers": layers * (3 * d * d + d * d + (d * ff + ff) + (ff * d + d) + 2 * 2 * d),
        "bias": (7 * 56 + 56) + (56 * 56 + 56) + (56 * heads + heads) + 2 * heads,
        "heads": 2 * (2 * d + (d * (d // 2) + d // 2) + (d // 2 * 7 + 7)),
        "pathway": 7 + d + 1,
        "commitment": (d + 1) + (2 + 1),
        "norm": 2 * d,
    }


@pytest.mark.parametrize(
    ("cfg", "sizes", "total"),
    [
        (ModelConfig.small(), (1000, 128, 4, 4, 256), 678_206),
        (ModelConfig.default(), (32_000, 512, 8, 6, 2048), 35_560_490),
        (ModelConfig.small(paper=True), (1000, 128, 4, 4, 256), 678_206),
        (ModelConfig.small(bias="random", positions="rope", slow_stride=4), (1000, 128, 4, 4, 256), 678_206),
    ],
    ids=["small", "default", "paper", "options"],
)
def test_sizes_are_the_published_ones_component_by_component(cfg, sizes, total):
    model = AnticipatoryTransformer(cfg)
    parts = dict.fromkeys(formula(*sizes), 0)
    owner = {"initial_head": "heads", "refined_head": "heads", "fast": "layers", "slow": "layers"}
    for name, parameter in model.named_parameters():
        top, *rest = name.split(".")
        part = top if top == "token" else owner.get(rest[0], rest[0])
        parts[part] += parameter.numel()
    assert parts == formula(*sizes)
    assert sum(parts.values()) == total


@pytest.mark.parametrize("preset", [ModelConfig.small, ModelConfig.default])
@pytest.mark.parametrize("positions", POSITIONS)
def test_every_rival_has_as_many_parameters(preset, positions):
    with torch.device("meta"):
        plain = BaselineTransformer(preset(positions=positions))
        whole = AnticipatoryTransformer(preset(positions=positions))
    counts = [sum(p.numel() for p in m.parameters()) for m in (plain, whole)]
    assert abs(counts[0] / counts[1] - 1.0) < 0.002


@pytest.mark.parametrize("kind", ["anticipatory", "baseline"])
@pytest.mark.parametrize("positions", ["sinusoidal", "alibi"])
@torch.no_grad()
def test_in_float32_the_fused_layout_is_within_1e_5(kind, positions):
    torch.manual_seed(0)
    model = build_language_model(ModelConfig.small(positions=positions, dropout=0.0), kind).eval()
    ids = tokens(2, 256, vocab=1000)
    fused = model(ids).logits
    (model if kind == "baseline" else model.trunk).reference = True
    torch.testing.assert_close(fused, model(ids).logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_logits_are_gated_and_the_head_is_tied():
    model = build()
    out = model(tokens())
    torch.testing.assert_close(out.raw_logits, out.hidden @ model.token.weight.T)
    torch.testing.assert_close(out.logits, out.raw_logits * out.gate[..., None])
    assert out.logits is out.logits


@torch.no_grad()
def test_given_scalars_steer_and_predicted_ones_replace_them():
    model = build()
    ids, scalars = tokens(), given()
    own, led = model(ids), model(ids, scalars)
    assert not torch.allclose(own.logits, led.logits)
    every = torch.ones(2, 60, dtype=torch.bool)
    torch.testing.assert_close(model(ids, scalars, predicted=every).logits, own.logits)
    torch.testing.assert_close(model(ids, scalars, mode="initial").logits, own.logits)


@torch.no_grad()
def test_random_scalars_are_the_same_everywhere_and_ignore_the_given_ones():
    one, two = RandomScalars(), RandomScalars()
    assert torch.equal(one.table, two.table)
    assert one.table[:, 2].min() < -1.9
    assert one.table[:, [0, 1, 3, 4, 5, 6]].min() >= 0
    frames = torch.tensor([0, RandomScalars.PERIOD - 2])
    assert torch.equal(one(4, frames)[1, 2:], one(2, None)[0])
    model = build(bias="random")
    model.trunk.pathway.linear.weight[:, :7] = 0
    ids = tokens()
    torch.testing.assert_close(model(ids, given()).hidden, model(ids).hidden)


@torch.no_grad()
def test_a_waiting_row_takes_its_hidden_state_as_input():
    model = build()
    ids = tokens()
    out, state = model(ids[:, :10], state=model.initial_state(2))
    hidden = out.hidden[:, -1]
    waiting = torch.tensor([True, False])
    mixed, _ = model.latent_step(ids[:, 10], hidden, waiting, state.clone())
    plain, _ = model.step(ids[:, 10], state.clone())
    torch.testing.assert_close(mixed.logits[1], plain.logits[1])
    assert not torch.allclose(mixed.logits[0], plain.logits[0])
    rms = model.latent(hidden).square().mean(-1).sqrt()
    torch.testing.assert_close(rms, model.token.weight.square().mean().sqrt().expand(2))


def test_the_paper_options_are_the_papers():
    torch.manual_seed(0)
    model = AnticipatoryTransformer(ModelConfig.small(paper=True))
    assert model.trunk.bias.rate().tolist() == pytest.approx([0.01] * 4)
    assert model.trunk.commitment.combine.weight.abs().max() < 0.2
    assert model.trunk.commitment.combine.bias.item() == 0
    assert model.trunk.fast[0].ffn_dropout.p == 0
    default = AnticipatoryTransformer()
    assert default.trunk.commitment.combine.weight.tolist() == [[1.0, 4.0]]


def test_positions_follow_their_formulas():
    table = sinusoids(torch.arange(5), 6)
    assert table[3, 2].item() == pytest.approx(torch.sin(torch.tensor(3 / 10_000 ** (2 / 6)).double()).item())
    assert table[3, 3].item() == pytest.approx(torch.cos(torch.tensor(3 / 10_000 ** (2 / 6)).double()).item())
    assert sinusoids(torch.tensor([2.5]), 5).shape == (1, 5)
    assert alibi_slopes(8).tolist() == [2.0**-k for k in range(1, 9)]
    assert alibi_slopes(6).tolist() == pytest.approx([0.25, 0.0625, 2**-6, 2**-8, 0.5, 0.125])
    x = torch.randn(3, 8, dtype=torch.float64)
    scores = [
        (rotate(x, torch.tensor(a)) * rotate(x.flip(0), torch.tensor(b))).sum(-1) for a, b in ((9, 4), (5, 0))
    ]
    torch.testing.assert_close(*scores)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m(torch.tensor([[1, 30]])), r"ids must be 0 to 29, got 30 at \[0, 1\]"),
        (lambda m: m(torch.tensor([[-1]])), "got -1"),
        (lambda m: m(torch.tensor([1, 2])), r"ids must be \(B, L\)"),
        (lambda m: m(torch.zeros(1, 0, dtype=torch.int64)), "L >= 1"),
        (lambda m: m(torch.zeros(0, 5, dtype=torch.int64)), "B >= 1"),
        (lambda m: m([[1, 2]]), r"ids must be a tensor \(B, L\), got list"),
        (lambda m: m.step([1], m.initial_state(1)), r"ids must be a tensor .*, got list"),
        (lambda m: m(tokens(), given().numpy()), r"scalars must be a tensor \(2, 60, 7\), got ndarray"),
        (lambda m: m(tokens(), given(), predicted=torch.ones(2, 60)), "torch.bool, got .* of torch.float32"),
        (lambda m: m(torch.zeros(1, 3)), "int64 or int32, got torch.float32"),
        (lambda m: m(tokens(1, 65)), "65 long, max_seq_len is 64"),
        (lambda m: m(tokens(), given(length=59)), r"scalars must be \(2, 60, 7\), got \(2, 59, 7\)"),
        (lambda m: m(tokens(), broken()), r"got nan at \[1, 2, 3\]"),
        (lambda m: m(tokens(), mode="external"), "needs scalars"),
        (lambda m: m(tokens(), predicted=torch.ones(2, 60, dtype=torch.bool)), "predicted needs scalars"),
        (lambda m: m.latent_step(tokens(2, 1)[:, 0], torch.zeros(2, 16), torch.ones(2), m.initial_state(2)),
         r"waiting must be \(2,\) of torch.bool, got \(2,\) of torch.float32"),
        (lambda m: m.latent_step(tokens(2, 1)[:, 0], given()[0, :1], torch.ones(2) > 0, m.initial_state(2)),
         r"hidden must be \(2, \d+\), got \(1, 7\)"),
        (lambda m: m(tokens(), mode="best"), "mode must be"),
        (lambda m: m(tokens(), state=m.initial_state(3)), "state has 3 rows"),
        (lambda m: m(tokens(), given(), predicted=torch.ones(2, 3, dtype=torch.bool)), "predicted must be"),
    ],
)  # fmt: skip
def test_mistakes_are_named(call, words):
    with pytest.raises((ShapeError, OptionError), match=words):
        call(build())


@pytest.mark.parametrize("positions", ["sinusoidal", "trajectory", "rope"])
@torch.no_grad()
def test_a_stream_of_absolute_positions_ends_where_they_do(positions):
    model = build(positions=positions)
    _, state = model(tokens(1, 64), state=model.initial_state(1))
    ends = pytest.raises(ShapeError, match="65 long, max_seq_len is 64")
    with nullcontext() if positions == "rope" else ends:
        model.step(tokens(1, 1)[:, 0], state)


def test_configurations_are_for_their_model():
    with pytest.raises(OptionError, match="vocab >= 1"):
        AnticipatoryTransformer(ModelConfig())
    with pytest.raises(OptionError, match="kinematics must be False"):
        BaselineTransformer(ModelConfig(vocab=10, max_seq_len=10))
    with pytest.raises(OptionError, match="vocab must be 0"):
        MotionTransformer(ModelConfig.small())
    with pytest.raises(OptionError, match="rope needs"):
        AnticipatoryTransformer(ModelConfig.small(positions="rope", d_model=12, heads=4))
    with pytest.raises(OptionError, match="kind must be"):
        build_language_model(ModelConfig.small(), "rnn")
