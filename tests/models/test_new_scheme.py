"""A position scheme of somebody else's: one class and one line of the registry, and no other change."""

from dataclasses import dataclass

import pytest
import torch
from support import models
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig
from pyanticip.models.core.part import Positions
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.positions.config import PositionConfig
from pyanticip.models.parts.positions.registry import SCHEMES, Scheme

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
    monkeypatch.setitem(SCHEMES, "leaky", Scheme(Leaky, LeakyConfig))


def build(kind):
    return models.build(kind, noise=0.0, positions={"kind": "leaky", "leak": 0.7}, slow_stride=3)


@pytest.mark.parametrize("kind", models.KINDS)
@torch.no_grad()
def test_models_run_with_it_stream_with_it_and_do_not_look_ahead(kind):
    model, x = build(kind), models.inputs(kind, 2, LENGTH)
    whole = model(x).hidden
    assert ModelConfig.from_dict(model.cfg.to_dict()) == model.cfg
    assert torch.equal(next(m for m in model.modules() if isinstance(m, Leaky)).view.weight, torch.eye(16))
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
    # The scheme matters: without what was, the last steps say something else.
    still = build(kind)
    next(m for m in still.modules() if isinstance(m, Leaky)).leak = 0.0
    assert not torch.allclose(still(x).hidden[:, 1:], whole[:, 1:])


def test_its_options_are_checked_like_those_of_any_other():
    with pytest.raises(OptionError, match=r"unknown positions option 'leek'; did you mean leak\?"):
        ModelConfig(positions={"kind": "leaky", "leek": 0.5})
    with pytest.raises(OptionError, match="none, sinusoidal, rope, alibi, trajectory, prism, leaky, got 'x'"):
        ModelConfig(positions="x")
