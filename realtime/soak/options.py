"""What `pyanticip soak` can be told."""

from __future__ import annotations

from pathlib import Path

from pyanticip.options import JsonOption, option


class SoakOptions(JsonOption):
    """Of ``soak``."""

    hours: float = option("How long to play.", 1.0, gt=0, le=168)
    kills: int = option("In its place: so many short shows, each killed.", 0, ge=0, le=10_000, metavar="N")
    seed: int = option("Of what happens when.", 0, ge=0)
    out: Path = option("A new folder: report, picture, recordings.", Path("soak"), written=True)
