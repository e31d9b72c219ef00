"""Options of a fit, shared by the command line, the fitting process and the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationError

from pyanticip.errors import OptionError
from pyanticip.options import Options, first_problem, option

Kind = Literal["ridge", "knn", "mlp"]

Beyond = Literal["play", "hold", "neutral"]
BEYOND: tuple[Beyond, ...] = get_args(Beyond)
"""What outputs do where a movement is unlike everything taught: play on, hold, go to neutral."""

INPUT_BLOCKS = ("body", "hidden")
"""Blocks of features that a head's inputs are composed of, in this order."""


def check_blocks(blocks: str | Sequence[str]) -> tuple[str, ...]:
    """Input blocks in their canonical order, from a sequence of names or a comma-separated string.

    Raises:
        OptionError: an unknown or repeated block, or none.
    """
    names = [str(block).strip() for block in (blocks.split(",") if isinstance(blocks, str) else blocks)]
    if not names or any(block not in INPUT_BLOCKS for block in names) or len(set(names)) != len(names):
        raise OptionError(
            f"inputs: expected some of {', '.join(INPUT_BLOCKS)}, each once, got {', '.join(names)}"
        )
    return tuple(block for block in INPUT_BLOCKS if block in names)


@contextmanager
def collect_refusals(refused: list[str] | None) -> Iterator[None]:
    """Append the message of an OptionError raised within to ``refused``; None: let it be raised."""
    try:
        yield
    except OptionError as error:
        if refused is None:
            raise
        refused.append(str(error))


def _joined_blocks(blocks: Any) -> str | None:
    try:
        return None if blocks is None else ",".join(check_blocks(blocks))
    except OptionError as error:
        raise ValueError(str(error).removeprefix("inputs: ")) from None


class FitOptions(Options):
    """Options of a fit.

    Raises:
        OptionError: an invalid value.
    """

    kind: Literal["auto", Kind] = option("Kind of head; auto: the best by cross-validation.", "auto")
    lead_ms: Annotated[int, Field(ge=0, le=400, multiple_of=20)] = option(
        "Predict this far ahead: 0..400 ms in steps of 20.", 0, metavar="MS"
    )
    inputs: Annotated[str | None, BeforeValidator(_joined_blocks)] = option(
        "Inputs of the heads; by default the best by cross-validation.", None, metavar="body,hidden"
    )
    beyond: Beyond = option("What to do far from all taught examples.", "play")
    novelty: Annotated[float, Field(ge=0.1, le=1000.0)] = option(
        "Novelty from which --beyond applies; 1: exceeded by 5 % of a left-out take.", 2.0
    )

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise OptionError(first_problem(error)) from None

    @property
    def blocks(self) -> tuple[str, ...] | None:
        """Input blocks of the heads; None: chosen by cross-validation."""
        return None if self.inputs is None else check_blocks(self.inputs)
