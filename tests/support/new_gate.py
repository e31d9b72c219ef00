"""A part of somebody else's: a gate that trusts steps less the further they jump."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pyanticip.models.core.config import PartConfig
from pyanticip.models.core.part import Gate, Gating
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.registry import Entry


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


ENTRY = Entry(Surprise, SurpriseConfig)
"""Its line of the registry."""
