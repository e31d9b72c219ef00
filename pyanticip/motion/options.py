"""Options that help a motion file which does not say what it means."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pyanticip.options import Options, option

__all__ = ["BodyOptions", "ReadingOptions"]


class BodyOptions(Options):
    """What a skeleton means that does not say it; see :func:`pyanticip.load_motion`."""

    up: Literal["y", "z", "x", "-y", "-z", "-x"] | None = option("The axis that is up in the file.", None)
    rest: Annotated[int, Field(ge=0)] | None = option(
        "A frame in which it stands straight or in a T-pose.", None, metavar="FRAME"
    )
    joints: str | None = option(
        "Which joint is which (TOML; `info FILE --joints` writes it).", None, metavar="MAP"
    )

    def body(self) -> dict[str, Any]:
        """What was given, by name."""
        given = {"up": self.up, "rest": self.rest, "joints": self.joints}
        return {name: value for name, value in given.items() if value is not None}


class ReadingOptions(BodyOptions):
    """How a motion file is read; see :func:`pyanticip.load_motion`."""

    skeleton: str | None = option("The ASF file of an AMC file.", None, metavar="PATH")

    def reading(self) -> dict[str, Any]:
        """What was given, as options of ``load_motion``."""
        return {**self.body(), **({} if self.skeleton is None else {"skeleton": self.skeleton})}
