"""Command-line options of ``evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pyanticip.errors import OptionError
from pyanticip.options import JsonOption, option
from training.data.options import DataOption

Fold = Annotated[int, Field(ge=1)]


class MotionOptions(DataOption, JsonOption):
    """Options of ``evaluate motion``."""

    checkpoint: Path | None = option("Checkpoint folder; the packaged one by default.", None, exists=True)
    split: Literal["validation", "test"] = option("Side of the split.", "validation")
    subjects: str | None = option(
        "Evaluate these subjects instead, e.g. 02,05,09 left out of the run's training.", None
    )
    report: Path | None = option("Report: a folder, NAME.html or NAME.md.", None, written=True)
    manifest: Path | None = option(
        "MANIFEST.csv with the takes' kinds of movement; by default as in the set.", None, exists=True
    )
    seeds: int = option("Number of recurrent baselines to train.", 1, ge=1, le=10)
    cache: Path | None = option("Cache folder for data sets and trained baselines.", None)
    retune: Path | None = option("Tune the simple baselines again, into this folder.", None)

    @property
    def people(self) -> tuple[str, ...]:
        """Names in ``--subjects``; empty if not given."""
        return tuple(name.strip() for name in (self.subjects or "").split(",") if name.strip())

    def check(self) -> None:
        """Also check that ``--subjects`` has names."""
        super().check()
        if self.subjects is not None and not self.people:
            raise OptionError(f"option --subjects: expected names, like 02,05,09, got {self.subjects!r}")


class LanguageOptions(JsonOption):
    """Options of ``evaluate language``."""

    runs: tuple[Path, ...] = option("Run folders.", argument=True, metavar="RUN...", exists=True)
    report: Path | None = option("Folder for report.html, .md and .json.", None, written=True)
    sequences: int = option("Held-out sequences at most.", 256, ge=1)
    drift_steps: int = option("Self-predicted steps; 0: none, else at least 20.", 5000, ge=0)
    which: Literal["best", "last"] = option("Weights to evaluate.", "best")
    seed: int = option("Random seed of the confidence intervals.", 0, ge=0)

    def check(self) -> None:
        """Also check that there are enough drift steps for ten blocks with a deviation."""
        super().check()
        if 0 < self.drift_steps < 20:
            raise OptionError(f"--drift-steps: expected 0 or at least 20, got {self.drift_steps}")


class ForecastOptions(JsonOption):
    """Options of ``evaluate forecast``."""

    benchmark: Literal["cmu"] = option("Benchmark.", "cmu")
    data: Path | None = option("Folder with train/ and test/.", None, exists=True)
    split: Literal["train", "test"] = option("Files to evaluate.", "test")
    checkpoint: Path | None = option(
        "Run or checkpoint folder of train forecast, added as a row.", None, exists=True
    )
    folds: Path | None = option(
        "Folder of train forecast --folds: evaluate its left-out clips.", None, exists=True
    )
    without: tuple[Fold, ...] = option("Skip this fold; repeatable.", ())
    page: Path | None = option(
        "Folder for report.html, .md, .json and the picture.", None, flag="--report", written=True
    )

    def check(self) -> None:
        """Also check that ``--folds`` is not combined with other data."""
        if self.folds is not None and (self.data is not None or self.checkpoint is not None):
            raise OptionError("--folds excludes --data and --checkpoint: its scores are in its folder")
        if self.folds is None and self.data is None:
            raise OptionError("expected --data, or --folds")
        if self.folds is None and self.without:
            raise OptionError("--without goes with --folds")
        super().check()


class TempoOptions(DataOption, JsonOption):
    """Options of ``evaluate tempo``."""

    split: Literal["train", "validation", "test"] = option("Side of the split.", "validation")
    cache: Path | None = option("Cache folder for data sets.", None)


class SensorsOptions(TempoOptions):
    """Options of ``evaluate sensors``."""

    every: int = option("Evaluate every Nth clip.", 1, ge=1)


class GhostOptions(TempoOptions):
    """Options of ``evaluate ghost``."""

    checkpoint: Path | None = option("Checkpoint folder; the built-in forecaster by default.", None)


class FollowingOptions(JsonOption):
    """Options of ``evaluate following``."""

    data: Path = option("Folder with cmu/, more/ and repeats.csv.", exists=True, variable="PYANTICIP_DATA")
    side: Literal["others", "chosen"] = option(
        "Subjects: those on whom the constants were chosen, or others.", "others"
    )
    copies: int = option("Number of warped copies.", 90, ge=3)
    seed: int = option("Random seed of the warps.", 0, ge=0)
    picture: Path | None = option("PNG file for a plot of one performance.", None, written=True)
