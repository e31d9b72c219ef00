"""What the commands that judge can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pyanticip.errors import OptionError
from pyanticip.options import JsonOption, option
from training.data.manifest import check_motion

Fold = Annotated[int, Field(ge=1)]


class MotionOptions(JsonOption):
    """Of ``evaluate motion``."""

    data: Path = option("A set, or a folder of takes.")
    checkpoint: Path | None = option("Its folder; the packaged one by default.", None, exists=True)
    split: Literal["validation", "test"] = option("Which people.", "validation")
    subjects: str | None = option("Judge these instead, such as 02,05,09 left out of a run's training.", None)
    report: Path | None = option("Folder, NAME.html or NAME.md for the report.", None, written=True)
    manifest: Path | None = option(
        "MANIFEST.csv: what the takes show; by default what the set says.", None, exists=True
    )
    seeds: int = option("How many recurrent rivals are trained.", 1, ge=1, le=10)
    cache: Path | None = option("Folder of sets and rivals that are made on the way.", None)
    retune: Path | None = option("Tune the simple rivals anew, into this folder.", None)

    def check(self) -> None:
        """As for all, and whether the data are any."""
        super().check()
        check_motion(self.data)


class LanguageOptions(JsonOption):
    """Of ``evaluate language``."""

    runs: tuple[Path, ...] = option("Runs.", argument=True, metavar="RUN...", exists=True)
    report: Path | None = option("Folder for report.html, .md and .json.", None, written=True)
    sequences: int = option("Held-out sequences, at most.", 256, ge=1)
    drift_steps: int = option("Self-predicted steps, at least 20; 0: none.", 5000, ge=0)
    which: Literal["best", "last"] = option("Weights.", "best")
    seed: int = option("Of the intervals.", 0, ge=0)

    def check(self) -> None:
        """As for all, and whether the steps make ten blocks that vary."""
        super().check()
        if 0 < self.drift_steps < 20:
            raise OptionError(f"--drift-steps: expected 0 or at least 20, got {self.drift_steps}")


class ForecastOptions(JsonOption):
    """Of ``evaluate forecast``."""

    benchmark: Literal["cmu"] = option("Which one.", "cmu")
    data: Path | None = option("Folder with train/ and test/.", None, exists=True)
    split: Literal["train", "test"] = option("Which files.", "test")
    checkpoint: Path | None = option(
        "Run or checkpoint folder of train forecast: adds its row.", None, exists=True
    )
    folds: Path | None = option(
        "Folder of train forecast --folds: judge the clips left out.", None, exists=True
    )
    without: tuple[Fold, ...] = option("Leave this fold aside; repeatable.", ())
    page: Path | None = option(
        "Folder for report.html, .md, .json and the picture.", None, flag="--report", written=True
    )

    def check(self) -> None:
        """As for all, and whether the folds stand alone."""
        if self.folds is not None and (self.data is not None or self.checkpoint is not None):
            raise OptionError("--folds stands alone: its scores are in its folder")
        if self.folds is None and self.data is None:
            raise OptionError("expected --data, or --folds")
        if self.folds is None and self.without:
            raise OptionError("--without goes with --folds")
        super().check()


class SensorsOptions(JsonOption):
    """Of ``evaluate sensors``."""

    data: Path = option("A set, or a folder of takes.")
    split: Literal["train", "validation", "test"] = option("Which people.", "validation")
    every: int = option("Judge every Nth clip; 1: all of them.", 1, ge=1)
    cache: Path | None = option("Folder of sets that are made on the way.", None)

    def check(self) -> None:
        """As for all, and whether the data are any."""
        super().check()
        check_motion(self.data)


class TempoOptions(JsonOption):
    """Of ``evaluate tempo``."""

    data: Path = option("A set, or a folder of takes.")
    split: Literal["train", "validation", "test"] = option("Which people.", "validation")
    cache: Path | None = option("Folder of sets that are made on the way.", None)

    def check(self) -> None:
        """As for all, and whether the data are any."""
        super().check()
        check_motion(self.data)


class GhostOptions(TempoOptions):
    """Of ``evaluate ghost``."""

    checkpoint: Path | None = option("Another forecaster than the built-in one (a folder).", None)


class FollowingOptions(JsonOption):
    """Of ``evaluate following``."""

    data: Path = option("Folder with cmu/, more/ and repeats.csv.", exists=True)
    side: Literal["others", "chosen"] = option(
        "People: those the constants were chosen on, or others.", "others"
    )
    copies: int = option("Warped copies of takes.", 90, ge=3)
    seed: int = option("Of the warps.", 0, ge=0)
    picture: Path | None = option("PNG to draw a performance into.", None, written=True)
