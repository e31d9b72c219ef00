"""Models that plan: streams say what sequences say, nothing looks ahead, plans can be given and steered."""

import dataclasses

import pytest
import torch

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models import AnticipatoryTransformer, BaselineTransformer, ModelConfig, MotionTransformer
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.models.token.generate import generate

VOCAB = 24
SIZES = {"d_model": 16, "heads": 4, "fast_layers": 2, "slow_layers": 1, "ff": 24, "window": 8}
TOKENS = {**SIZES, "vocab": VOCAB, "max_seq_len": 40, "dropout": 0.0, "planning": True, "plan_tokens": 5}
MOTION = {"taps": 6, "pools": 4, "slow_stride": 3, "control_hidden": 8, "kinematics": False, "plan_codes": 20}

MEMBERS = [
    ("anticipatory", {}),
    ("anticipatory", {"plan_refine": 3, "positions": "rope"}),
    ("anticipatory", {"plan_inference": "recurrent", "positions": "alibi"}),
    ("anticipatory", {"slow_stride": 3, "positions": "none", "plan_paper": True, "control_field": True}),
    ("baseline", {}),
    ("anticipatory", {"positions": "trajectory"}),
    ("anticipatory", {"positions": "prism"}),
    ("baseline", {"plan_inference": "recurrent", "positions": "none"}),
    ("motion", {}),
    ("motion", {"plan_inference": "passes", "positions": "sinusoidal"}),
    ("motion", {"plan_inference": "passes", "plan_refine": 2, "control_field": True}),
]
member = pytest.mark.parametrize(
    ("kind", "changes"), MEMBERS, ids=["-".join([k, *map(str, c.values())]) for k, c in MEMBERS]
)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def build(kind, changes, dtype=torch.float64, noise=0.2):
    torch.manual_seed(0)
    if kind == "motion":
        cfg = ModelConfig(
            **{**SIZES, **MOTION, "planning": True, "plan_tokens": 5, "dropout": 0.0, **changes}
        )
        model = MotionTransformer(cfg)
        model.codebook.fit(torch.randn(200, 231), rounds=3)
    else:
        cfg = ModelConfig.small(**{**TOKENS, **changes})
        model = AnticipatoryTransformer(cfg) if kind == "anticipatory" else BaselineTransformer(cfg)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
        model.planning.set_frequencies(torch.rand(model.planning.vocab))
    return model.to(dtype).eval()


def inputs(kind, rows, length, dtype=torch.float64):
    if kind == "motion":
        return torch.randn(rows, length, 231, dtype=dtype)
    return torch.randint(VOCAB, (rows, length))


def said(out):
    found = {}
    for field in dataclasses.fields(out):
        value = getattr(out, field.name)
        if isinstance(value, PlanChoice):
            found["weights"] = value.weights
            # SingleStep without weight may hold any code.
            found["codes"] = torch.where(value.weights > 0, value.codes, -1)
        elif isinstance(value, torch.Tensor) and field.name != "head":
            found[field.name] = value
    return found


def run(model, kind, x, state=None, **rest):
    return model(x, state=state, **rest) if kind != "motion" else model(x, state, **rest)


@member
@torch.no_grad()
def test_a_stream_says_what_the_sequence_says(kind, changes):
    model = build(kind, changes)
    x = inputs(kind, 3, 30)
    whole = said(run(model, kind, x))
    assert set(whole) >= {"anticipation", "codes", "weights"}
    assert float(whole["weights"].max()) > 0
    for cuts in ([1] * 30, [7, 1, 12, 10]):
        state = model.initial_state(3)
        assert all(float(t.double().abs().sum()) == 0 for t in state.tensors())
        parts, at = [], 0
        for length in cuts:
            out, state = run(model, kind, x[:, at : at + length], state)
            parts.append(said(out))
            at += length
        for name, value in whole.items():
            stream = torch.cat([p[name] for p in parts], 1)
            assert float((stream - value).abs().max()) < 1e-10, (name, cuts)


@member
@torch.no_grad()
def test_rows_start_again_by_themselves_and_snapshots_come_back(kind, changes):
    model = build(kind, changes)
    x = inputs(kind, 2, 24)
    state = model.initial_state(2)
    for t in range(11):
        _, state = run(model, kind, x[:, t : t + 1], state)
    state.reset(torch.tensor([False, True]))
    kept = state.clone()
    after = []
    for t in range(11, 24):
        out, state = run(model, kind, x[:, t : t + 1], state)
        after.append(said(out))
    whole, fresh = said(run(model, kind, x)), said(run(model, kind, x[1:, 11:]))
    for name in whole:
        stream = torch.cat([part[name] for part in after], 1)
        assert float((stream[0] - whole[name][0, 11:]).abs().max()) < 1e-10, name
        assert float((stream[1] - fresh[name][0]).abs().max()) < 1e-10, name
    state.restore(kept)
    out, _ = run(model, kind, x[:, 11:12], state)
    for name, value in said(out).items():
        assert torch.equal(value, after[0][name]), name


@member
def test_gradient_of_the_past_by_the_future_is_exactly_zero(kind, changes):
    model = build(kind, changes)
    x = inputs(kind, 1, 14)
    if kind == "motion":
        x.requires_grad_()
        out, leaf = model(x), x
    else:
        caught = []
        hook = model.token.register_forward_hook(lambda *a: caught.append(a[2]) if a[2].ndim == 3 else None)
        out = model(x)
        hook.remove()
        leaf = caught[0]
    for t in (0, 5, 12):
        total = sum(v[:, t].sum() for n, v in said(out).items() if v.is_floating_point() and n != "weights")
        (gradient,) = torch.autograd.grad(total, leaf, retain_graph=True)
        assert torch.count_nonzero(gradient[:, t + 1 :]) == 0
        assert torch.count_nonzero(gradient[:, t]) > 0


@member
@torch.no_grad()
def test_other_input_in_the_future_leaves_the_past_bit_identical(kind, changes):
    model = build(kind, changes, torch.float32)
    x = inputs(kind, 2, 20, torch.float32)
    before = said(run(model, kind, x))
    for t in (1, 8, 19):
        other = x.clone()
        other[:, t:] = inputs(kind, 2, 20 - t, torch.float32)
        after = said(run(model, kind, other))
        for name, value in after.items():
            assert torch.equal(before[name][:, :t], value[:, :t]), name
        assert not torch.equal(before["anticipation"][:, t:], after["anticipation"][:, t:])


@torch.no_grad()
def test_ever_more_passes_end_in_the_recurrent_plan():
    """The plan of step n from pass r depends on r steps before it: after as many passes as steps, every plan
    is what the stream itself said one step earlier."""
    recurrent = build("baseline", {"plan_inference": "recurrent"})
    many = build("baseline", {"plan_refine": 12})
    many.load_state_dict(recurrent.state_dict())
    ids = inputs("baseline", 2, 10)
    one, other = said(recurrent(ids)), said(many(ids))
    for name, value in one.items():
        assert float((value - other[name]).abs().max()) < 1e-10, name


@member
@torch.no_grad()
def test_a_plan_that_is_given_replaces_the_own_one(kind, changes):
    model = build(kind, changes)
    x = inputs(kind, 2, 9)
    own = run(model, kind, x)
    again = run(model, kind, x, plan=own.plan)
    for name, value in said(own).items():
        assert float((value - said(again)[name]).abs().max()) < 1e-10, name
    other = PlanChoice((own.plan.codes + 3) % model.planning.vocab, own.plan.weights)
    changed = run(model, kind, x, plan=other)
    assert torch.equal(changed.plan.codes, other.codes)
    assert float((changed.hidden - own.hidden)[:, 1:].abs().max()) > 1e-4
    # In a stream as well, and the stream goes on with plans of its own.
    state = model.initial_state(2)
    for t in range(9):
        out, state = run(
            model,
            kind,
            x[:, t : t + 1],
            state,
            plan=PlanChoice(other.codes[:, t : t + 1], other.weights[:, t : t + 1]),
        )
        assert float((out.hidden - changed.hidden[:, t : t + 1]).abs().max()) < 1e-10
    out, state = run(model, kind, x[:, :1], state)
    assert float(out.plan.weights.sum()) > 0


@member
@torch.no_grad()
def test_wishes_enter_the_plan(kind, changes):
    model = build(kind, changes)
    x = inputs(kind, 2, 8)
    boost = torch.zeros(model.planning.vocab, dtype=torch.float64)
    boost[3], boost[4] = 50.0, -torch.inf
    out = run(model, kind, x, boost=boost)
    assert bool((out.plan.codes[:, 1:, 0] == 3).all())
    assert not bool(((out.plan.codes == 4) & (out.plan.weights > 0)).any())
    state = model.initial_state(2)
    for t in range(8):
        step, state = run(model, kind, x[:, t : t + 1], state, boost=boost)
        assert float((step.hidden - out.hidden[:, t : t + 1]).abs().max()) < 1e-10


@torch.no_grad()
def test_a_latent_step_has_no_code_for_a_plan():
    model = build("anticipatory", {})
    ids = inputs("anticipatory", 2, 6)
    state = model.initial_state(2)
    out, state = model(ids, state=state)
    waiting = torch.tensor([True, False])
    token = torch.randint(VOCAB, (2,))
    kept = state.clone()
    mixed, _ = model.latent_step(token, out.hidden[:, -1], waiting, state)
    plain, _ = model.step(token, kept.clone())
    other, _ = model.latent_step((token + 1) % VOCAB, out.hidden[:, -1], waiting, kept)
    assert float((mixed.logits[1] - plain.logits[1]).abs().max()) < 1e-10
    assert torch.equal(mixed.logits[0], other.logits[0])
    assert torch.equal(mixed.plan.codes[0], other.plan.codes[0])


@torch.no_grad()
@pytest.mark.parametrize("inference", ["passes", "recurrent"])
def test_generation_says_what_the_sequence_would(inference):
    """Token by token, each step with a plan of its own: the same log-probabilities as the finished text."""
    model = build("anticipatory", {"plan_inference": inference})
    found = generate(model, inputs("anticipatory", 2, 4), tokens=8, gated=False)
    shares = model(found.ids[:, :-1]).logits.log_softmax(-1)[:, 3:]
    taken = shares.gather(-1, found.ids[:, 4:, None])[..., 0]
    assert float((taken - found.log_probs).abs().max()) < 1e-6
    waited = generate(model, inputs("anticipatory", 2, 4), tokens=4, theta=0.99, max_buffer=3)
    assert int(waited.waits.sum()) > 0


def test_configurations_without_meaning_are_refused():
    with pytest.raises(OptionError, match="refine=2 needs inference='passes'"):
        ModelConfig(planning=True, plan_refine=2)
    with pytest.raises(OptionError, match="plan_codes=99 does nothing in a token model"):
        ModelConfig.small(planning=True, plan_codes=99)
    with pytest.raises(OptionError, match="tokens must be"):
        ModelConfig(planning=True, plan_tokens=0)
    with pytest.raises(OptionError, match="floor must be"):
        ModelConfig(planning=True, plan_floor=0.0)
    assert ModelConfig.small(planning=True).planning.inference == "passes"
    assert ModelConfig.small() == ModelConfig.small(planning=False)


def test_plans_that_do_not_fit_are_refused():
    model = build("baseline", {})
    ids = inputs("baseline", 2, 6)
    codes, weights = torch.zeros(2, 6, 3, dtype=torch.int64), torch.rand(2, 6, 3, dtype=torch.float64)
    with pytest.raises(ShapeError, match="plan codes must be"):
        model(ids, plan=PlanChoice(codes[:, :4], weights[:, :4]))
    with pytest.raises(ShapeError, match=r"plan codes must be 0 to 23, got 30 to 30"):
        model(ids, plan=PlanChoice(codes + 30, weights))
    with pytest.raises(ShapeError, match="boost must end in 24"):
        model(ids, boost=torch.zeros(7))
    with pytest.raises(ShapeError, match="counts must be 24 numbers"):
        model.planning.set_frequencies(torch.zeros(VOCAB))
    plain = BaselineTransformer(ModelConfig.small(**{**TOKENS, "planning": False, "plan_tokens": 50}))
    with pytest.raises(OptionError, match="need a model with planning=True"):
        plain(ids, boost=torch.zeros(VOCAB))
    assert isinstance(model.initial_state(2), State)
