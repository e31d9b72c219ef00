"""Options of the commands that run stages after training."""

from __future__ import annotations

from pathlib import Path

from pyanticip.options import CheckpointOption, JsonOption, Options, option
from training.data.options import DataOption

CACHE = "Folder of sets that are built on the way."


class HeadOptions(Options):
    """Training options of an event head."""

    copies: int = option("Variations of each clip.", 3, ge=0)
    faster: int = option("Sped-up copies of each clip.", 1, ge=0)
    steps: int = option("Training steps.", 1200, ge=1)
    seed: int = option("Random seed.", 0, ge=0)


class PosesHeadOptions(Options):
    """Training options of a pose head."""

    copies: int = option("Variations of each clip.", 24, ge=0)
    steps: int = option("Training steps.", 12_000, ge=1)
    seed: int = option("Random seed.", 0, ge=0)


class FinishOptions(DataOption, CheckpointOption, JsonOption):
    """Options shared by ``train beats`` and ``train poses``."""

    out: Path = option("Folder of the new checkpoint.", written=True)
    without: str = option("Leave these training subjects out and evaluate on them, e.g. 05,16.", "")
    cache: Path | None = option(CACHE, None)

    def subjects(self) -> tuple[str, ...]:
        """The subjects of ``without``, without duplicates."""
        return tuple(dict.fromkeys(name.strip() for name in self.without.split(",") if name.strip()))


class BeatsOptions(HeadOptions, FinishOptions):
    """Options of ``train beats``."""


class PosesOptions(PosesHeadOptions, FinishOptions):
    """Options of ``train poses``."""


class PackagedOptions(DataOption, JsonOption):
    """Options of ``train packaged``."""

    data: Path = option("The takes (a folder with cmu/ and more/), or a set.", variable="PYANTICIP_DATA")
    out: Path = option(
        "Folder of the stages; an interrupted run continues.", Path("runs/packaged"), written=True
    )
    recipe: Path | None = option("Recipe (TOML); the packaged model's by default.", None, exists=True)
    cache: Path | None = option(CACHE, None)
