"""Cues: moments of a rehearsed take that are announced ahead of time."""

from typing import Annotated

from pydantic import Field

from pyanticip.options import Options


class Cue(Options):
    """A moment of a rehearsed take, announced ``ahead_ms`` before the performer reaches it.

    ``name`` is sent to receivers: letters, digits, ``-`` and ``_``. ``at`` are seconds from the take's start.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
    take: str
    at: Annotated[float, Field(ge=0.0, le=36_000.0)]
    ahead_ms: Annotated[float, Field(ge=0.0, le=2000.0)] = 200.0
