"""How to fit: declared once, for the command line, for a fit in a process of its own and for the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationError

from pyanticip.errors import OptionError
from pyanticip.options import Options, first_problem, option

__all__ = ["BEYOND", "BLOCKS", "KINDS", "Beyond", "FitOptions", "Kind", "check_blocks", "telling"]

Kind = Literal["ridge", "knn", "mlp"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Beyond = Literal["play", "hold", "neutral"]
BEYOND: tuple[Beyond, ...] = get_args(Beyond)
"""What outputs do where a movement is like nothing that was shown: play on, hold, go to neutral."""

BLOCKS = ("body", "hidden")
"""What inputs are made of, in this order."""


def check_blocks(blocks: str | Sequence[str]) -> tuple[str, ...]:
    """Blocks of inputs in their order, given as names or as a string with commas.

    Raises:
        OptionError: unknown ones, one twice, none.
    """
    given = blocks.split(",") if isinstance(blocks, str) else blocks
    names = [str(block).strip() for block in given]
    if not names or any(block not in BLOCKS for block in names) or len(set(names)) != len(names):
        raise OptionError(f"inputs: expected some of {', '.join(BLOCKS)}, each once, got {', '.join(names)}")
    return tuple(block for block in BLOCKS if block in names)


@contextmanager
def telling(refused: list[str] | None) -> Iterator[None]:
    """What cannot be fitted in here is told in ``refused``; None: it is raised."""
    try:
        yield
    except OptionError as error:
        if refused is None:
            raise
        refused.append(str(error))


def _joined(blocks: Any) -> str | None:
    try:
        return None if blocks is None else ",".join(check_blocks(blocks))
    except OptionError as error:
        raise ValueError(str(error).removeprefix("inputs: ")) from None


class FitOptions(Options):
    """How to fit.

    Raises:
        OptionError: a value that makes no sense.
    """

    kind: Literal["auto", Kind] = option("Kind of head; auto: the best by cross-validation.", "auto")
    lead_ms: Annotated[int, Field(ge=0, le=400, multiple_of=20)] = option(
        "Predict this far ahead: 0..400 ms in steps of 20.", 0
    )
    inputs: Annotated[str | None, BeforeValidator(_joined)] = option(
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
        """What heads see, block by block; None: what is best."""
        return None if self.inputs is None else check_blocks(self.inputs)
