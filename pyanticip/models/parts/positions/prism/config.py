"""Options of PRISM positions. No torch."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.core.config import Count, PositionConfig, Positive

EPS = 1e-8
"""What sharpening adds before it takes a power."""

MOVES = 5
"""Weights of a step: inc, dec, keep, to0, to1."""


class PrismConfig(PositionConfig):
    """Options of :class:`~pyanticip.models.parts.positions.prism.module.PrismPositions`."""

    kind: str = "prism"
    cursors: Count = 8
    """Query cursors, and as many key cursors; all layers and heads share them."""
    width: Annotated[int, Field(ge=2, le=65_536, multiple_of=2)] = 32
    """Numbers in the place of one cursor."""
    places: Annotated[int, Field(ge=3, le=1_048_576)] = 256
    """Places that a cursor can be at; it stays at the last one when it would go further."""
    hidden: Count = 100
    """Width of the recurrent network that decides how cursors move."""
    sharpen: bool = True
    """Whether histograms are raised to a learned power above 1 after every step."""
    copying: bool = Field(default=False, alias="copy")
    """Whether one query cursor in five can jump to where an earlier key stands; the keys' cursors that belong
    to those only count steps."""
    copy_width: Count = 32
    """Width of the attention that says where to."""
    absolute: bool = False
    """Whether the number of the step stands beside the cursors, as one more."""
    norm: Literal["row", "fixed"] = "row"
    """Vectors of a step are brought to one length: ``"row"`` each by its own, ``"fixed"`` by the constant
    that does so where cursors are at one place each."""
    orthogonal: Literal["exact", "penalty", "none"] = "exact"
    """Recurrence of each gate: ``"exact"`` stays orthogonal, ``"penalty"`` starts so and is held near it by a
    penalty in the loss, ``"none"`` neither."""
    reset: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """Chance of a reset before training."""
    spread: Annotated[float, Field(ge=0.0, lt=100.0)] = 0.0
    """Standard deviation, in logits, by which cursors differ in their habits before training."""
    alpha: Positive = 1.0
    """Where the weights of cursors in attention start, on average; spread over half of that and one and a
    half times that."""
    base: Annotated[float, Field(gt=1.0, lt=1e12)] = 10_000.0
    """Longest wave of the sinusoids, over two pi."""
    again: Annotated[int, Field(ge=0, le=256)] = 0
    """Layer of a plain transformer, counted from 1, before which new places are made from what the stream is
    there; 0 for none."""

    @model_validator(mode="after")
    def _check(self) -> "PrismConfig":
        if not self.copying and self.copy_width != 32:
            raise OptionError(f"positions option copy_width={self.copy_width} does nothing with copy=False")
        return self
