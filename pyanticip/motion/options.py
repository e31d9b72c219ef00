"""Command-line options for what a motion file leaves unsaid."""

import contextlib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from pyanticip.motion.units import RATE_LIMITS, metres_per_unit
from pyanticip.options import Options, PathText, option


def _unit(value: str | float) -> str | float:
    """Validate a unit: its name, or metres per unit as a number or text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    metres_per_unit(value, 1.0)
    return value


class BodyOptions(Options):
    """Interpretation of a skeleton: up axis, rest pose, joints; see :func:`pyanticip.load_motion`."""

    up: Literal["y", "z", "x", "-y", "-z", "-x"] | None = option(
        "Up axis of the file, or of the skeleton that the suit sends.", None
    )
    rest: Annotated[int, Field(ge=0)] | None = option(
        "Index of a frame in a T-pose or standing straight.", None, metavar="FRAME"
    )
    joints: PathText | None = option(
        "Joint map (TOML; `info FILE --joints` writes one).", None, metavar="MAP"
    )

    def body(self) -> dict[str, Any]:
        """The body options that were given, by name."""
        return self.model_dump(include=set(BodyOptions.model_fields), exclude_none=True)


class ReadingOptions(BodyOptions):
    """How a motion file is read; see :func:`pyanticip.load_motion`."""

    skeleton: PathText | None = option("The ASF file of an AMC file.", None, metavar="PATH", exists=True)
    rate: Annotated[float, Field(ge=RATE_LIMITS[0], le=RATE_LIMITS[1])] | None = option(
        "Frames per second of the file, in place of its own (AMC has none: 120).", None
    )
    units: Annotated[str | float, AfterValidator(_unit)] | None = option(
        "The file's unit of length: m, cm, mm, in, cmu, or its length in metres.", None, metavar="UNIT"
    )

    def reading(self) -> dict[str, Any]:
        """The options that were given, as keyword arguments of ``load_motion``."""
        return self.model_dump(include=set(ReadingOptions.model_fields), exclude_none=True)
