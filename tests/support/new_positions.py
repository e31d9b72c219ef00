"""A part of somebody else's: a position scheme that adds what was, fading."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pyanticip.models.core.config import PositionConfig
from pyanticip.models.core.part import Positions
from pyanticip.models.core.streaming import State
from pyanticip.models.parts.registry import Entry


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


ENTRY = Entry(Leaky, LeakyConfig)
"""Its line of the registry."""
