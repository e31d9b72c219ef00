"""Position schemes that depend only on the step's number: sinusoids, rotary angles, a linear bias."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.core.part import Positions
from pyanticip.models.core.steering import Steering
from pyanticip.models.core.streaming import State

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


class Alibi(Positions):
    """A linear bias against distant keys (ALiBi, Press et al. 2022) with one slope per head."""

    slopes: Tensor

    def __init__(self, model: "ModelConfig") -> None:
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(model.heads), persistent=False)

    def steer(self, steering: Steering, stride: int) -> Steering:
        """See :class:`~pyanticip.models.core.part.Positions`."""
        return replace(steering, slopes=self.slopes * stride)


def alibi_slopes(heads: int) -> Tensor:
    """Slopes (H,) of the linear bias, steepest first (Press et al. 2022).

    ``2^(-8 k / H)`` for a power of two; otherwise those of the power of two below, then every second one of
    the power above.
    """
    below = 2 ** int(math.log2(heads))
    slopes = [2.0 ** (-8.0 * k / below) for k in range(1, below + 1)]
    between = [2.0 ** (-4.0 * k / below) for k in range(1, 2 * below, 2)]
    return torch.tensor((slopes + between)[:heads])


class Rope(Positions):
    """Rotary positions (Su et al. 2024): queries and keys are rotated by the step's number.

    Rings store keys unrotated; they are rotated by age when read.

    Raises:
        OptionError: the width of a head is odd.
    """

    def __init__(self, model: "ModelConfig") -> None:
        super().__init__()
        if model.d_model // model.heads % 2:
            raise OptionError(f"rope needs d_model / heads to be even, got {model.d_model} / {model.heads}")

    def steer(self, steering: Steering, stride: int) -> Steering:
        """See :class:`~pyanticip.models.core.part.Positions`."""
        return replace(steering, rotary=float(stride))


class Sinusoidal(Positions):
    """Sinusoidal encodings of the step's number, added to the embedding (Vaswani et al. 2017).

    From a table as long as a token model's longest sequence; computed for unbounded streams."""

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
        encoded = self.table[steps] if len(self.table) else sinusoids(steps, x.shape[2])
        return encoded.to(x.dtype).expand_as(x), ()
