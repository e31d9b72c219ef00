"""All options of the training of a forecaster."""

import math
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.forecast.manifest import ForecastConfig
from training.run.options import (
    AveragedScheduleOptions,
    Betas,
    Options,
    RunOptions,
    Text,
    Texts,
    TrainOptions,
)
from training.tasks.forecast.cmu import MIRROR, OBSERVED, PREDICTED, TARGET


class Variation(Options):
    """Augmentation of the drawn windows."""

    warp: float = Field(default=1.25, ge=1, le=2)
    """Maximum factor of speed, up or down."""
    mirror: float = Field(default=0.5, ge=0, le=1)
    """Share of mirrored windows."""
    swap: float = Field(default=0.25, ge=0, le=1)
    """Share of windows with another window's legs."""
    arms: float = Field(default=0.25, ge=0, le=1)
    """Share of windows with another window's arm, for each arm independently."""

    @model_validator(mode="before")
    @classmethod
    def _drop_removed(cls, values: Any) -> Any:
        """Ignore two options of older versions, which no run used."""
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if name not in ("turn", "noise") or value}


class DataOptions(Variation):
    """Training data."""

    path: Text = ""
    """Folder with train/."""
    validation: int = Field(default=4, ge=0, le=5)
    """Number of the validation clip of every action, which selects the best step; 0: none."""
    leave_out: Texts = ()
    """Names of further clips that are not trained on."""


class ForecastScheduleOptions(AveragedScheduleOptions):
    """Optimiser and learning-rate schedule."""

    FINAL: ClassVar[float] = 0.01

    steps: int = Field(default=3000, ge=1)
    """Training steps (updates of the weights)."""
    batch: int = Field(default=256, ge=1)
    """Windows per update."""
    peak_lr: float = Field(default=1e-3, gt=0, le=10)
    """Peak learning rate."""
    warm_up_steps: int = Field(default=100, ge=0)
    """Steps over which the rate rises linearly."""
    weight_decay: float = Field(default=0.02, ge=0, le=10)
    """Weight decay of matrices."""
    betas: Betas = (0.9, 0.98)
    """Decay rates of AdamW's averages of the gradient and of its square."""
    stop: int | None = Field(default=None, ge=1)
    """Stop at the first validation from this update on; the learning rate still follows all steps."""

    def average_decay(self, done: int) -> float:
        """See :meth:`~training.run.options.AveragedScheduleOptions.average_decay`."""
        return min(self.ema, done / (done + 10.0))

    def learning_rate(self, step: int) -> float:
        """Learning rate of update ``step`` (from 0): a cosine over the whole run, times a linear warm-up."""
        fall = 0.5 * (1.0 + math.cos(math.pi * (step + 1) / self.steps))
        rise = min(1.0, (step + 1) / max(self.warm_up_steps, 1))
        return self.peak_lr * rise * (self.final_share + (1.0 - self.final_share) * fall)


class ForecastRunOptions(RunOptions):
    """Execution and validation of a run."""

    precision: Literal["32", "bf16"] = "32"
    """Numerical precision; bf16 is fast on CPUs with AVX-512 BF16."""
    device: Literal["cpu"] = "cpu"
    """Compute device."""
    accumulate: Literal[1] = 1
    """Updates are always computed in one part."""
    threads: int = Field(default=1, ge=1, le=1000)
    """Torch threads."""
    validate_every: int = Field(default=250, ge=1)
    """Updates between validations."""
    refit: bool = True
    """Finally train again on all files, up to the best step."""


class ForecastOptions(TrainOptions):
    """One training run of a forecaster; ``model`` has fields of
    :class:`~pyanticip.models.forecast.manifest.ForecastConfig`.

    Raises:
        OptionError: a value is out of range; the message names table, option and value.
    """

    data: DataOptions = DataOptions()
    schedule: ForecastScheduleOptions = ForecastScheduleOptions()
    run: ForecastRunOptions = ForecastRunOptions()

    EXECUTION: ClassVar[tuple[str, ...]] = (*TrainOptions.EXECUTION, "data.path")
    """Also the path of the files: a resumed run compares their names and hashes instead."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        cfg = self.config()
        if (cfg.joints, cfg.observed, cfg.target) != (len(PREDICTED), OBSERVED, TARGET):
            raise OptionError(
                f"the benchmark needs a model of {len(PREDICTED)} joints, {OBSERVED} observed and {TARGET} "
                f"target frames, got {cfg.joints}, {cfg.observed} and {cfg.target}"
            )
        return self

    def config(self) -> ForecastConfig:
        """The model's configuration.

        Raises:
            OptionError: an unknown field, or a value out of range.
        """
        return ForecastConfig.from_dict({"mirror": list(MIRROR), **self.model})
