"""Models with planning: plans can be passed in and steered, and streams have the same plans."""

import pytest
import torch
from support import models
from support.models import VOCAB, inputs, said

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models import ModelConfig
from pyanticip.models.core.part import LossContext
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.models.token.generate import generate

MEMBERS = [
    ("anticipatory", {}),
    ("anticipatory", {"plan_refine": 3, "positions": "rope"}),
    ("anticipatory", {"plan_inference": "recurrent", "positions": "alibi"}),
    ("anticipatory", {"slow_stride": 3, "positions": "none", "plan_paper": True, "control_field": True}),
    ("baseline", {}),
    ("anticipatory", {"positions": "prism"}),
    ("baseline", {"plan_inference": "recurrent", "positions": "none"}),
    ("motion", {}),
    ("motion", {"plan_inference": "passes", "plan_refine": 2, "control_field": True}),
]
member = pytest.mark.parametrize(
    ("kind", "changes"), MEMBERS, ids=["-".join([k, *map(str, c.values())]) for k, c in MEMBERS]
)


def build(kind, **changes):
    return models.build(kind, planning=True, **changes)


@torch.no_grad()
def test_ever_more_passes_end_in_the_recurrent_plan():
    """The plan of step n in pass r depends on r steps before it: after as many passes as steps, every plan is
    the stream's own anticipation one step earlier."""
    recurrent = build("baseline", plan_inference="recurrent")
    many = build("baseline", plan_refine=12)
    many.load_state_dict(recurrent.state_dict())
    ids = inputs("baseline", 2, 10)
    one, other = said(recurrent(ids)), said(many(ids))
    for name, value in one.items():
        assert float((value - other[name]).abs().max()) < 1e-10, name


@member
@torch.no_grad()
def test_a_plan_that_is_given_replaces_the_own_one(kind, changes):
    model = build(kind, **changes)
    x = inputs(kind, 2, 9)
    own = model(x)
    again = model(x, plan=own.plan)
    for name, value in said(own).items():
        assert float((value - said(again)[name]).abs().max()) < 1e-10, name
    other = PlanChoice((own.plan.codes + 3) % model.planning.vocab, own.plan.weights)
    changed = model(x, plan=other)
    assert torch.equal(changed.plan.codes, other.codes)
    assert float((changed.hidden - own.hidden)[:, 1:].abs().max()) > 1e-4
    # In a stream too, which continues with its own plans.
    state = model.initial_state(2)
    for t in range(9):
        out, state = model(
            x[:, t : t + 1],
            state=state,
            plan=PlanChoice(other.codes[:, t : t + 1], other.weights[:, t : t + 1]),
        )
        assert float((out.hidden - changed.hidden[:, t : t + 1]).abs().max()) < 1e-10
    out, state = model(x[:, :1], state=state)
    assert float(out.plan.weights.sum()) > 0


@member
@torch.no_grad()
def test_wishes_enter_the_plan(kind, changes):
    model = build(kind, **changes)
    x = inputs(kind, 2, 8)
    boost = torch.zeros(model.planning.vocab, dtype=torch.float64)
    boost[3], boost[4] = 50.0, -torch.inf
    out = model(x, boost=boost)
    assert bool((out.plan.codes[:, 1:, 0] == 3).all())
    assert not bool(((out.plan.codes == 4) & (out.plan.weights > 0)).any())
    state = model.initial_state(2)
    for t in range(8):
        step, state = model(x[:, t : t + 1], state=state, boost=boost)
        assert float((step.hidden - out.hidden[:, t : t + 1]).abs().max()) < 1e-10
    # Rows can have different boosts, in every accepted shape.
    each = torch.stack((boost, boost.roll(2)))
    out = model(x, boost=each[:, None])
    assert bool((out.plan.codes[:, 1:, 0] == torch.tensor([[3], [5]])).all())
    state, again = model.initial_state(2), model.initial_state(2)
    for t in range(8):
        step, state = model.step(x[:, t], state, boost=each)
        other, again = model.step(x[:, t], again, boost=each[:, None])
        assert torch.equal(step.hidden, other.hidden)
        assert float((step.hidden - out.hidden[:, t : t + 1]).abs().max()) < 1e-10
    for same in (boost[None], boost[None, None]):
        assert torch.equal(model(x, boost=same).hidden, model(x, boost=boost).hidden)


@torch.no_grad()
def test_a_latent_step_has_no_code_for_a_plan():
    model = build("anticipatory")
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
    """Token by token, with a plan per step: the same log-probabilities as for the whole text."""
    model = build("anticipatory", plan_inference=inference)
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
    model = build("baseline")
    ids = inputs("baseline", 2, 6)
    codes, weights = torch.zeros(2, 6, 3, dtype=torch.int64), torch.rand(2, 6, 3, dtype=torch.float64)
    with pytest.raises(ShapeError, match="plan codes must be"):
        model(ids, plan=PlanChoice(codes[:, :4], weights[:, :4]))
    with pytest.raises(ShapeError, match=r"plan codes must be torch.int64, got torch.int32"):
        model(ids, plan=PlanChoice(codes.int(), weights))
    with pytest.raises(ShapeError, match=r"K >= 1, the same for both, got \(2, 6, 0\)"):
        model(ids, plan=PlanChoice(codes[..., :0], weights[..., :0]))
    with pytest.raises(ShapeError, match=r"plan codes must be 0 to 11, got 30 to 30"):
        model(ids, plan=PlanChoice(codes + 30, weights))
    for least in (-1.0, torch.nan, torch.inf):
        with pytest.raises(ShapeError, match="plan weights must be finite and 0 or more"):
            model(ids, plan=PlanChoice(codes, weights.index_fill(2, torch.tensor([1]), least)))
    for shape in ((7,), (), (1, 7), (2, 12), (3, 1, 12), (2, 6, 12), (1, 1, 1, 12)):
        with pytest.raises(ShapeError, match=r"boost must be \(12,\) or \(2, 1, 12\), got "):
            model(ids, boost=torch.zeros(shape))
    with pytest.raises(ShapeError, match=r"boost must be a tensor \(12,\) or \(2, 1, 12\), got list"):
        model.step(ids[:, 0], model.initial_state(2), boost=[0.0] * 12)
    for wish in (torch.nan, torch.inf):
        with pytest.raises(ShapeError, match="boost must be finite, or -inf"):
            model(ids, boost=torch.full((VOCAB,), wish))
    with pytest.raises(ShapeError, match="counts must be 12 numbers"):
        model.planning.set_frequencies(torch.zeros(VOCAB))
    plain = models.build("baseline")
    with pytest.raises(OptionError, match="need a model with planning=True"):
        plain(ids, boost=torch.zeros(VOCAB))
    assert isinstance(model.initial_state(2), State)


@pytest.mark.parametrize("kind", ["anticipatory", "motion"])
def test_mixed_precision_trains_with_simulated_plans(kind):
    model = build(kind).float().train()
    x = inputs(kind, 2, 20)
    codes = x if kind == "anticipatory" else torch.randint(model.planning.vocab, (2, 20))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        plan = model.planning.simulate(codes, 18)
        out = model(x[:, :18] if kind == "anticipatory" else x[:, :18].float(), plan=plan)
        found = model.planning.losses(LossContext(out, codes=codes))
    assert plan.weights.dtype == torch.float32
    loss = found["plan"] + found["simulator"]
    loss.backward()
    assert bool(loss.isfinite())
    assert all(bool(p.grad.isfinite().all()) for p in model.planning.simulator.parameters())
