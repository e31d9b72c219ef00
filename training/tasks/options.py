"""What the commands that train can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pyanticip.options import JsonOption, option


class ForecastOptions(JsonOption):
    """Of ``train forecast``; what is not given is as in ``training.tasks.forecast.train``."""

    benchmark: Literal["cmu"] = option("Which one.", "cmu")
    data: Path = option("Folder with train/.", exists=True)
    out: Path = option("Folder of the run.", written=True)
    folds: int | None = option("Leave clips out in so many folds; complete ones stay.", None, ge=2)
    validation: int = option(
        "Number of the clip of every action that tells when to stop; 0: none.", 4, ge=0, le=5
    )
    refit: bool = option("Then train on all files up to that step.", True)
    steps: int | None = option("Updates of the schedule.", None, ge=1)
    every: int | None = option("Updates between looks at the clip that stops it.", None, ge=1)
    batch: int | None = option("Windows per update.", None, ge=1)
    lr: float | None = option("Peak learning rate.", None, gt=0)
    width: int | None = option("Width of the network.", None, ge=1)
    blocks: int | None = option("Depth of the network.", None, ge=1)
    swap: float | None = option("Share of windows with another window's legs.", None, ge=0, le=1)
    turn: float | None = option("Spread of the body's random turns, rad.", None, ge=0)
    noise: float | None = option('Spread of the observed positions, "mm".', None, ge=0)
    warp: float | None = option("Largest factor of speed.", None, ge=1, le=2)
    precision: Literal["32", "bf16"] | None = option("bf16: fast where there is AVX-512 BF16.", None)
    seed: int | None = option("Of every random choice.", None, ge=0)
    threads: int | None = option("Torch threads.", None, ge=1)

    def chosen(self) -> dict[str, Any]:
        """What decides the training, by name; None for what is not given."""
        own = {"benchmark", "data", "out", "folds", "validation", "refit"}
        return {name: value for name, value in self.but_json().items() if name not in own}


class TaskShowOptions(JsonOption):
    """Of ``tasks show``."""

    task: str = option("Its name.", argument=True)
    length: int | None = option("Of the examples; else up to the training length.", None, ge=1)
    count: int = option("Examples.", 5, ge=1, le=100_000)
    seed: int = option("Of the examples.", 0, ge=0)
    test: bool = option("From the test's source, where that is another.", False)


class TaskCheckOptions(JsonOption):
    """Of ``tasks check``."""

    task: str = option("Its name.", argument=True)
    texts: tuple[str, ...] = option("What is judged.", argument=True, metavar="TEXT...")


class TaskEvaluateOptions(JsonOption):
    """Of ``tasks evaluate``."""

    runs: tuple[Path, ...] = option("Runs.", argument=True, metavar="RUNS...", exists=True)
    lengths: str | None = option(
        "Such as 10,20,50.  [default: up to 15 times the longest training length]", None
    )
    samples: int = option("Of every length.", 1000, ge=1)
    long_samples: int | None = option("The same beyond 3 times the training length.", None, ge=1)
    checkpoints: int = option("The last ones of each run.", 5, ge=1)
    seed: int = option("Of the samples.", 0, ge=0)
    whole: bool = option("One pass over whole sequences: quicker than streaming, same figures.", False)


class TaskReportOptions(JsonOption):
    """Of ``tasks report``."""

    runs: tuple[Path, ...] = option("Runs.", argument=True, metavar="RUNS...", exists=True)
    out: Path | None = option("Folder of page.md and its pictures.", None, written=True)
    counters: bool = option("Draw the cursors before and after training.", True)
    brief: str = option("Tasks that share one table, without pictures; with commas.", "")
