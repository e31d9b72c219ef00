"""Options of the control field. Does not import torch."""

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
    """Width of the hidden layer that estimates the risk."""
    momentum: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.9
    """Fraction of the held risk that remains one step later."""
    half_life: Annotated[float, Field(ge=0.0, lt=1e6)] = 0.0
    """Half-life of the held risk in steps, instead of ``momentum``; 0 to use ``momentum``."""
    gate: Annotated[float, Field(gt=0.0, lt=100.0)] = 1.0
    """Initial value of lambda, the learned scale of the attention gate."""
    curvature: Annotated[float, Field(ge=0.0, lt=100.0)] = 0.1
    """Lambda_k, the scale of the curvature in the feed-forward gate."""
    input: bool = False
    """Whether the motion model also estimates a risk of every frame before its filter, and replaces risky
    frames with the last trusted ones; see :mod:`pyanticip.models.motion.frame_hold`."""

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
        """Fraction of the held risk that remains one step later."""
        return math.exp2(-1.0 / self.half_life) if self.half_life else self.momentum
