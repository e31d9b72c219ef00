"""Options of the planning signal. Does not import torch."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.core.config import PartConfig

CODES = 512
"""Default size of the codebook of motion frames."""


class PlanConfig(PartConfig):
    """Options of :class:`~pyanticip.models.parts.planning.signal.PlanningSignal`."""

    owner: ClassVar[str] = "planning"
    kind: str = "signal"
    tokens: Annotated[int, Field(ge=1, le=4096)] = 50
    """Steps ahead that the anticipator predicts, and the maximum number of codes of a plan."""
    codes: Annotated[int, Field(ge=2, le=65_536)] = CODES
    """Size of the codebook of motion frames; token models plan with their tokens."""
    inference: Literal["recurrent", "passes"] = "recurrent"
    """Where plans come from at inference: ``"recurrent"`` from the same stream's anticipation one step
    before; ``"passes"`` from an earlier pass (:mod:`pyanticip.models.parts.planning.passes`)."""
    refine: Annotated[int, Field(ge=1, le=16)] = 1
    """How often anticipations are fed back, with ``"passes"``."""
    paper: bool = False
    """Whether plan attention is exactly the paper's: scores over d, weights after the softmax."""
    floor: Annotated[float, Field(gt=0.0, lt=1.0)] = 1e-5
    """Minimum frequency of a code when plans are selected; rarer codes count as this frequent."""
    hidden: Annotated[int, Field(ge=1, le=4096)] = 32
    """Width of the hidden layer of the simulator."""

    @model_validator(mode="after")
    def _check(self) -> "PlanConfig":
        if self.refine > 1 and self.inference == "recurrent":
            raise OptionError(
                f"planning option refine={self.refine} needs inference='passes': recurrent plans go back at "
                "every step already"
            )
        return self
