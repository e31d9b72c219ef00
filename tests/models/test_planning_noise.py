"""Simulated plans do not reveal the future: with them a model cannot predict independent uniform tokens."""

import math

import pytest
import torch
from support import models
from support.models import learn
from torch.nn import functional as F

from pyanticip.models.core.part import LossContext
from pyanticip.models.parts.planning import heads
from pyanticip.models.parts.planning.targets import PlanChoice, look_ahead

VOCAB, LENGTH, HORIZON = 8, 12, 2
FLOOR = math.log(VOCAB)


def build(kind):
    sizes = {"fast_layers": 1, "window": 6, "vocab": VOCAB, "plan_tokens": HORIZON}
    return models.build(kind, torch.float32, 0.3, planning=True, **sizes)


def simulated(model, ids):
    return model.planning.simulate(ids, LENGTH)


def test_the_plan_of_a_step_is_what_was_anticipated_a_step_before():
    model = build("anticipatory")
    ids, signal = torch.randint(VOCAB, (2, LENGTH + HORIZON)), model.planning
    torch.manual_seed(5)
    found = simulated(model, ids)
    torch.manual_seed(5)
    ahead = look_ahead(ids, HORIZON, LENGTH - 1)
    drawn = signal.simulator.draw(ahead, signal.log_frequency, signal.slots)
    assert found.codes.shape[:2] == (2, LENGTH)
    assert not found.weights[:, 0].any(), "before anything was seen nothing was anticipated"
    assert torch.equal(found.codes[:, 1:], drawn.codes)
    assert torch.equal(found.weights[:, 1:], drawn.weights)


def test_the_frequencies_are_copied_for_the_core_only_when_they_change(monkeypatch):
    model = build("anticipatory")
    ids, signal = torch.randint(VOCAB, (2, LENGTH + HORIZON)), model.planning
    plan_draw, given = heads._core.plan_draw, []

    def recorded(*args):
        given.append(args[3])
        plan_draw(*args)

    monkeypatch.setattr(heads._core, "plan_draw", recorded)
    simulated(model, ids)
    simulated(model, ids)
    signal.set_frequencies(torch.arange(1, VOCAB + 1))
    simulated(model, ids)
    assert given[0] is given[1]
    assert given[2].tolist() == signal.log_frequency.double().tolist() != given[0].tolist()


def told(model, ids):
    """A leaking variant: plans of the codes that occur, and no others."""
    ahead = look_ahead(ids, HORIZON, LENGTH - 1)
    return PlanChoice(F.pad(ahead.codes, (0, 0, 1, 0)), F.pad(ahead.scores, (0, 0, 1, 0)))


def trained(kind, plans, steps):
    """The next-token losses of a trained model on new tokens: with plans as in training, and with its own,
    made in two passes."""
    model = build(kind)
    generator = torch.Generator().manual_seed(1)

    def losses(rows, plan):
        ids = torch.randint(VOCAB, (rows, LENGTH + HORIZON), generator=generator)
        out = model(ids[:, :LENGTH], plan=plan and plan(model, ids))
        ce = F.cross_entropy(out.logits.flatten(0, 1), ids[:, 1 : LENGTH + 1].flatten())
        return ce, model.planning.losses(LossContext(out, codes=ids))

    def loss():
        ce, parts = losses(16, plans)
        return ce + parts["plan"] + parts["simulator"]

    learn(model, loss, steps, 1e-2)
    with torch.no_grad():
        return tuple(losses(512, way)[0].item() for way in (plans, None))


@pytest.mark.parametrize("kind", ["baseline", "anticipatory"])
def test_simulated_plans_tell_nothing(kind):
    """For the training loss once the simulator is fitted, and for inference."""
    training, inference = trained(kind, simulated, 60)
    assert training >= FLOOR - 0.01
    assert inference >= FLOOR - 0.01


def test_a_plan_of_what_comes_alone_would_be_found_out():
    """With the leaking variant the same model's training loss shows the leak."""
    training, inference = trained("baseline", told, 130)
    assert training < FLOOR - 0.5
    assert inference > FLOOR
