"""Parts of somebody else's, a position scheme and a gate: one class and one line of the registry each."""

from dataclasses import dataclass

import pytest
import torch
from support import models, new_gate
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig
from pyanticip.models.core.config import PositionConfig
from pyanticip.models.core.part import Positions
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.registry import PARTS, Entry
from training.tasks.token.module import forward_losses
from training.tasks.token.options import LanguageOptions

LENGTH = 21


class LeakyConfig(PositionConfig):
    kind: str = "leaky"
    leak: float = 0.9


@dataclass
class LeakyState(State):
    held: Tensor


class Leaky(Positions):
    """Adds a learned view of the leaky sum of all that was."""

    def __init__(self, model):
        super().__init__()
        self.leak = model.positions.leak
        self.view = torch.nn.Linear(model.d_model, model.d_model)

    def reset_parameters(self):
        torch.nn.init.eye_(self.view.weight)

    def embed_state(self, batch, like):
        return LeakyState(like.new_zeros(batch, like.shape[-1]))

    def embed(self, x, frames, state):
        held, seen = x.new_zeros(x.shape[0], x.shape[2]) if state is None else state.held, []
        for step in x.unbind(1):
            held = self.leak * held + step
            seen.append(held)
        return self.view(torch.stack(seen, 1)), () if state is None else LeakyState(held)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(PARTS["positions"], "leaky", Entry(Leaky, LeakyConfig))
    monkeypatch.setitem(PARTS["control_field"], "surprise", new_gate.ENTRY)


NEW = {
    Leaky: {"positions": {"kind": "leaky", "leak": 0.7}},
    new_gate.Surprise: {"control_field": {"kind": "surprise", "sharpness": 2.0}},
}


@pytest.mark.parametrize("kind", models.KINDS)
@pytest.mark.parametrize("part", NEW)
@torch.no_grad()
def test_models_run_with_it_stream_with_it_and_do_not_look_ahead(kind, part):
    def build():
        return models.build(kind, noise=0.0, slow_stride=3, **NEW[part])

    model, x = build(), models.inputs(kind, 2, LENGTH)
    whole = model(x).hidden
    assert ModelConfig.from_dict(model.cfg.to_dict()) == model.cfg
    assert any(isinstance(each, part) for each in model.parts())
    state, seen = model.initial_state(2), []
    for size in (5, *([1] * (LENGTH - 5))):
        at = sum(s.shape[1] for s in seen)
        out, state = model(x[:, at : at + size], state=state)
        seen.append(out.hidden)
    torch.testing.assert_close(torch.cat(seen, 1), whole, rtol=0, atol=1e-10)
    other = x.clone()
    other[:, 10:] = models.inputs(kind, 2, LENGTH)[:, 10:]
    assert torch.equal(model(other).hidden[:, :10], whole[:, :10])
    assert not torch.equal(model(other).hidden[:, 10:], whole[:, 10:])
    # The part matters: without what was, the last steps say something else.
    still = build()
    for each in still.modules():
        if isinstance(each, Leaky):
            each.leak = 0.0
        elif isinstance(each, new_gate.Surprise):
            each.sharpness.zero_()
    assert not torch.allclose(still(x).hidden[:, 1:], whole[:, 1:])


@torch.no_grad()
def test_parts_begin_at_their_own_start_and_are_shown_live():
    model = models.build("motion", noise=0.0, **NEW[Leaky], **NEW[new_gate.Surprise])
    assert torch.equal(model.trunk.positions.view.weight, torch.eye(16))
    assert model(models.inputs("motion", 2, LENGTH)).field.live().shape == (2, LENGTH, 2, 2)


@pytest.mark.parametrize("kind", ["anticipatory", "baseline"])
def test_what_it_is_trained_to_do_is_minimised(kind):
    model, ids = models.build(kind, dtype=torch.float32, **NEW[new_gate.Surprise]), models.inputs(kind, 2, 12)
    gate, seen = model.parts()[0], []
    usual = gate.losses
    gate.losses = lambda lesson: seen.append(usual(lesson)) or seen[0]
    found = forward_losses(model, ids, LanguageOptions(kind=kind))
    gate.losses = lambda lesson: {}
    rest = forward_losses(model, ids, LanguageOptions(kind=kind))
    torch.testing.assert_close(found.total, rest.total + seen[0]["surprise"])
    assert found.total > rest.total
    assert found.paper == rest.paper


def test_its_options_are_checked_like_those_of_any_other():
    with pytest.raises(OptionError, match=r"unknown positions option 'leek'; did you mean leak\?"):
        ModelConfig(positions={"kind": "leaky", "leek": 0.5})
    with pytest.raises(OptionError, match="none, sinusoidal, rope, alibi, trajectory, prism, leaky, got 'x'"):
        ModelConfig(positions="x")
    with pytest.raises(OptionError, match="control_field must be one of none, field, surprise, got 'x'"):
        ModelConfig(control_field="x")
