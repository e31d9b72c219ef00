"""Command-line options of the training commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pyanticip.errors import OptionError
from pyanticip.options import JsonOption, Overrides, option
from training.data.manifest import check_motion
from training.data.options import DataOption
from training.tasks.algorithmic.options import TaskOptions
from training.tasks.forecast.options import ForecastOptions as ForecastTrainOptions
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.token.options import PRESETS, SYNTHETIC, LanguageOptions

# For each command: names of short command-line options and the dotted option each of them sets.
RUN = {name: f"run.{name}" for name in ("precision", "accumulate", "device", "threads")}
SCHEDULE = {"steps": "schedule.steps", "lr": "schedule.peak_lr", "seed": "schedule.seed"}
MOTION = {
    "data": "data.path",
    **SCHEDULE,
    "batch_frames": "schedule.batch_frames",
    "patience": "schedule.patience",
    "copies": "data.copies",
    "cache": "data.cache",
    "init": "run.init",
    **RUN,
    "workers": "run.workers",
}
LANGUAGE = {
    "data": "data.path",
    **{name: f"data.{name}" for name in ("valid", "tokenizer", "vocab", "seq_len")},
    "kind": "kind",
    "size": "size",
    **SCHEDULE,
    "batch": "schedule.batch",
    "scalars": "loss.scalars",
    **RUN,
}
TASK = {
    "longest": "data.longest",
    "steps": "schedule.steps",
    "batch": "schedule.batch",
    "lr": "schedule.peak_lr",
    "device": "run.device",
    "threads": "run.threads",
}
FORECAST = {
    "data": "data.path",
    "validation": "data.validation",
    "refit": "run.refit",
    **SCHEDULE,
    "batch": "schedule.batch",
    "every": "run.validate_every",
    **{name: f"data.{name}" for name in ("swap", "warp")},
    "precision": "run.precision",
    "threads": "run.threads",
}


class TrainOptions(JsonOption):
    """Options shared by the commands that train from a table of options."""

    out: Path = option("Folder of the run.", written=True)
    over: dict[str, Any] = {}
    config: Path | None = option("TOML file of options.", None, exists=True)
    settings: tuple[str, ...] = option(
        "Set any option, also model.NAME; repeatable.", (), flag="--set", metavar="NAME=VALUE"
    )
    resume: bool = option("Continue the interrupted run in --out.", False)

    def overrides(self) -> dict[str, Any]:
        """Options given on the command line, by name."""
        return self.over


class MotionOptions(TrainOptions):
    """Options of ``train motion``."""

    over: Annotated[dict[str, Any], Overrides(MotionTrainOptions, MOTION)] = {}

    def check(self) -> None:
        """Also check the training options, and that the data path holds motion."""
        super().check()
        over = MotionTrainOptions.assignments(self.settings, self.over)
        # A resumed run keeps its own options: only those of the command line can be checked here.
        data = over.get("data", {}) if self.resume else MotionTrainOptions.gather(self.config, over).data
        path = data.get("path") if isinstance(data, dict) else data.path
        if path:
            check_motion(Path(path))


class LanguageTrainOptions(TrainOptions):
    """Options of ``train language``."""

    over: Annotated[dict[str, Any], Overrides(LanguageOptions, LANGUAGE)] = {}
    preset: Literal["smoke"] | None = option("Options of the paper's smoke test.", None)

    def check(self) -> None:
        """Also check the training options, and that the text files exist."""
        super().check()
        over = LanguageOptions.assignments(self.settings, self.over)
        if not self.resume:
            defaults = {} if self.preset is None else PRESETS[self.preset]
            data = LanguageOptions.gather(self.config, over, under=defaults).data
            for path in (data.path, data.valid):
                if path and path != SYNTHETIC:
                    Path(path).stat()


class CompletionOptions(DataOption, JsonOption):
    """Options of ``train completion``."""

    out: Path = option("Weights file (safetensors).", written=True)
    steps: int = option("Training steps.", 10_000, ge=1)
    seed: int = option("Random seed.", 0, ge=0)
    threads: int = option("Torch threads.", 1, ge=1, le=1000)
    cache: Path | None = option("Cache folder for data sets.", None)


class GhostOptions(CompletionOptions):
    """Options of ``train ghost``."""

    out: Path = option("Folder of the checkpoint.", written=True)
    steps: int = option("Training steps.", 3_000, ge=1)


class TaskTrainOptions(JsonOption):
    """Options of ``tasks train``."""

    out: Path = option("Folder of the runs; finished runs are kept.", written=True)
    task: str = option("Task; `pyanticip tasks list` lists them.")
    positions: str = option(
        "prism, sinusoidal (randomly shifted), rope, alibi, none; comma-separated; or all.", "prism"
    )
    seeds: str = option("Seeds, e.g. 0-4 or 0,2,7.", "0")
    over: Annotated[dict[str, Any], Overrides(TaskOptions, TASK)] = {}
    paper: bool = option("Start from the paper's sizes, rates and steps (for a GPU).", False)
    settings: tuple[str, ...] = option(
        "Set any other option; repeatable.", (), flag="--set", metavar="NAME=VALUE"
    )


class ForecastOptions(TrainOptions):
    """Options of ``train forecast``."""

    benchmark: Literal["cmu"] = option("Benchmark.", "cmu")
    folds: int | None = option(
        "Cross-validate in this many folds of clips; finished folds are kept.", None, ge=2
    )
    over: Annotated[dict[str, Any], Overrides(ForecastTrainOptions, FORECAST)] = {}
    width: int | None = option("Width of the network.", None, ge=1)
    blocks: int | None = option("Depth of the network.", None, ge=1)

    def overrides(self) -> dict[str, Any]:
        """Options given on the command line, by name, including the model's sizes."""
        return {**super().overrides(), "model.width": self.width, "model.blocks": self.blocks}

    def resolved_options(self) -> ForecastTrainOptions:
        """The resolved training options, the same for every fold."""
        over = ForecastTrainOptions.assignments(self.settings, self.overrides())
        return ForecastTrainOptions.gather(self.config, over)

    def check(self) -> None:
        """Also check the training options, and that the benchmark's files exist."""
        super().check()
        if self.folds and self.resume:
            raise OptionError("--folds: resumes by itself, without --resume")
        data = self.resolved_options().data
        if self.folds and "validation" in data.model_fields_set:
            raise OptionError("--folds: leaves every clip out once, without --validation")
        path = data.path
        if path or not self.resume:
            (Path(path) / "train").stat()


class TaskShowOptions(JsonOption):
    """Options of ``tasks show``."""

    task: str = option("Its name.", argument=True)
    length: int | None = option("Length of the examples; up to the training length by default.", None, ge=1)
    count: int = option("Number of examples.", 5, ge=1, le=100_000)
    seed: int = option("Random seed of the examples.", 0, ge=0)
    test: bool = option("Draw from the test distribution, where it differs.", False)


class TaskCheckOptions(JsonOption):
    """Options of ``tasks check``."""

    task: str = option("Its name.", argument=True)
    texts: tuple[str, ...] = option("Texts to check.", argument=True, metavar="TEXT...")


class TaskEvaluateOptions(JsonOption):
    """Options of ``tasks evaluate``."""

    runs: tuple[Path, ...] = option("Run folders.", argument=True, metavar="RUN...", exists=True)
    lengths: str | None = option(
        "Lengths, e.g. 10,20,50.  [default: up to 15 times the longest training length]", None
    )
    samples: int = option("Samples per length.", 1000, ge=1)
    long_samples: int | None = option("Samples per length beyond 3 times the training length.", None, ge=1)
    checkpoints: int = option("Number of last checkpoints of each run.", 5, ge=1)
    seed: int = option("Random seed of the samples.", 0, ge=0)
