"""Rotary positions (Su et al. 2024): queries and keys turn with the step's number."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pyanticip.errors import OptionError
from pyanticip.models.core.part import Positions
from pyanticip.models.core.steering import Steering

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


class Rope(Positions):
    """Rings keep raw keys and turn them by age.

    :raises OptionError: heads of an odd width.
    """

    def __init__(self, model: "ModelConfig") -> None:
        super().__init__()
        if model.d_model // model.heads % 2:
            raise OptionError(f"rope needs d_model / heads to be even, got {model.d_model} / {model.heads}")

    def steer(self, steering: Steering, stride: int) -> Steering:
        """See :class:`~pyanticip.models.core.part.Positions`."""
        return replace(steering, rotary=float(stride))
