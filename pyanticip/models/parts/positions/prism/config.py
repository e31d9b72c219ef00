"""Options of PRISM positions. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.core.config import Count, PositionConfig, Positive

EPS = 1e-8
"""Added to histograms before sharpening raises them to a power."""

MOVES = 5
"""Number of move weights per step: inc, dec, keep, to0, to1."""


class PrismConfig(PositionConfig):
    """Options of :class:`~pyanticip.models.parts.positions.prism.module.PrismPositions`."""

    kind: str = "prism"
    cursors: Count = 8
    """Query cursors, and as many key cursors; all layers and heads share them."""
    width: Annotated[int, Field(ge=2, le=65_536, multiple_of=2)] = 32
    """Length of the position vector of one cursor."""
    places: Annotated[int, Field(ge=3, le=1_048_576)] = 256
    """Places that a cursor can be at; it stays at the last one instead of moving further."""
    hidden: Count = 100
    """Width of the recurrent network that controls the cursors' moves."""
    sharpen: bool = True
    """Whether histograms are raised to a learned power above 1 after every step."""
    copying: bool = Field(default=False, alias="copy")
    """Whether one query cursor in five can jump to the place of an earlier key; the key cursors paired with
    those only count steps."""
    copy_width: Count = 32
    """Width of the attention that selects the jump's target."""
    absolute: bool = False
    """Whether an encoding of the step's number is added as one more cursor."""
    norm: Literal["row", "fixed"] = "row"
    """How the vectors of a step are normalised: ``"row"`` each to the same length, ``"fixed"`` by the
    constant that does so when every cursor is at a single place."""
    orthogonal: Literal["exact", "penalty", "none"] = "exact"
    """Recurrence of each gate: ``"exact"`` stays orthogonal, ``"penalty"`` starts orthogonal and is kept near
    it by a penalty in the loss, ``"none"`` neither."""
    reset: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """Initial probability of a reset."""
    spread: Annotated[float, Field(ge=0.0, lt=100.0)] = 0.0
    """Standard deviation of the cursors' initial gate biases, in logits."""
    alpha: Positive = 1.0
    """Initial mean of the cursors' weights in attention; they are spread from half to one and a half times
    that."""
    base: Annotated[float, Field(gt=1.0, lt=1e12)] = 10_000.0
    """Longest wavelength of the sinusoids over two pi."""
    again: Annotated[int, Field(ge=0, le=256)] = 0
    """Layer of a plain transformer, counted from 1, before which new positions are computed from the hidden
    states there; 0 for none."""

    @model_validator(mode="after")
    def _check(self) -> "PrismConfig":
        if not self.copying and self.copy_width != 32:
            raise OptionError(f"positions option copy_width={self.copy_width} does nothing with copy=False")
        return self
