"""Options of the control field. No torch."""

import math
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.core.config import Count, PartConfig


class FieldConfig(PartConfig):
    """Options of :class:`~pyanticip.models.parts.field.control_field.ControlField`."""

    owner: ClassVar[str] = "control_field"
    kind: str = "field"
    width: Count = 8
    """Width of the fibre."""
    hidden: Count = 16
    """Width of the hidden layer that reads the risk."""
    momentum: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.9
    """How much of the held risk is left one step later."""
    half_life: Annotated[float, Field(ge=0.0, lt=1e6)] = 0.0
    """Steps after which half of the held risk is left, in place of ``momentum``; 0 for the latter."""
    gate: Annotated[float, Field(gt=0.0, lt=100.0)] = 1.0
    """Where lambda starts, the learned scale of the attention gate."""
    curvature: Annotated[float, Field(ge=0.0, lt=100.0)] = 0.1
    """Lambda_k, the scale of the curvature in the feed-forward gate."""
    input: bool = False
    """Whether the motion model also reads a risk off every frame before its filter, and goes on with the last
    trusted frames in place of risky ones; see :mod:`pyanticip.models.motion.frame_hold`."""

    @model_validator(mode="after")
    def _check(self) -> "FieldConfig":
        if self.half_life and self.momentum != 0.9:
            raise OptionError(
                "control_field options half_life and momentum say the same thing twice: give one, got "
                f"{self.half_life!r} and {self.momentum!r}"
            )
        if 0.0 < self.half_life < 0.01:
            raise OptionError(
                f"control_field option half_life must be at least 0.01 steps, got {self.half_life!r}"
            )
        return self

    @property
    def decay(self) -> float:
        """How much of the held risk is left one step later."""
        return math.exp2(-1.0 / self.half_life) if self.half_life else self.momentum
