"""Options of the planning signal. No torch."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.core.config import PartConfig

CODES = 512


class PlanConfig(PartConfig):
    """Options of :class:`~pyanticip.models.parts.planning.signal.PlanningSignal`."""

    owner: ClassVar[str] = "planning"
    kind: str = "signal"
    tokens: Annotated[int, Field(ge=1, le=4096)] = 50
    """How many steps ahead the anticipator looks, and how many codes a plan names at most."""
    codes: Annotated[int, Field(ge=2, le=65_536)] = CODES
    """Size of the codebook of motion frames; token models plan with their tokens."""
    inference: Literal["recurrent", "passes"] = "recurrent"
    """Where plans come from when the model runs: ``"recurrent"`` what the same stream anticipated one step
    before; ``"passes"`` what a pass before this one did (:mod:`pyanticip.models.parts.planning.passes`)."""
    refine: Annotated[int, Field(ge=1, le=16)] = 1
    """How often anticipations are passed back, with ``"passes"``."""
    paper: bool = False
    """Plan attention to the paper's letter: scores over d, weights after the softmax."""
    floor: Annotated[float, Field(gt=0.0, lt=1.0)] = 1e-5
    """Codes rarer than this count as this frequent when plans are selected."""
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
