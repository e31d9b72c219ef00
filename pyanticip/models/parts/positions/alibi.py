"""A linear bias against far keys (ALiBi, Press et al. 2022)."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyanticip.models.core.part import Positions
from pyanticip.models.core.steering import Steering

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


class Alibi(Positions):
    """Every head has a slope of its own."""

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
