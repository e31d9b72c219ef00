"""Cues: moments of a rehearsal that are said a chosen time ahead."""

from typing import Annotated

from pydantic import Field

from pyanticip.options import Options

__all__ = ["Cue"]


class Cue(Options):
    """A moment of a rehearsed take: said ``ahead_ms`` before the performer comes to it.

    ``name`` is what receivers are told, letters, digits, ``-`` and ``_``; ``at`` are seconds of the ``take``.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
    take: str
    at: Annotated[float, Field(ge=0.0, le=36_000.0)]
    ahead_ms: Annotated[float, Field(ge=0.0, le=2000.0)] = 200.0
