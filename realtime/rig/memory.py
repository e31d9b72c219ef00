"""The table of what the performer did before."""

from __future__ import annotations

from pyanticip.options import Options, PathText, option

__all__ = ["MemoryRig"]


class MemoryRig(Options):
    """The memory of a rehearsal, mixed into the forecast by measured skill. ``learn``: the show is added to
    it; ``sha256``, where given, is that of the file."""

    enabled: bool = True
    file: PathText | None = option("Memory file written by `rehearse`.", None, metavar="PATH")
    learn: bool = True
    sha256: str | None = None
