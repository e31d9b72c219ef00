"""Third-party model parts: a position scheme that adds a leaky sum of the past, and a gate whose trust falls
with the size of a step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pyanticip.models.core.config import PartConfig, PositionConfig
from pyanticip.models.core.part import Gate, Gating, Positions
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.registry import Entry


class LeakyConfig(PositionConfig):
    kind: str = "leaky"
    leak: float = 0.9


@dataclass
class LeakyState(State):
    held: Tensor


class Leaky(Positions):
    """Adds a learned projection of the leaky sum of the past."""

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


LEAKY = Entry(Leaky, LeakyConfig)
"""Its line of the registry."""


class SurpriseConfig(PartConfig):
    kind: str = "surprise"
    sharpness: float = 1.0


@dataclass
class SurpriseState(State):
    last: Tensor


@dataclass(frozen=True)
class Surprised(Gating):
    far: Tensor


class Surprise(Gate):
    def __init__(self, model):
        super().__init__()
        self.sharpness = torch.nn.Parameter(torch.tensor(model.control_field.sharpness))
        self.width = model.d_model

    def initial_state(self, batch):
        return SurpriseState(self.sharpness.new_zeros(batch, self.width))

    def forward(self, x, state=None, new=None):
        first = torch.zeros_like(x[:, 0]) if state is None else state.last
        steps = torch.cat((first[:, None], x), 1)
        far = self.sharpness.abs() * steps.diff(dim=1).square().mean(-1)
        after = None
        if state is not None:
            count = torch.full((len(x),), x.shape[1]) if new is None else new
            after = SurpriseState(steps[torch.arange(len(x)), count])
        return Surprised(-far, 1.0 / (1.0 + far), far), after

    def losses(self, context):
        return {"surprise": torch.stack([each.far.mean() for each in context.out.field.fast]).mean()}


SURPRISE = Entry(Surprise, SurpriseConfig)
"""Its line of the registry."""
