"""Sinusoidal encodings of the step's number, added to the embedding (Vaswani et al. 2017)."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.core.part import Positions
from pyanticip.models.core.streaming import State

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


class Sinusoidal(Positions):
    """From a table as long as a token model's longest sequence; computed where streams are endless."""

    table: Tensor
    absolute = True

    def __init__(self, model: "ModelConfig") -> None:
        super().__init__()
        table = sinusoids(torch.arange(model.max_seq_len), model.d_model).float()
        self.register_buffer("table", table, persistent=False)

    def embed(
        self, x: Tensor, frames: Tensor | None, state: State | None
    ) -> tuple[Tensor, State | tuple[()]]:
        """See :class:`~pyanticip.models.core.part.Positions`."""
        steps = torch.arange(x.shape[1], device=x.device)
        steps = steps if frames is None else frames[:, None] + steps
        encoded = self.table[steps] if len(self.table) else sinusoids(steps, x.shape[2]).to(x.dtype)
        return encoded.expand_as(x), ()
